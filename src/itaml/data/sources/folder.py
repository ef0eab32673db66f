"""Any tree of images with one folder per class.

`ROOT/class/...` gives the classes, and a fixed share of each is held out for testing; or `ROOT/train/class/...` with
`ROOT/test/class/...` or `ROOT/val/class/...` gives both parts. Class folders are taken in the order of their names.
"""

from __future__ import annotations

from pathlib import Path

from itaml.data.benchmarks import LoadOptions
from itaml.data.sources.tree import ClassFolder, read_tree, sub_folders
from itaml.data.stream import Dataset
from itaml.errors import DataError

SIZE = 64


def load(options: LoadOptions) -> Dataset:
    """Index the images under `options.root`; they are decoded when they are used.

    Raises:
        DataError: there is no such folder, it has no class folders or no images, or a class has test images only.
    """
    return read_tree(f"folder:{options.root}", class_folders(options.root), options, size=SIZE)


def class_folders(root: Path) -> list[ClassFolder]:
    """Return the classes of a tree.

    Raises:
        DataError: there are none, or a class has test images only.
    """
    names = sub_folders(root)
    if not names:
        raise DataError(f"{root} has no class folders: put the images of each class into a folder of its name")
    test = next((part for part in ("test", "val") if part in names), None)
    if "train" not in names or test is None:
        return [ClassFolder(name, root / name) for name in names]
    return split_folders(root / "train", root / test)


def split_folders(train: Path, test: Path) -> list[ClassFolder]:
    """Return the classes of a training folder, with their test folders.

    Raises:
        DataError: there are none, or a class has test images only.
    """
    names, tested = sub_folders(train), set(sub_folders(test))
    if not names:
        raise DataError(f"{train} has no class folders")
    if not tested:
        raise DataError(f"{test} has no class folders")
    strangers = sorted(tested.difference(names))
    if strangers:
        raise DataError(f"{test} has classes without training images: {', '.join(strangers[:5])}")
    return [ClassFolder(name, train / name, test / name if name in tested else None) for name in names]
