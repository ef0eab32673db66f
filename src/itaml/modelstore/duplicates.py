"""Recognise images that a model keeps already, by the content of their pixels in the model's shape and format.

An image that comes again under its class is not stored again. An image that comes again under another class gets the
newer label: the old copy is removed from the exemplars and the validation images. A file that was encoded again has
other pixels and is another image.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.memory.buffer import Memory
from itaml.modelstore.image_reading import digests_of
from itaml.modelstore.loaded_model import Model

Stored = Mapping[ClassId, Tensor]  # class -> images (k, c, h, w)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of arriving images: which are new, and which stored copies have to go."""

    new: Tensor  # (k,) positions of the arriving images to learn from
    duplicates: int  # arriving images that are left out
    moved: int  # arriving images that were stored under another class
    conflicts: int  # arriving images that came under two classes at once
    stale: frozenset[tuple[ClassId, bytes]]  # stored copies to remove


def compare(digests: Sequence[bytes], labels: Sequence[ClassId], stored: Mapping[bytes, set[ClassId]]) -> Known:
    """Compare arriving images with those that are stored.

    Args:
        digests: of the arriving images.
        labels: their classes.
        stored: classes under which each content is stored (see `stored_classes`).
    """
    given: dict[bytes, set[ClassId]] = defaultdict(set)
    for digest, label in zip(digests, labels, strict=True):
        given[digest].add(label)
    stale = {(label, digest) for digest, now in given.items() for label in stored.get(digest, set()) - now}
    moved = {digest for _, digest in stale}
    stale |= {(label, digest) for digest in moved for label in stored[digest]}  # the arriving copy takes their place
    new, seen = [], set()
    for position, (digest, label) in enumerate(zip(digests, labels, strict=True)):
        if (digest, label) in seen or (digest not in moved and label in stored.get(digest, set())):
            continue
        seen.add((digest, label))
        new.append(position)
    return Known(
        torch.tensor(new, dtype=torch.int64),
        len(digests) - len(new),
        len(moved),
        sum(len(now) > 1 for now in given.values()),
        frozenset(stale),
    )


def stored_classes(*places: Stored) -> dict[bytes, set[ClassId]]:
    """Return the classes under which each content is stored."""
    found: dict[bytes, set[ClassId]] = defaultdict(set)
    for place in (place for place in places if place):
        labels = (label for label, pixels in place.items() for _ in range(len(pixels)))
        for label, digest in zip(labels, digests_of(torch.cat(list(place.values()))), strict=True):  # once for all
            found[digest].add(label)
    return dict(found)


def known_images(model: Model) -> dict[bytes, set[ClassId]]:
    """Return the classes under which a model knows each content: as an image, in a file of the store, or its digest."""
    found: dict[bytes, set[ClassId]] = defaultdict(set)
    if model.memory is not None:
        found |= stored_classes(exemplars_of(model.memory), model.validation_images)
    for image in model.manifest.stored_images:
        found[bytes.fromhex(image.digest)].add(image.label)
    for label, digest in model.learned.pairs():
        found[digest].add(label)
    return dict(found)


def exemplars_of(memory: Memory) -> dict[ClassId, Tensor]:
    """Return the exemplars of each class."""
    kept = memory.exemplars()  # read at once: one class after another takes many times as long for many classes
    if kept is None:
        return {}
    labels = [label for label in memory.classes if memory.count(label)]
    parts = kept.load()[0].split([memory.count(label) for label in labels])
    return dict(zip(labels, parts, strict=True))


def remove_exemplars(memory: Memory, stale: frozenset[tuple[ClassId, bytes]]) -> None:
    """Remove stored copies that have to go from the exemplars."""
    for label, pixels in exemplars_of(memory).items():
        memory.keep(label, _kept(label, pixels, stale))


def without(place: Stored, stale: frozenset[tuple[ClassId, bytes]]) -> dict[ClassId, Tensor]:
    """Return stored images without those that have to go; classes of which nothing is left are left out."""
    kept = {label: pixels[_kept(label, pixels, stale)] for label, pixels in place.items()}
    return {label: pixels for label, pixels in kept.items() if len(pixels)}


def _kept(label: ClassId, pixels: Tensor, stale: frozenset[tuple[ClassId, bytes]]) -> Tensor:
    rows = [row for row, digest in enumerate(digests_of(pixels)) if (label, digest) not in stale]
    return torch.tensor(rows, dtype=torch.int64)
