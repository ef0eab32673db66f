r"""Data sets at a URL: class folders, an index file, or WebDataset shards. Images are fetched when they are used.

| `folder:URL` | what is there |
|---|---|
| `s3://bucket/photos` | folders as in `itaml.data.sources.folder` |
| `https://host/index.csv` | lines `path,label` or `path,label,train\|test`, paths relative to the file |
| `https://host/shard-{000..009}.tar` | tar files with `KEY.jpg` and `KEY.cls` or `KEY.json` |
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from itaml.data.benchmarks import LoadOptions
from itaml.data.decoding import BadImageError, Pixels, decode, extensions
from itaml.data.fitting import PLAIN, Fitting
from itaml.data.image_files import FileIndex, FilePixels
from itaml.data.remote_cache import RemoteCache
from itaml.data.remote_files import expand_braces, is_inside, list_remote
from itaml.data.safe_reading import MAX_TEXT
from itaml.data.sources.folder import SIZE
from itaml.data.sources.tree import TEST_SHARE, choose_test_files, image_set
from itaml.data.stream import Dataset
from itaml.data.tar_shards import index_shards
from itaml.errors import DataError

TEST_NAMES = ("test", "val")


@dataclass(frozen=True, eq=False)
class RemoteIndex:
    """Files at URLs, whose local copies are made when they are wanted; takes the place of a `FileIndex`."""

    files: FileIndex
    cache: RemoteCache

    def __len__(self) -> int:
        return len(self.files)

    def home(self, rows: Tensor) -> Tensor:
        """Return a number for each row (see `itaml.data.ownership`): files are divided one by one."""
        return rows

    def image(self, row: int, size: int, max_pixels: int, fitting: Fitting = PLAIN) -> Pixels:
        """Fetch and decode an image (see `decode` for errors)."""
        url = f"{self.files.folders[self.files.folder_of[row]]}/{self.files.name(row)}"
        try:
            return decode(str(self.cache.fetch(url)), size=size, fitting=fitting, max_pixels=max_pixels)
        except BadImageError as error:
            raise BadImageError(url, error.reason) from error
        except DataError as error:
            raise BadImageError(url, str(error)) from error


def load(options: LoadOptions) -> Dataset:
    """Index the images at `options.url`.

    Raises:
        DataError: there are none, or the URL cannot be read.
        MissingExtraError: a package is missing.
    """
    cache = RemoteCache()
    url = options.url.rstrip("/")
    if url.endswith(".tar"):
        return _shards(url, options, cache)
    if url.endswith((".csv", ".tsv", ".txt")):
        return _listed(url, options, cache)
    return _folders(url, options, cache)


def _folders(url: str, options: LoadOptions, cache: RemoteCache) -> Dataset:
    names = [name for name in list_remote(url) if name.lower().endswith(extensions())]
    tops = {name.partition("/")[0] for name in names}
    test = next((part for part in TEST_NAMES if part in tops), None)
    split = {"train": "train", test: "test"} if "train" in tops and test else {}
    entries = []
    for name in names:
        top, _, rest = name.partition("/")
        label, inner = (rest.partition("/")[0], rest.partition("/")[2]) if split else (top, rest)
        if inner and (not split or top in split):
            entries.append((name, label, split.get(top, "")))
    return _dataset(url, url, entries, options, cache)


def _listed(url: str, options: LoadOptions, cache: RemoteCache) -> Dataset:
    path = cache.fetch(url)
    if path.stat().st_size > MAX_TEXT:
        raise DataError(f"{url} has {path.stat().st_size} bytes, more than the limit of {MAX_TEXT}")
    text = path.read_text(encoding="utf-8", errors="replace")
    entries = []
    for number, row in enumerate(csv.reader(text.splitlines(), delimiter="," if url.endswith(".csv") else "\t"), 1):
        if not row:
            continue
        name, label, part = [*(cell.strip() for cell in row), "", ""][:3]
        if not label or not is_inside(name) or part not in ("", "train", "test"):
            raise DataError(f"{url}, line {number}: not `path,label` or `path,label,train|test`, with a relative path")
        entries.append((name, label, part))
    return _dataset(url, url.rpartition("/")[0], entries, options, cache)


def _dataset(
    name: str, base: str, entries: Sequence[tuple[str, str, str]], options: LoadOptions, cache: RemoteCache
) -> Dataset:
    """Make a data set of (path, label, part) entries."""
    ordered = sorted(entries, key=lambda entry: (entry[1], entry[0]))
    files = [path for path, _, _ in ordered]
    index = RemoteIndex(FileIndex.build([(base, files)]), cache)
    names, labels = _numbered(name, [label for _, label, _ in ordered])
    given = np.array([part == "test" for _, _, part in ordered]) if any(part for _, _, part in ordered) else None
    pixels = FilePixels(index, options.image_size or SIZE, on_bad=options.on_bad_image)
    return _split(name, names, labels, files, pixels, given)


def _shards(url: str, options: LoadOptions, cache: RemoteCache) -> Dataset:
    images, keys, labels = index_shards(expand_braces(url), cache)
    names, numbers = _numbered(url, labels)
    pixels = FilePixels(images, options.image_size or SIZE, on_bad=options.on_bad_image)
    return _split(url, names, numbers, keys, pixels, None)


def _numbered(url: str, labels: Sequence[str]) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Return the names of the classes and the class of each label; numbers are ordered as numbers."""
    if not labels:
        raise DataError(f"{url}: no labelled images")
    found = set(labels)
    names = sorted(found, key=int) if all(label.isdecimal() for label in found) else sorted(found)
    number = {name: class_id for class_id, name in enumerate(names)}
    return tuple(names), np.fromiter((number[label] for label in labels), np.int64, len(labels))


def _split(
    name: str,
    names: tuple[str, ...],
    labels: npt.NDArray[np.int64],
    keys: Sequence[str],
    pixels: FilePixels,
    test: npt.NDArray[np.bool_] | None,
) -> Dataset:
    """Divide images into training and test images: as given, or by the CRC-32 of their names, as in folders."""
    if test is None:
        order = np.argsort(labels, kind="stable")
        counts = np.bincount(labels, minlength=len(names)).tolist()
        ends = np.cumsum([0, *counts])
        listings = [(names[c], [keys[i] for i in order[ends[c] : ends[c + 1]]]) for c in range(len(names))]
        test = np.zeros(len(labels), dtype=np.bool_)
        test[order] = choose_test_files(FileIndex.build(listings), TEST_SHARE)
    parts = [image_set(pixels, np.flatnonzero(chosen), labels[chosen]) for chosen in (~test, test)]
    missing = set(range(len(names))) - set(torch.unique(parts[0].labels).tolist())
    if missing:
        raise DataError(f"{name}: {names[min(missing)]!r} has test images only")
    return Dataset(f"folder:{name}", names, *parts)
