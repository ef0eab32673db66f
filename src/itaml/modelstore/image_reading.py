"""Read the images of a learn once, with a digest of the content of each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from itaml.data.image_files import BadImages
from itaml.data.images import ImageSet
from itaml.errors import DataError
from itaml.events import Callback, Event
from itaml.modelstore.image_listing import what_to_install
from itaml.modelstore.inputs import unreadable
from itaml.modelstore.labelled_inputs import LabelledInputs
from itaml.modelstore.manifest import Manifest, PixelFormat
from itaml.modelstore.pixel_buffer import PixelBuffer
from itaml.modelstore.pixels import LEAST_RANGE
from itaml.text import count

CHUNK = 256
SAMPLED_IMAGES = 200  # images by which colour is judged
SAMPLED_SIDE = 16  # at which colour is judged
GREY_NOISE = 8 / 255  # by which the channels of a grey JPEG may differ
SKIPPED_SHOWN = 5


@dataclass(frozen=True)
class ImagesRead(Event):
    """Some of the images to learn from have been read."""

    done: int
    total: int


@dataclass(frozen=True, eq=False)
class ReadImages:
    """The readable images of a learn: labels count along the names that were gathered."""

    images: ImageSet
    digests: tuple[bytes, ...]  # of the content of each image
    grey: bool  # whether those that were looked at have no colours
    skipped: int
    notes: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...] = ()  # the first of those that were skipped: path and reason


def read_images(labelled: LabelledInputs, manifest: Manifest, *, callback: Callback) -> ReadImages:
    """Decode every image once, to the shape and pixel format of a model.

    Raises:
        DataError: none can be read, they cannot be converted to the model's pixel format, or all are alike.
    """
    shape, pixels, values = manifest.shape, manifest.pixels, labelled.inputs.float_range
    assert shape is not None
    assert pixels is not None
    if values is not None and values[1] - values[0] < LEAST_RANGE:
        raise DataError(f"the float images span only {values[0]:.4g} to {values[1]:.4g}; scale them to 0..1")
    wanted = labelled.inputs.images(labelled.labels, shape, pixels, exact=True, fitting=manifest.fitting)
    numbered = wanted.numbered()  # so that what is left tells which images it is
    buffer = PixelBuffer(len(wanted) * int(np.prod(shape)) * (1 if pixels.dtype == "uint8" else 4))
    looked = set(np.linspace(0, len(wanted) - 1, min(SAMPLED_IMAGES, len(wanted))).astype(int).tolist())
    rows, digests, grey, done = [], [], True, 0
    for part, positions in numbered.batches(CHUNK):
        digests += digests_of(part)
        rows.append(positions)
        seen = torch.tensor([row in looked for row in positions.tolist()], dtype=torch.bool)
        grey = grey and _is_grey(part[seen], pixels)
        buffer.add(part)
        done = min(done + CHUNK, len(wanted))
        callback(ImagesRead(done, len(wanted)))
    kept = torch.cat(rows)
    bad = unreadable(wanted)
    if not len(kept):
        raise DataError("none of the images can be read; are they images?" + examples(bad.entries))
    labels = labelled.labels[kept]
    found = buffer.images()
    images = wanted.select(kept) if found is None else ImageSet.from_arrays(found, labels)
    notes = _notes(labelled, labels, bad)
    return ReadImages(replace(images, labels=labels), tuple(digests), grey, bad.count, notes, tuple(bad.entries))


def digests_of(pixels: Tensor) -> list[bytes]:
    """Return a digest of the content of each image (n, c, h, w)."""
    return [hashlib.blake2b(image.contiguous().numpy().data, digest_size=16).digest() for image in pixels]


def examples(entries: Sequence[tuple[str, str]]) -> str:
    """Return the first few of the images that could not be read, with the reason, in brackets."""
    shown = "; ".join(f"{path}: {reason}{what_to_install(path)}" for path, reason in entries[:SKIPPED_SHOWN])
    return f" ({shown}{', ...' if len(entries) > SKIPPED_SHOWN else ''})" if entries else ""


def _notes(labelled: LabelledInputs, labels: Tensor, bad: BadImages) -> tuple[str, ...]:
    notes = list(labelled.notes)
    if bad.count:
        notes.append(f"{count(bad.count, 'image')} could not be read and had to be left out{examples(bad.entries)}")
    there = set(torch.unique(labels).tolist())
    notes += [
        f"class {name!r} has no image that can be read and was left out"
        for label, name in enumerate(labelled.names)
        if label not in there
    ]
    return tuple(notes)


def _is_grey(pixels: Tensor, form: PixelFormat) -> bool:
    """Whether images have no colours, but for noise."""
    if pixels.shape[1] == 1 or not len(pixels):
        return True
    step = max(1, min(pixels.shape[2:]) // (4 * SAMPLED_SIDE))  # of a photo some of the pixels do
    some = pixels[:, :, ::step, ::step].float()
    small = torch.nn.functional.adaptive_avg_pool2d(some, min(SAMPLED_SIDE, *some.shape[2:]))
    return bool(((small - small[:, :1]).abs() <= GREY_NOISE * (form.white or 1)).all())
