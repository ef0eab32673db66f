"""Zip files with a folder per class: sizes, ratios and numbers are limited, and names become labels, never paths."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from itaml.serve.api_errors import ApiError
from itaml.serve.job_records import StagedImage
from itaml.serve.service_options import Limits

RATIO = 200  # by which an image in an archive may be compressed
SMALL = 1 << 20  # bytes up to which the ratio does not matter
CHUNK = 1 << 18
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DEPTH = 2  # a class and a file
DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError, LookupError,
    OSError,
)  # fmt: skip


class Output(Protocol):
    """A staged file."""

    size: int

    def write(self, data: bytes) -> None:
        """Take bytes."""

    def sync(self) -> None:
        """Close it and have the disk keep it."""

    def staged(self, label: str) -> StagedImage:
        """Return what is kept about it."""


def read_archive(path: Path, create: Callable[[int, str], Output], limits: Limits) -> list[StagedImage]:
    """Unpack the images of an archive into numbered files.

    Args:
        path: the archive.
        create: opens the file of an image, by its number and name.
        limits: of the service.

    Raises:
        ApiError: it is not such an archive, or above a limit.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, limits)
            left, images = limits.upload_bytes, []
            for number, (label, info) in enumerate(members):
                output = create(number, Path(info.filename).name)
                try:
                    _unpack(archive, info, output, left)
                finally:
                    output.sync()
                left -= output.size
                images.append(output.staged(label))
            return images
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # the disk, not a place before the file's start
            raise
        raise ApiError(400, f"the archive cannot be read: {' '.join(str(error).split())[:200]}") from error


def _members(archive: zipfile.ZipFile, limits: Limits) -> list[tuple[str, zipfile.ZipInfo]]:
    """Return the images of an archive with their classes."""
    infos = [info for info in archive.infolist() if not info.is_dir() and not _hidden(info.filename)]
    if len(infos) > limits.upload_images:
        raise ApiError(413, f"the archive has more than the limit of {limits.upload_images} files")
    if not infos:
        raise ApiError(400, "the archive has no files")
    paths = [_parts(info.filename) for info in infos]
    while all(len(parts) > DEPTH for parts in paths) and len({parts[0] for parts in paths}) == 1:
        paths = [parts[1:] for parts in paths]  # one folder around all classes
    for info, parts in zip(infos, paths, strict=True):
        if len(parts) < DEPTH:
            raise ApiError(400, f"{info.filename!r:.100} is in no folder: an archive has a folder for each class")
        _check(info, limits)
    return [(parts[0], info) for parts, info in zip(paths, infos, strict=True)]


def _parts(name: str) -> list[str]:
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    if ".." in parts or "." in parts or name.startswith("/"):
        raise ApiError(400, f"{name!r:.100} is not a name that an archive may hold")
    return parts


def _hidden(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return "__MACOSX" in parts or any(part.startswith(".") and part != ".." for part in parts)


def _check(info: zipfile.ZipInfo, limits: Limits) -> None:
    if info.flag_bits & 0x1:
        raise ApiError(400, "the archive is encrypted")
    if info.compress_type not in METHODS:
        raise ApiError(400, "the archive uses a compression other than deflate")
    if info.file_size > limits.upload_bytes:
        raise _too_large(limits.upload_bytes)
    if info.file_size > SMALL and info.file_size > RATIO * max(info.compress_size, 1):
        raise ApiError(413, f"{info.filename!r:.100} is compressed by more than the limit of {RATIO} times")


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, output: Output, left: int) -> None:
    with archive.open(info) as member:
        while chunk := member.read(CHUNK):
            if output.size + len(chunk) > left:
                raise _too_large(left)
            output.write(chunk)


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"the archive unpacks to more than the limit of {limit} bytes")
