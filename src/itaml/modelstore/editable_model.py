"""Corrections of a model in its folder: forget, rename, merge and relabel, each a version of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from itaml.errors import UsageError
from itaml.events import Callback, ignore
from itaml.learners.compute import limited_threads
from itaml.learners.frozen import FrozenLearner
from itaml.modelstore import class_editing as editing
from itaml.modelstore.class_editing import EditReport, find_class
from itaml.modelstore.history import with_edit
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.purging import earlier_version, known_classes, purged, under_same_names
from itaml.modelstore.rebasing import RebaseReport, rebase
from itaml.modelstore.relabelling import relabel
from itaml.modelstore.stored import StoredModel
from itaml.modelstore.version_writer import changing, write, write_with_past
from itaml.storage import State


class EditableModel(StoredModel):
    """A model in a folder whose classes can be corrected; `rollback` undoes a correction."""

    def forget(self, *classes: str, purge: bool = False) -> EditReport:
        """Remove classes: their rows or sums, exemplars and validation images.

        Args:
            classes: their names. If they are all classes, the model is as if it had learned nothing.
            purge: also remove them from the version before this one, and from the history, and empty the cache of
                features in the user's cache folder. They cannot be brought back: `rollback` then returns to the state
                before the last learn, without them. (If the last change was a correction of these classes, no version
                before it is kept.)

        Raises:
            UnknownNameError: there is no such class; with `purge`, in no version that is kept.
            SettingsError: the method cannot do this.
            LockedError: another process is changing the model.
        """
        if not classes:
            raise UsageError("name the classes to forget")
        with changing(self._folder), limited_threads(self._threads):
            if purge:
                return self._purge(classes)
            model = self._latest()
            names = tuple(dict.fromkeys(find_class(model.manifest.classes, name) for name in classes))
            return self._saved("forget", names, editing.forget(model, names))

    def rename(self, old: str, new: str) -> EditReport:
        """Give a class another name.

        Raises:
            UnknownNameError: there is no class `old`.
            DataError: `new` cannot be a class, or there is one.
        """
        with changing(self._folder):
            model = self._latest()
            found = find_class(model.manifest.classes, old)
            return self._saved("rename", (found, new), editing.rename(model, found, new))

    def merge(self, source: str, into: str) -> EditReport:
        """Make two classes one, called `into`; a learner trained by gradient steps then trains on both's exemplars.

        Raises:
            UnknownNameError: there is no such class.
            DataError: they are the same class.
            SettingsError: the method cannot do this.
        """
        with changing(self._folder), limited_threads(self._threads):
            model = self._latest()
            known = model.manifest.classes
            names = find_class(known, source), find_class(known, into)
            return self._saved("merge", names, editing.merge(model, *names))

    def relabel(self, images: Any, *, to: str, callback: Callback = ignore) -> EditReport:
        """Move images that the model keeps to another class, and learn them there.

        Args:
            images: as `predict` takes them.
            to: the class that they are of.
            callback: called with progress events.

        Raises:
            UnknownNameError: there is no class `to`.
            DataError: an image is not kept by the model, or they are all images of a class.
        """
        with changing(self._folder), limited_threads(self._threads):
            model = self._latest()
            target = find_class(model.manifest.classes, to)
            done = relabel(model, images, target, compute=self._compute, callback=callback)
            return self._saved("relabel", (*done.sources, target), done.model, notes=done.notes)

    def rebase(
        self, *, backbone: str | None = None, method: str | None = None, callback: Callback = ignore
    ) -> RebaseReport:
        """Learn the model again with another backbone, method or both, from the images that it keeps.

        Args:
            backbone: its name; the present one if not given.
            method: its name; the present one if not given.
            callback: called with progress events.

        Raises:
            UsageError: neither is given, or nothing would change.
            UnknownNameError: there is no such backbone or method.
            SettingsError: the two do not go together.
            DataError: nothing was learned, or no image of a class is kept.
        """
        report = rebase(
            self.path,
            backbone=backbone,
            method=method,
            compute=self._compute,
            threads=self._threads,
            callback=callback,
        )
        self.reload()
        return report

    def _purge(self, classes: Sequence[str]) -> EditReport:
        model, earlier = self._latest(), earlier_version(self._folder)
        known = known_classes(model.manifest, earlier)
        names = frozenset(find_class(known, name) for name in classes)
        kept = earlier is not None and under_same_names(model.manifest, earlier, names)
        past = purged(self._restored(earlier), names) if earlier is not None and kept else None
        done = purged(model, names)
        done = replace(done, manifest=with_edit(done.manifest, "forget", ()))
        self._pointer = write_with_past(
            self._folder, done.manifest, _state(done), None if past is None else (past.manifest, _state(past))
        )
        self._folder.sweep_shared()
        if isinstance(model.learner, FrozenLearner):
            model.learner.cache.clear()  # it holds features of their images
        self._model = done
        return EditReport("forget", tuple(sorted(names)), done.manifest.classes, self.version)

    def _saved(self, action: str, names: tuple[str, ...], model: Model, notes: tuple[str, ...] = ()) -> EditReport:
        edited = replace(model, manifest=with_edit(model.manifest, action, names))
        self._pointer = write(self._folder, edited.manifest, _state(edited), edited.files)
        self._model = replace(edited, files={})
        return EditReport(action, names, edited.manifest.classes, self.version, notes)


def _state(model: Model) -> State | None:
    return None if model.learner is None else model.state()
