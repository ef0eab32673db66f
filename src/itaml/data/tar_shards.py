"""WebDataset shards: tar files whose members `KEY.jpg` and `KEY.cls` (or `KEY.json`) are an image and its label.

Every shard is read once to note where its images are; pixels are read and decoded when they are asked for, from a
copy of the shard in the cache. What a hostile archive can cost is bounded: members are never unpacked to files, links
and devices are passed over, and the sizes of members, labels and headers have limits.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from itaml import distributed
from itaml.data.decoding import BadImageError, Pixels, decode, extensions
from itaml.data.fitting import PLAIN, Fitting
from itaml.data.ownership import together
from itaml.data.remote_cache import RemoteCache
from itaml.errors import DataError
from itaml.safe_files import parse_json

MAX_MEMBERS = 10_000_000  # of a shard
MAX_IMAGE = 200_000_000  # bytes of an image
MAX_LABEL = 1_000_000  # bytes of a label file
MAX_HEADER = 1_000_000  # bytes that tarfile may read at once
MAX_KEY = 1000  # characters of a member's name
LABEL_KEYS = ("label", "cls", "class", "class_name")


@dataclass(frozen=True)
class Member:
    """One image of a shard."""

    key: str
    label: str
    offset: int
    size: int


def read_shard(path: Path, url: str) -> Iterator[Member]:
    """Yield the labelled images of a shard; an image without a label, or a label without an image, is passed over.

    Raises:
        DataError: it is no tar file, or goes beyond a limit.
    """
    try:
        with path.open("rb") as file, tarfile.open(fileobj=cast(IO[bytes], _Bounded(file)), mode="r:") as archive:
            yield from _members(archive, file, url)
    except (tarfile.TarError, ValueError, RecursionError, OverflowError, EOFError) as error:
        raise DataError(f"cannot read {url}: {error}") from error


def _members(archive: tarfile.TarFile, file: BinaryIO, url: str) -> Iterator[Member]:
    key, label, place = "", None, None
    for count, member in enumerate(archive):
        if count >= MAX_MEMBERS or len(member.name) > MAX_KEY:
            raise DataError(f"cannot read {url}: more than {MAX_MEMBERS} members, or a name of {len(member.name)}")
        if not 0 <= member.size <= MAX_IMAGE:
            raise DataError(f"cannot read {url}: {member.name[:80]} has {member.size} bytes")
        archive.members = []  # type: ignore[attr-defined]  # tarfile would keep them all
        folder, _, name = member.name.rpartition("/")
        stem, _, ending = name.partition(".")
        if not member.isreg() or not stem or member.sparse is not None:
            continue
        if (here := f"{folder}/{stem}") != key:  # the members of a sample follow each other
            key, label, place = here, None, None
        if f".{ending.lower()}" in extensions():
            place = (member.offset_data, member.size)
        elif ending in ("cls", "json"):
            label = _label(archive, member, ending, url)
        if label is not None and place is not None:
            yield Member(key.lstrip("/"), label, *place)
            key, label, place = "", None, None


def _label(archive: tarfile.TarFile, member: tarfile.TarInfo, ending: str, url: str) -> str | None:
    if member.size > MAX_LABEL:
        raise DataError(f"cannot read {url}: the label {member.name[:80]} has {member.size} bytes")
    file = archive.extractfile(member)
    data = b"" if file is None else file.read(MAX_LABEL)
    if ending == "cls":
        return data.decode("utf-8", "replace").strip()[:MAX_KEY] or None
    found = parse_json(data)
    value = next((found[key] for key in LABEL_KEYS if key in found), None) if isinstance(found, dict) else found
    return str(value)[:MAX_KEY] if isinstance(value, (str, int)) and not isinstance(value, bool) else None


class _Bounded:
    """A file of which no more than `MAX_HEADER` bytes are read at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.name = file.seek, file.tell, file.name

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= MAX_HEADER + tarfile.BLOCKSIZE:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._file.read(size)


@dataclass(frozen=True, eq=False)
class ShardImages:
    """Where the images of many shards are: 20 bytes per image, plus its key."""

    urls: tuple[str, ...]
    shard: npt.NDArray[np.int32]  # (n,) index of `urls`
    offset: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    cache: RemoteCache

    def __len__(self) -> int:
        return len(self.shard)

    def home(self, rows: Tensor) -> Tensor:
        """Return a number for each row (see `itaml.data.ownership`): a shard is fetched by one process."""
        return torch.from_numpy(self.shard)[rows].long()

    def image(self, row: int, size: int, max_pixels: int, fitting: Fitting = PLAIN) -> Pixels:
        """Read and decode an image (see `decode` for errors)."""
        url = self.urls[self.shard[row]]
        try:
            with self.cache.fetch(url).open("rb") as file:
                file.seek(int(self.offset[row]))
                data = file.read(int(self.size[row]))
            return decode(data, size=size, fitting=fitting, max_pixels=max_pixels)
        except BadImageError as error:
            raise BadImageError(f"{url} at byte {self.offset[row]}", error.reason) from error
        except (OSError, DataError) as error:
            raise BadImageError(url, str(error)) from error


def index_shards(urls: Sequence[str], cache: RemoteCache) -> tuple[ShardImages, list[str], list[str]]:
    """Read all shards once; return where their images are, and the key and the label of each.

    In a run over several processes each reads the shards that it owns, and all get the index of all.

    Raises:
        DataError: a shard cannot be read.
    """
    own = range(distributed.rank(), len(urls), distributed.size())
    parts = together(lambda: [(number, list(read_shard(cache.fetch(urls[number]), urls[number]))) for number in own])
    listed = sorted((shard for part in parts for shard in part), key=lambda shard: shard[0])
    keys = [member.key for _, members in listed for member in members]
    labels = [member.label for _, members in listed for member in members]
    places = [(number, member.offset, member.size) for number, members in listed for member in members]
    table = np.array(places, dtype=np.int64).reshape(-1, 3)
    images = ShardImages(tuple(urls), table[:, 0].astype(np.int32), table[:, 1], table[:, 2], cache)
    return images, keys, labels
