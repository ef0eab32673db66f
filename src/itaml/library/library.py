"""`Library`: a classifier that lives in a folder, learns new classes whenever they come, and names pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from itaml.config import Compute, build
from itaml.data.images import ImageSet
from itaml.errors import CheckpointError, DataError, SettingsError, UsageError
from itaml.events import Listener, ignore
from itaml.learners.compute import check_compute, check_threads, limited_threads
from itaml.library.answers import Answer, Grouping, Pictures, index_files, name_pictures
from itaml.library.folder import ModelFolder, Version, copy_version, size_on_disk
from itaml.library.gather import Gathered, GatheredArrays, GatheredFiles, gather
from itaml.library.learning import LearnReport, Model, learn, restore
from itaml.library.overview import TaskInfo, describe, learned_tasks
from itaml.library.pixels import as_pixels, files_as, with_channels
from itaml.library.record import FORMAT, Facts, Options
from itaml.library.sheet import contact_sheet

PathLike = str | os.PathLike[str]


class Library:
    """A model in a folder. Make one with `create` or `open`.

    Every `learn` saves: it writes a complete new version beside the old one and switches to it at the end, so that at
    any moment there is the old model or the new one. A `Library` in memory stays what it was when it was opened or last
    learned; `reload` takes over what other processes have learned since.
    """

    def __init__(self, folder: ModelFolder, version: Version, compute: Compute, *, threads: int | None = None) -> None:
        self._folder, self._compute, self._threads = folder, compute, threads
        self._take(version)

    @classmethod
    def create(
        cls,
        path: PathLike,
        *,
        device: str = "auto",
        precision: str = "auto",
        threads: int | None = None,
        **options: Any,
    ) -> Library:
        """Make a new model that has learned nothing.

        Args:
            path: its folder, which must not exist, be empty, or hold a model that has learned nothing.
            device: where to compute: auto, cpu, cuda or mps.
            precision: the number format of products: auto, fp32 or bf16.
            threads: CPU threads to learn and predict with; torch's own number if not given.
            options: `backbone`, `image_size`, `epochs`, each chosen for the pictures if not given; `memory`, pictures
                kept in all; `preset`, `seed`; `settings`, a dictionary that overrides settings of the learner.

        Raises:
            UsageError: there is something at `path`, or an option does not exist or is not possible here.
            ItamlError: the folder cannot be written.
        """
        chosen = build(Options, options, what="option")
        _compute(device, precision, threads)
        folder = ModelFolder(Path(path))
        if folder.exists() and folder.read().facts.learns:
            raise UsageError(f"there is a model in {folder.path} already; open it, or choose another name")
        with folder.changing():
            folder.write(Facts(options=chosen), None)
        return cls.open(path, device=device, precision=precision, threads=threads)

    @classmethod
    def open(
        cls, path: PathLike, *, device: str = "auto", precision: str = "auto", threads: int | None = None
    ) -> Library:
        """Open a model (see `create` for the arguments).

        Raises:
            UsageError: there is none, or an option is not possible here.
            CheckpointError: it is damaged, or of a newer format.
        """
        folder = ModelFolder(Path(path))
        return cls(folder, folder.read(), _compute(device, precision, threads), threads=threads)

    def _take(self, version: Version) -> None:
        self._number = version.number
        self._model = self._restored(version)

    def _restored(self, version: Version) -> Model:
        try:
            return restore(version.facts, version.state, self._compute)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self.path}: version {version.number} is not a model ({error!r})") from error

    @property
    def path(self) -> Path:
        """The model's folder."""
        return self._folder.path

    @property
    def version(self) -> int:
        """The number of the version in memory."""
        return self._number

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of all classes, in order of arrival."""
        return self._model.facts.classes

    @property
    def tasks(self) -> tuple[TaskInfo, ...]:
        """What was learned, task by task."""
        return learned_tasks(self._model)

    def learn(
        self,
        data: PathLike | Sequence[PathLike] | Gathered | Any,
        labels: Sequence[Any] | None = None,
        *,
        epochs: int | None = None,
        listen: Listener = ignore,
    ) -> LearnReport:
        """Learn pictures and save: classes that are new become a new task, others are refreshed.

        Args:
            data: a folder of class folders, several of them, or pictures (n, h, w[, c]).
            labels: the class of each picture, if `data` is pictures; numbers become names.
            epochs: passes through the pictures in this learn; as the model was made, or chosen for them, if not given.
            listen: told how it goes.

        Raises:
            DataError: there is nothing to learn from, or class names are too alike.
            LockedError: another process is learning.
            ItamlError: see the message; the model is as it was.
        """
        gathered = data if isinstance(data, GatheredFiles | GatheredArrays) else gather(data, labels)
        with self._folder.changing(), limited_threads(self._threads):
            version = self._folder.read()
            model, report = learn(
                self._restored(version), gathered, epochs=epochs, compute=self._compute, listen=listen
            )
            number = self._folder.write(model.facts, model.state())
        self._number, self._model = number, model
        return report

    def predict(
        self,
        pictures: PathLike | Iterable[PathLike] | Any,
        *,
        group: Grouping = "each",
        mean_run: float | None = None,
        top: int = 1,
        unknown_below: float = 0.0,
    ) -> list[Answer]:
        """Name pictures.

        Args:
            pictures: a file, files, or an array (n, h, w[, c]).
            group: `each` picture stands alone, `all` share one task, those in one `folder` do, or they are an ordered
                `stream` whose task changes now and then.
            mean_run: for streams, how many pictures of one task come in a row on average; estimated if not given.
            top: how many classes to tell.
            unknown_below: answer `unknown` where the confidence is below this.

        Raises:
            DataError: nothing was learned yet, or these are not pictures.
            SettingsError: an option is not possible.
        """
        if group not in ("each", "all", "folder", "stream"):
            raise SettingsError(f"pictures are grouped by each, all, folder or stream, not by {group!r}")
        if top < 1 or not 0 <= unknown_below <= 1:
            raise SettingsError(f"top is at least 1 and a confidence between 0 and 1, not {top} and {unknown_below}")
        if self._model.learner is None:
            raise DataError(f"{self.path} has not learned anything yet; `itaml learn {self.path} PICTURES` teaches it")
        given = self._pictures(pictures)
        with limited_threads(self._threads):
            return name_pictures(self._model, given, by=group, mean_run=mean_run, top=top, unknown_below=unknown_below)

    def _pictures(self, pictures: Any) -> Pictures:
        shape = self._model.facts.shape
        assert shape is not None
        if isinstance(pictures, str | os.PathLike):
            pictures = [pictures]
        if isinstance(pictures, Tensor) or hasattr(pictures, "__array__"):
            pixels = with_channels(as_pixels(pictures), shape[0])
            return Pictures(ImageSet.from_arrays(pixels, torch.zeros(len(pixels))), None)
        files = tuple(map(os.fspath, pictures))
        index = index_files(files)
        return Pictures(files_as(index, torch.zeros(len(files), dtype=torch.int64), shape), files)

    def reload(self) -> None:
        """Take over what other processes have learned since (see `open` for errors)."""
        self._take(self._folder.read())

    def save(self, path: PathLike) -> None:
        """Write a copy of the model in memory as a new model at `path`; `learn` saves by itself.

        Raises:
            UsageError: there is something at `path`.
            ItamlError: it cannot be written.
        """
        state = None if self._model.learner is None else self._model.state()
        copy_version(Version(0, self._model.facts, state), ModelFolder(Path(path)))

    def rollback(self) -> int:
        """Return to the state before the last learn, for good; return the number of the version now in use.

        Raises:
            UsageError: there is no earlier version.
        """
        self._folder.rollback()
        self.reload()
        return self._number

    def verify(self) -> list[str]:
        """Check every file of the model; return a sentence for each thing wrong."""
        return verify(self.path)[1]

    def info(self) -> dict[str, Any]:
        """Return what there is to know, as plain values."""
        return {
            "path": str(self.path),
            "format": FORMAT,
            "version": self._number,
            "versions_kept": self._folder.numbers(),
            "bytes": size_on_disk(self._folder),
            **describe(self._model),
        }

    def draw_exemplars(self, path: PathLike) -> None:
        """Draw the pictures that are kept as a contact sheet.

        Raises:
            ItamlError: nothing is kept yet, or the file cannot be written.
        """
        learner = self._model.learner
        exemplars = learner.memory if learner is not None else None
        if not exemplars:
            raise DataError(f"{self.path} keeps no pictures yet")
        rows = {}
        for label in exemplars.classes:
            part = exemplars.exemplars([label])
            if part is not None:
                rows[self.classes[label]] = part.load()[0]
        contact_sheet(Path(path), rows)


def _compute(device: str, precision: str, threads: int | None) -> Compute:
    compute = build(Compute, {"device": device, "precision": precision}, what="option")
    check_compute(compute)
    check_threads(threads)
    return compute


def verify(path: PathLike) -> tuple[int, list[str]]:
    """Check every file of a model, also one that does not open; return how many files, and what is wrong.

    Raises:
        UsageError: there is no model at `path`.
    """
    return ModelFolder(Path(path)).problems()


def rollback(path: PathLike) -> tuple[int | None, int]:
    """Return a model, also one that does not open, to its last good version before the one in use.

    Returns:
        The number of the version that was in use, None if that could not be read, and of the one that now is.

    Raises:
        UsageError: there is no model at `path`, or no earlier version.
    """
    folder = ModelFolder(Path(path))
    folder.require()
    return folder.rollback()
