"""Which images the store keeps in files of its own, for methods that do not keep the images themselves.

An equal share of the memory is for each class, exemplars and validation images apart. Of a class with more images those
with the smallest digests are kept, so that the choice depends on the images alone and not on the order of arrival.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from itaml.data.images import ClassId, ImageSet
from itaml.hardware.machine import cores
from itaml.modelstore.exemplar_files import encode
from itaml.modelstore.file_checks import file_sum
from itaml.modelstore.manifest import StoredImage
from itaml.modelstore.validation import ValidationImages

Kind = Literal["exemplar", "validation"]


@dataclass(frozen=True, eq=False)
class ArrivingImages:
    """Images of a learn: their pixels, the learner's samples of them, and which are for validation."""

    images: ImageSet
    samples: ImageSet
    digests: Sequence[bytes]
    validation: Tensor  # (n,) boolean


@dataclass(frozen=True, eq=False)
class Kept:
    """What the store keeps after a learn."""

    stored: tuple[StoredImage, ...]
    validation: ValidationImages  # samples, in the order of their images in `stored`
    files: dict[str, bytes]  # new ones, by SHA-256


@dataclass(frozen=True, eq=False)
class _Candidate:
    digest: str
    old: StoredImage | None = None
    position: int = -1  # among the arriving images, if it is not an old one
    sample: Tensor | None = None  # of a validation image


def without_stale(
    stored: Sequence[StoredImage], validation: ValidationImages, stale: frozenset[tuple[ClassId, bytes]]
) -> tuple[tuple[StoredImage, ...], ValidationImages]:
    """Return what is left when some images have to go, because they came again under another class."""
    gone = {(label, digest.hex()) for label, digest in stale}
    left = tuple(image for image in stored if (image.label, image.digest) not in gone)
    samples = {}
    for label, tensor in validation.items():
        own = [image for image in stored if (image.label, image.kind) == (label, "validation")]
        rows = [row for row, image in enumerate(own) if (label, image.digest) not in gone]
        if rows:
            samples[label] = tensor[torch.tensor(rows)]
    return left, samples


def renumbered(stored: Sequence[StoredImage], ids: Mapping[ClassId, ClassId]) -> tuple[StoredImage, ...]:
    """Return the images with other class ids; those of classes without one are gone."""
    return tuple(image.model_copy(update={"label": ids[image.label]}) for image in stored if image.label in ids)


def merged(stored: Sequence[StoredImage], source: ClassId, target: ClassId) -> tuple[StoredImage, ...]:
    """Return the images with those of `source` as the last ones of `target`."""
    first = [image for image in stored if image.label != source]
    return (*first, *renumbered(stored, {source: target}))


def refresh(
    stored: Sequence[StoredImage],
    validation: ValidationImages,
    arriving: ArrivingImages,
    *,
    classes: int,
    budget: int,
    share: int,
) -> Kept:
    """Choose what to keep of the images stored so far and of those that arrive.

    Args:
        stored: what is kept so far.
        validation: samples of its validation images.
        arriving: the images of this learn.
        classes: number of classes after it.
        budget: images in all.
        share: validation images of each class.
    """
    limits: dict[Kind, int] = {"exemplar": max(1, budget // classes - share), "validation": share}
    chosen: list[tuple[ClassId, Kind, list[_Candidate]]] = []
    old, present = _old(stored, validation), set(arriving.samples.labels.tolist())
    for label in range(classes):
        for kind, limit in limits.items():
            candidates = old[label, kind] + (_new(arriving, label, kind) if label in present else [])
            chosen.append((label, kind, sorted(candidates, key=lambda one: one.digest)[:limit]))
    positions = [one.position for _, _, part in chosen for one in part if one.old is None]
    files = dict(zip(positions, _encoded(arriving.images, positions), strict=True))
    images, samples, written = [], {}, {}
    for label, kind, part in chosen:
        for one in part:
            image = one.old
            if image is None:
                found = file_sum(files[one.position])
                written[found.sha256] = files[one.position]
                image = StoredImage(label=label, kind=kind, digest=one.digest, sha256=found.sha256, size=found.size)
            images.append(image)
        if kind == "validation" and part:
            samples[label] = torch.stack([one.sample for one in part if one.sample is not None])
    return Kept(tuple(images), samples, written)


def _old(
    stored: Sequence[StoredImage], validation: ValidationImages
) -> defaultdict[tuple[ClassId, Kind], list[_Candidate]]:
    """Group what is kept so far by class and kind, in one pass."""
    found: defaultdict[tuple[ClassId, Kind], list[_Candidate]] = defaultdict(list)
    for image in stored:
        own = found[image.label, image.kind]
        sample = validation[image.label][len(own)] if image.kind == "validation" else None
        own.append(_Candidate(image.digest, image, sample=sample))
    return found


def _new(arriving: ArrivingImages, label: ClassId, kind: Kind) -> list[_Candidate]:
    wanted = (arriving.samples.labels == label) & (arriving.validation == (kind == "validation"))
    positions = wanted.nonzero().flatten()
    if kind == "exemplar":
        return [_Candidate(arriving.digests[at].hex(), position=at) for at in positions.tolist()]
    samples = arriving.samples.batch(positions)[0]
    return [
        _Candidate(arriving.digests[at].hex(), position=at, sample=sample)
        for at, sample in zip(positions.tolist(), samples, strict=True)
    ]


def _encoded(images: ImageSet, positions: Sequence[int]) -> list[bytes]:
    """Return the files of images; encoding releases the interpreter lock, so threads help."""
    pixels = (images.batch(torch.tensor([at]))[0][0] for at in positions)
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(encode, pixels))
