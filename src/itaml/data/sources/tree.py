"""Data sets that are folders of images, one folder per class: what the sources of that kind have in common."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from itaml.data.benchmarks import LoadOptions
from itaml.data.image_files import BadImages, FileIndex, FilePixels, list_images
from itaml.data.images import ImageSet
from itaml.data.safe_reading import read_names
from itaml.data.stream import Dataset
from itaml.errors import DataError

TEST_SHARE = 0.2  # of each class, where the data has no test images of its own

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ClassFolder:
    """One class: its name and the folder of its training images, and that of its test images if there is one."""

    name: str
    train: Path
    test: Path | None = None
    test_names: tuple[str, ...] | None = None  # the images in `test` that are of this class; all of them if None


def sub_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, without hidden ones.

    Raises:
        DataError: the folder cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError as error:
        raise DataError(f"cannot read the folder {folder}: {(error.strerror or str(error)).lower()}") from error


def read_tree(name: str, classes: Sequence[ClassFolder], options: LoadOptions, *, size: int) -> Dataset:
    """Make a lazy data set of class folders.

    If no class has a folder of test images, a share of each class's images is held out for testing: always the same
    ones, chosen by their names. A class without a training image is left out, or refused, as `options` say.

    Raises:
        DataError: there are no images, or a folder is empty or unreadable and `options` say to fail.
    """
    _check_names(classes)
    bad = BadImages()
    listed = _Listing(options, bad)
    index = FileIndex.build(listed.walk([(entry.train, None) for entry in classes]))
    counts = np.bincount(index.folder_of, minlength=len(classes))
    kept = [entry for entry, count in zip(classes, counts.tolist(), strict=True) if count]
    if not kept:
        raise DataError(f"{name}: no images in {len(classes)} class folders")
    class_of = np.cumsum(counts > 0)[index.folder_of] - 1  # ids of the classes that are kept, in order
    pixels = _pixels(index, options, size, bad)
    if any(entry.test for entry in kept):
        train = image_set(pixels, np.arange(len(index)), class_of)
        return Dataset(name, names_of(kept), train, _test_set(kept, listed, options, size))
    for_testing = choose_test_files(index, TEST_SHARE)
    train_rows, test_rows = np.flatnonzero(~for_testing), np.flatnonzero(for_testing)
    return Dataset(
        name,
        names_of(kept),
        image_set(pixels, train_rows, class_of[train_rows]),
        image_set(pixels, test_rows, class_of[test_rows]),
    )


def _check_names(classes: Sequence[ClassFolder]) -> None:
    for entry in classes:
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            raise DataError(f"the class folder {entry.name!r} has a name that is not Unicode text; rename it") from None


def image_set(pixels: FilePixels, rows: Rows, labels: npt.NDArray[np.integer]) -> ImageSet:
    """Return rows of a store as a set of images."""
    return ImageSet(pixels, torch.from_numpy(labels.astype(np.int64)), torch.from_numpy(rows.astype(np.int64)))


def choose_test_files(index: FileIndex, share: float) -> npt.NDArray[np.bool_]:
    """Choose the files for testing: of each folder the share whose names have the smallest CRC-32.

    The choice depends on the names alone, so it is the same on every machine, and a new image moves at most one old
    image to the other side. At least one of each folder is chosen, but never its only one.
    """
    names, ends = index.names, index.ends.tolist()
    keys = np.fromiter((zlib.crc32(names[start:end]) for start, end in pairwise(ends)), np.uint32, len(index))
    order = np.lexsort((keys, index.folder_of))  # by folder, then by key
    counts = np.bincount(index.folder_of, minlength=len(index.folders))
    starts = np.cumsum(counts) - counts
    rank = np.arange(len(index)) - starts[index.folder_of[order]]
    wanted = np.minimum(np.maximum(1, np.rint(share * counts)), counts - 1)
    chosen = np.zeros(len(index), dtype=np.bool_)
    chosen[order] = rank < wanted[index.folder_of[order]]
    return chosen


def names_of(classes: Sequence[ClassFolder]) -> tuple[str, ...]:
    """Return the names of classes."""
    return tuple(entry.name for entry in classes)


def readable_names(wnids: Sequence[str], words: Path) -> tuple[str, ...]:
    """Return a word for each WordNet id from a file of `id words` lines; the id itself where there is none.

    The first of several words is taken; where two classes share it, the id is added.
    """
    found: dict[str, str] = {}
    if words.is_file():
        wanted = set(wnids)
        for line in read_names(words):
            wnid, _, text = line.strip().replace("\t", " ").partition(" ")
            if wnid in wanted and text:
                found[wnid] = text.split(",")[0].strip()
    names = [found.get(wnid, wnid) for wnid in wnids]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({wnid})" for name, wnid in zip(names, wnids, strict=True)
    )


@dataclass(frozen=True)
class _Listing:
    """Lists folders one at a time; an unreadable or empty one is noted or refused."""

    options: LoadOptions
    bad: BadImages

    def walk(self, folders: Iterable[tuple[Path, Sequence[str] | None]]) -> Iterator[tuple[str, Sequence[str]]]:
        for folder, given in folders:
            reason = "no images of this class"
            try:
                names = list_images(str(folder)) if given is None else given
            except OSError as error:
                names, reason = [], (error.strerror or str(error)).lower()
            if not names:
                if self.options.on_bad_image == "fail":
                    raise DataError(f"cannot use {folder}: {reason}")
                self.bad.add(str(folder), reason)
            yield str(folder), names


def _pixels(index: FileIndex, options: LoadOptions, size: int, bad: BadImages) -> FilePixels:
    return FilePixels(index, options.image_size or size, on_bad=options.on_bad_image, bad=bad)


def _test_set(classes: Sequence[ClassFolder], listed: _Listing, options: LoadOptions, size: int) -> ImageSet:
    labels = np.array([label for label, entry in enumerate(classes) if entry.test], dtype=np.int64)
    index = FileIndex.build(listed.walk([(entry.test, entry.test_names) for entry in classes if entry.test]))
    return image_set(_pixels(index, options, size, listed.bad), np.arange(len(index)), labels[index.folder_of])
