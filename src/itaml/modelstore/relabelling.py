"""Move images that a model keeps to another class, by their content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from itaml.config import Compute
from itaml.data.images import ClassId
from itaml.errors import DataError
from itaml.events import Callback
from itaml.modelstore.class_editing import editable
from itaml.modelstore.duplicates import exemplars_of, known_images, without
from itaml.modelstore.image_reading import digests_of, read_images
from itaml.modelstore.input_parsing import parse_inputs
from itaml.modelstore.labelled_inputs import LabelledInputs, parse_labelled
from itaml.modelstore.learning import learn
from itaml.modelstore.loaded_model import Model
from itaml.text import count

Copies = frozenset[tuple[ClassId, bytes]]  # stored images: the class that they are kept under, and their content


@dataclass(frozen=True, eq=False)
class Relabelled:
    """A model after images were moved."""

    model: Model
    sources: tuple[str, ...]  # the classes that they were of
    notes: tuple[str, ...]


def relabel(model: Model, images: Any, target: str, *, compute: Compute, callback: Callback) -> Relabelled:
    """Move images to a class and learn them there; the model given is used up.

    Raises:
        DataError: an image is not kept by the model, is of the class already, or they are all images of a class.
        SettingsError: the method cannot do this.
    """
    labelled = parse_labelled(images, [target] * len(parse_inputs(images)))
    copies = _copies(model, labelled, target, callback)
    done, report = learn(_without(model, copies), labelled, epochs=None, compute=compute, callback=callback)
    names = model.manifest.classes
    sources = tuple(names[label] for label in sorted({label for label, _ in copies}))
    return Relabelled(done, sources, report.notes)


def _copies(model: Model, labelled: LabelledInputs, target: str, callback: Callback) -> Copies:
    """Find the stored copies of images under other classes than `target`."""
    manifest = model.manifest
    read = read_images(labelled, manifest, callback=callback)
    stored = known_images(model)
    strange = sum(digest not in stored for digest in read.digests) + read.skipped
    if strange:
        raise DataError(
            f"{strange} of {count(len(labelled), 'image')} cannot be moved: the model does not keep them, so their "
            "class is not known; `itaml learn` teaches images under a class"
        )
    goal = manifest.classes.index(target)
    copies = frozenset((label, digest) for digest in read.digests for label in stored[digest] if label != goal)
    if not copies:
        raise DataError(f"all these images are of class {target!r} already")
    return copies


def _without(model: Model, copies: Copies) -> Model:
    """Undo the learning of stored images."""
    names = model.manifest.classes
    if model.memory is None:  # the learn that follows finds the copies, and undoes their learning
        stored = {(image.label, bytes.fromhex(image.digest)) for image in model.manifest.stored_images}
        for label, kept in model.exemplar_counts.items():
            if kept and sum(copy[0] == label and copy in stored for copy in copies) >= kept:
                raise DataError(
                    f"these are all images of class {names[label]!r} that the model keeps; merge the classes"
                )
        return model
    for label, pixels in exemplars_of(model.memory).items():
        rows = [row for row, digest in enumerate(digests_of(pixels)) if (label, digest) in copies]
        if not rows:
            continue
        if len(rows) == len(pixels):
            raise _all_of(names[label])
        editable(model).remove_images(pixels[rows], torch.full((len(rows),), label))
    left = without(model.validation_images, copies)
    return replace(model, validation_images=left, learned=model.learned.without(copies))


def _all_of(name: str) -> DataError:
    return DataError(f"these are all images of class {name!r} that the model keeps; merge the classes")
