"""Exemplar images in files of their own, for models that learn from features and not from the images themselves.

They are WebP files in the model's folder `exemplars`, named by the SHA-256 of their content and shared by all versions:
a version's record names those that belong to it. A file never changes. It is written and synced before the version
that names it, and removed when no version names it any more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from itaml.data.images import Shape
from itaml.data.webp import decode_webp, encode_webp
from itaml.errors import CheckpointError, ItamlError
from itaml.modelstore.checksummed_json import Pointer
from itaml.modelstore.file_checks import file_sum, read_checked, remove
from itaml.modelstore.manifest import FileSum, StoredImage
from itaml.modelstore.model_folder import EXEMPLARS, ModelFolder
from itaml.storage import sync_folder

LOSSLESS_SIDE = 64  # smaller images are kept as they are: compression would blur them, and they need little room
FILE = re.compile(r"[0-9a-f]{64}\.webp")

Contents = Mapping[str, bytes]  # SHA-256 -> bytes of a file


def encode(image: Tensor) -> bytes:
    """Return an image (1 or 3, h, w) of uint8 as a WebP file."""
    return encode_webp(image, lossless=min(image.shape[1:]) < LOSSLESS_SIDE, effort=0)


def decode(path: Path, data: bytes, shape: Shape) -> Tensor:
    """Return the image (c, h, w) of uint8 that a file holds; `path` is for messages.

    Raises:
        CheckpointError: it is not an image of that shape.
    """
    return decode_webp(data, shape, source=str(path))


def path_of(folder: ModelFolder, sha256: str) -> Path:
    """Return where a file is."""
    return folder.path / EXEMPLARS / f"{sha256}.webp"


def read_file(folder: ModelFolder, image: StoredImage) -> bytes:
    """Read the file of an image and compare its checksum.

    Raises:
        CheckpointError: it is missing, unreadable, changed, or not a regular file.
    """
    _refuse_link(folder)
    return read_checked(path_of(folder, image.sha256), FileSum(size=image.size, sha256=image.sha256))


def read_pixels(folder: ModelFolder, images: Iterable[StoredImage], shape: Shape, fresh: Contents) -> Tensor:
    """Return images (n, c, h, w); those in `fresh` need not be on disk yet (see `read_file` for errors)."""
    found = [
        decode(
            path_of(folder, image.sha256),
            fresh[image.sha256] if image.sha256 in fresh else read_file(folder, image),
            shape,
        )
        for image in images
    ]
    return torch.stack(found) if found else torch.empty(0, *shape, dtype=torch.uint8)


def write_files(folder: ModelFolder, contents: Contents) -> None:
    """Write files that are not there yet, synced; only inside `version_writer.changing`.

    Raises:
        OSError: the disk refused.
    """
    if not contents:
        return
    home = folder.path / EXEMPLARS
    _refuse_link(folder)
    home.mkdir(exist_ok=True)
    drafts = []
    for sha256, data in contents.items():
        path = path_of(folder, sha256)
        with suppress(CheckpointError):
            read_checked(path, file_sum(data))
            continue
        drafts.append((_write(path, data), path))
    for draft, _ in drafts:  # after all are written: the disk then has one batch to write, not one after another
        _sync(draft)
    for draft, path in drafts:
        draft.replace(path)
    sync_folder(home)  # once for all files: a sync for each would take longer than learning


def _write(path: Path, data: bytes) -> Path:
    draft = path.with_name(f".{path.name}")
    remove(draft)
    with open(draft, "xb") as file:
        file.write(data)
    return draft


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def sweep(folder: ModelFolder) -> None:
    """Remove files that no version names; nothing is removed while a record cannot be read."""
    home = folder.path / EXEMPLARS
    with suppress(ItamlError, OSError):
        if home.is_symlink() or not home.is_dir():
            return
        named = {
            image.sha256
            for number in folder.numbers()
            for image in folder.read_facts(Pointer(number, None))[0].stored_images
        }
        for path in home.iterdir():
            if path.name.startswith(".") or (FILE.fullmatch(path.name) and path.stem not in named):
                remove(path)


def _refuse_link(folder: ModelFolder) -> None:
    home = folder.path / EXEMPLARS
    if home.is_symlink():
        raise CheckpointError(f"{home} is a symbolic link, which is not followed; put the folder itself there")
