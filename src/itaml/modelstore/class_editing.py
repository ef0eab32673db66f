"""Correct what a model has learned: forget, rename and merge classes. Each takes a model and returns another.

Class ids are positions in the list of names, so the ids after a class that goes move up by one. A task without classes
goes too, and the history is rewritten to speak of the classes as they are now.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from itaml.errors import DataError, SettingsError, UnknownNameError
from itaml.learners.api import Editable
from itaml.modelstore.class_names import match_names
from itaml.modelstore.history import with_renamed, without_classes
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.manifest import Manifest
from itaml.modelstore.stored_images import merged, renumbered
from itaml.registry import unknown


@dataclass(frozen=True)
class EditReport:
    """What a correction did."""

    action: str  # forget, rename, merge or relabel
    classes: tuple[str, ...]  # the classes that it was about
    known: tuple[str, ...]  # all classes afterwards
    version: int  # that was written
    notes: tuple[str, ...] = ()


def find_class(classes: Sequence[str], name: str) -> str:
    """Return the class that is meant, in the form in which the model has it.

    Raises:
        UnknownNameError: there is none; the message offers the nearest name.
    """
    forms = {unicodedata.normalize("NFC", known): known for known in classes}
    found = forms.get(unicodedata.normalize("NFC", name))
    if found is None:
        if not classes:
            raise UnknownNameError(f"no class {name!r:.100}: the model has learned nothing")
        raise UnknownNameError(unknown("class", name, classes))
    return found


def forget(model: Model, names: Sequence[str]) -> Model:
    """Return a model without some classes; the model given is used up.

    Raises:
        SettingsError: the method cannot do this.
    """
    gone = [model.manifest.classes.index(name) for name in dict.fromkeys(names)]
    if len(gone) == len(model.manifest.classes):
        return Model(Manifest(options=model.manifest.options), None, {})
    learner = editable(model)
    for class_id in gone:
        learner.forget_class(class_id)
    manifest = without_classes(model.manifest, frozenset(names))
    return _renumbered(replace(model, manifest=manifest), model.manifest, gone)


def rename(model: Model, old: str, new: str) -> Model:
    """Return a model in which a class has another name.

    Raises:
        DataError: the new name cannot be a class, or is too like another one.
    """
    others = tuple(name for name in model.manifest.classes if name != old)
    if match_names([new], others)[new] in others:
        raise DataError(f"there is a class {new!r} already; `itaml merge` makes two classes one")
    return replace(model, manifest=with_renamed(model.manifest, old, new))


def merge(model: Model, source: str, target: str) -> Model:
    """Return a model in which two classes are one, called `target`; the model given is used up.

    Raises:
        DataError: they are the same class.
        SettingsError: the method cannot do this.
    """
    if source == target:
        raise DataError(f"{source!r} cannot be merged with itself")
    old = model.manifest
    gone, kept = old.classes.index(source), old.classes.index(target)
    editable(model).merge_classes(gone, kept)
    validation = dict(model.validation_images)
    if gone in validation:
        parts = [validation[label] for label in (kept, gone) if label in validation]
        validation[kept] = torch.cat(parts)
    manifest = without_classes(old, frozenset({source}), into=target)
    manifest = manifest.model_copy(update={"stored_images": merged(old.stored_images, gone, kept)})
    learned = model.learned.renumbered({**{label: label for label in range(len(old.classes))}, gone: kept})
    done = replace(model, manifest=manifest, validation_images=validation, learned=learned)
    return _renumbered(done, old, [gone])


def editable(model: Model) -> Editable:
    """Return the learner of a model that can be corrected.

    Raises:
        SettingsError: the method has no way to do this.
    """
    if not isinstance(model.learner, Editable):
        raise SettingsError(f"a {type(model.learner).__name__} cannot change what it has learned")
    return model.learner


def _renumbered(model: Model, before: Manifest, gone: Iterable[int]) -> Model:
    """Give the classes that are left the ids of their new positions."""
    left = [class_id for class_id in range(len(before.classes)) if class_id not in set(gone)]
    ids = {old: new for new, old in enumerate(left)}
    editable(model).renumber_classes(ids)
    validation = {ids[old]: pixels for old, pixels in model.validation_images.items() if old in ids}
    stored = renumbered(model.manifest.stored_images, ids)
    manifest = model.manifest.model_copy(update={"stored_images": stored})
    learned = model.learned.renumbered(ids)
    return replace(model, manifest=manifest, validation_images=validation, learned=learned)
