"""Take images as Python code gives them: paths, folders, PIL images, arrays and tensors, alone or in sequences."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from itaml.data.image_files import FileIndex
from itaml.modelstore.image_arrays import check_images, is_ragged, is_stack, item_pixels, stack_pixels
from itaml.modelstore.image_listing import list_images, notes_about
from itaml.modelstore.inputs import Inputs, Part


def parse_inputs(images: Any) -> Inputs:
    """Take images as Python code gives them: one or many, as paths, folders, PIL images, arrays or tensors.

    Raises:
        DataError: something among them is not an image, or a folder cannot be read.
    """
    if isinstance(images, str | os.PathLike | Image.Image):
        images = [images]
    check_images(images)
    if is_stack(images) and not is_ragged(images):
        return Inputs((stack_pixels(images),))
    return from_items([item_pixels(item) for item in images])


def from_items(items: Iterable[Tensor | str]) -> Inputs:
    """Put single images (1, c, h, w), files and the files in folders together, in order."""
    expanded, left_out = expand(items)
    parts: list[Part] = []
    for key, group in groupby(expanded, key=_kind):
        members = list(group)
        parts.append(index_files([str(m) for m in members]) if key is None else torch.cat(members))  # type: ignore[arg-type]
    return Inputs(tuple(parts), tuple(notes_about(left_out)))


def expand(items: Iterable[Tensor | str]) -> tuple[list[Tensor | str], list[str]]:
    """Replace folders by the images in them; return also the files that were left out."""
    expanded: list[Tensor | str] = []
    left_out: list[str] = []
    for item in items:
        if isinstance(item, str) and os.path.isdir(item):
            listing = list_images(item)
            expanded += [os.path.join(item, name) for name in listing.images]
            left_out += [os.path.join(item, name) for name in listing.others]
        else:
            expanded.append(item)
    return expanded, left_out


def index_files(files: Sequence[str]) -> FileIndex:
    """Index files in the order given; neighbours in one folder share it."""
    listings: list[tuple[str, list[str]]] = []
    for file in files:
        folder, name = os.path.split(file)
        if not listings or listings[-1][0] != folder:
            listings.append((folder, []))
        listings[-1][1].append(name)
    return FileIndex.build(listings)


def _kind(item: Tensor | str) -> Any:
    return (item.dtype, tuple(item.shape)) if isinstance(item, Tensor) else None
