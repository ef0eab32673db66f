"""Tiny-ImageNet (Stanford CS231n): 64x64 JPEG files of 200 ImageNet classes, or of as many as there are folders.

`train/<id>/images/*.JPEG` or `train/<id>/*.JPEG`; validation images, which serve for testing, either in one folder per
class as well or as they are distributed, `val/images/*` with `val/val_annotations.txt`. `words.txt` gives the names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from itaml.data.benchmarks import LoadOptions
from itaml.data.layouts import layout
from itaml.data.safe_reading import read_names
from itaml.data.sources.folder import split_folders
from itaml.data.sources.tree import ClassFolder, read_tree, readable_names, sub_folders
from itaml.data.stream import Dataset
from itaml.errors import DataError

SIZE = 64


def load(options: LoadOptions) -> Dataset:
    """Index Tiny-ImageNet, classes in the order of their ids; images are decoded when they are used.

    Raises:
        DataError: it is not there, has no images, or its annotations do not fit.
    """
    train, val = layout("tiny-imagenet").require(options.root)
    annotations = val / "val_annotations.txt"
    if annotations.is_file() and (val / "images").is_dir():
        classes = _annotated(train, val / "images", annotations)
    else:
        classes = split_folders(train, val)
    names = readable_names([entry.name for entry in classes], train.parent / "words.txt")
    named = [replace(entry, name=word) for entry, word in zip(classes, names, strict=True)]
    return read_tree("tiny-imagenet", named, options, size=SIZE)


def _annotated(train: Path, images: Path, annotations: Path) -> list[ClassFolder]:
    """Return the classes with the validation images that the annotations give to each."""
    wnids = sub_folders(train)
    if not wnids:
        raise DataError(f"{train} has no class folders")
    images_by_class: dict[str, list[str]] = {wnid: [] for wnid in wnids}
    for number, line in enumerate(read_names(annotations), start=1):
        fields = line.split("\t")  # image, id, and a box that is not used
        if len(fields) < 2 or "/" in fields[0]:
            raise DataError(f"{annotations}, line {number}: not an image and its class: {line[:60]!r}")
        if fields[1] not in images_by_class:
            raise DataError(f"{annotations}, line {number}: class {fields[1]} has no training images")
        images_by_class[fields[1]].append(fields[0])
    return [ClassFolder(wnid, train / wnid, images, tuple(images_by_class[wnid])) for wnid in wnids]
