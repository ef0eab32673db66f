"""What a learn is given: class folders, or images with labels, brought into one form."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from itaml.data.image_files import FileIndex
from itaml.data.sources.folder import class_folders
from itaml.errors import DataError
from itaml.modelstore.class_names import check_names
from itaml.modelstore.image_arrays import check_images, is_ragged, is_stack, item_pixels, stack_pixels
from itaml.modelstore.image_listing import Listing, list_images, notes_about
from itaml.modelstore.input_parsing import from_items
from itaml.modelstore.inputs import Inputs
from itaml.modelstore.labels import as_names
from itaml.text import count


@dataclass(frozen=True, eq=False)
class LabelledInputs:
    """Labelled images whose size is still open."""

    names: tuple[str, ...]  # of classes
    inputs: Inputs
    labels: Tensor  # (n,) positions in `names`
    notes: tuple[str, ...] = ()  # what was left out, in sentences

    def __len__(self) -> int:
        return len(self.labels)


def inputs_from_folders(folders: Sequence[Path]) -> LabelledInputs:
    """Index the class folders in `folders`; a class that is in several is joined.

    Raises:
        DataError: a folder is missing or has no class folders, there are no images, or names are too alike.
    """
    places: dict[str, list[Path]] = {}
    for folder in folders:
        if not os.path.isdir(folder):
            what = "is not a folder" if os.path.exists(folder) else "does not exist"
            raise DataError(f"{folder} {what}; give a folder with one folder of images for each class")
        for entry in class_folders(folder):
            places.setdefault(entry.name, []).append(entry.train)
    check_names(places)
    listed = {
        name: [(str(place), list_images(str(place))) for place in found] for name, found in sorted(places.items())
    }
    kept = {name: parts for name, parts in listed.items() if any(listing.images for _, listing in parts)}
    left_out = [
        os.path.join(place, other) for parts in listed.values() for place, part in parts for other in part.others
    ]
    notes = notes_about(left_out)
    notes += [f"class folder {name!r} has no images and was left out" for name in listed if name not in kept]
    if not kept:
        said = "; ".join(["", *notes_about(left_out)])
        raise DataError(f"there are no images in the class folders of {', '.join(map(str, folders))}{said}")
    return _of_classes(kept, notes)


def _of_classes(kept: dict[str, list[tuple[str, Listing]]], notes: list[str]) -> LabelledInputs:
    counts = [sum(len(listing.images) for _, listing in parts) for parts in kept.values()]
    index = FileIndex.build((place, listing.images) for parts in kept.values() for place, listing in parts)
    labels = torch.repeat_interleave(torch.arange(len(kept)), torch.tensor(counts))
    return LabelledInputs(tuple(kept), Inputs((index,)), labels, tuple(notes))


def inputs_with_labels(images: Any, labels: Any) -> LabelledInputs:
    """Take images with a label each; the label of a folder is that of every image in it.

    Raises:
        DataError: they are not images, or the labels do not fit.
    """
    words = as_names(labels)
    given = len(words)
    check_images(images)
    if is_stack(images) and not is_ragged(images):
        inputs = Inputs((stack_pixels(images),))
        number = len(inputs)
    else:
        items = [item_pixels(item) for item in ([images] if isinstance(images, str | os.PathLike) else images)]
        number = len(items)
        if number == len(words):
            each = [from_items([item]) for item in items]
            words = [word for word, part in zip(words, each, strict=True) for _ in range(len(part))]
            inputs = from_items(items)
    if number != given:
        raise DataError(f"{count(number, 'image')} but {count(given, 'label')}; give one label for each image")
    if not len(inputs):
        raise DataError("there are no images to learn from")
    names = tuple(sorted(set(words)))
    check_names(names)
    ids = {name: label for label, name in enumerate(names)}
    return LabelledInputs(names, inputs, torch.tensor([ids[word] for word in words]), inputs.notes)


def parse_labelled(data: Any, labels: Any) -> LabelledInputs:
    """Take what `ImageClassifier.learn` was given: one folder or several, or images with labels.

    Raises:
        DataError: it is none of these, or see `inputs_from_folders` and `inputs_with_labels`.
    """
    if labels is not None:
        return inputs_with_labels(data, labels)
    if isinstance(data, str | os.PathLike):
        data = [data]
    if isinstance(data, list | tuple) and data and all(isinstance(part, str | os.PathLike) for part in data):
        return inputs_from_folders([Path(part) for part in data])
    raise DataError("give a folder of class folders, or images with a label each")
