"""`Library`: a classifier in a folder that learns new classes whenever they come, and predicts the class of images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from itaml.config import Compute, build
from itaml.errors import DataError, SettingsError
from itaml.events import Listener, ignore
from itaml.learners.compute import check_compute, check_threads, limited_threads
from itaml.library.answers import Answer, Grouping, name_pictures, prepare
from itaml.library.arguments import check_number, check_whole
from itaml.library.duplicates import exemplars_of
from itaml.library.folder import ModelFolder, Version
from itaml.library.gather import Gathered, gather
from itaml.library.learning import LearnReport, learn
from itaml.library.record import Facts, Options
from itaml.library.sheet import contact_sheet
from itaml.library.stored import NOT_WRITTEN, PathLike, StoredModel
from itaml.library.writer import changing, write

Images = PathLike | Iterable[Any] | Any  # paths, folders, PIL images, arrays, tensors, or a sequence of them


class Library(StoredModel):
    """A model in a folder. Make one with `create` or `open`.

    Every `learn` saves: it writes a complete new version beside the old one and switches to it at the end, so that at
    any moment there is the old model or the new one. A `Library` in memory stays what it was when it was opened or last
    learned; `reload` takes over what other processes have learned since.
    """

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
            options: `backbone`, `image_size`, `epochs`, each chosen for the images if not given; `memory`, images
                kept in all; `preset`, `seed`; `settings`, a dictionary that overrides settings of the learner.

        Raises:
            UsageError: there is something at `path`, or an option does not exist or is not possible here.
            ItamlError: the folder cannot be written.
        """
        library = cls.unsaved(path, device=device, precision=precision, threads=threads, **options)
        with changing(library._folder):
            library._check_empty()
            library._pointer = write(library._folder, library._model.facts, None)
        return library

    @classmethod
    def unsaved(cls, path: PathLike, **arguments: Any) -> Library:
        """Return a new model that is not on disk until its first `learn` (see `create` for arguments and errors)."""
        compute = {name: arguments.pop(name) for name in ("device", "precision", "threads") if name in arguments}
        facts = Facts(options=build(Options, arguments, what="option"))
        library = cls(ModelFolder(Path(path)), Version(NOT_WRITTEN, facts, None), **_compute(**compute))
        library._check_empty()
        return library

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
        return cls(folder, folder.read(), **_compute(device, precision, threads))

    def learn(
        self,
        data: Images | Gathered,
        labels: Sequence[Any] | None = None,
        *,
        epochs: int | None = None,
        listen: Listener = ignore,
    ) -> LearnReport:
        """Learn images and save: classes that are new become a new task, others are refreshed.

        Args:
            data: a folder of class folders, or several of them; with `labels`, images as `predict` takes them.
            labels: the class of each image, text or numbers, if `data` is images; numbers become names.
            epochs: passes through the images in this learn; as the model was made, or chosen for them, if not given.
            listen: told how it goes.

        Returns:
            What was learned. An image that the model keeps already is not stored again; if it comes under another
            class, the newer label counts. If there is nothing new, no version is written and `changed` is False.

        Raises:
            DataError: there is nothing to learn from, images cannot be converted, or class names are too alike.
            SettingsError: `epochs` is below 1.
            LockedError: another process is learning.
            ItamlError: see the message; the model is as it was.
        """
        if epochs is not None:
            check_whole("epochs", epochs)
        gathered = data if isinstance(data, Gathered) else gather(data, labels)
        with changing(self._folder), limited_threads(self._threads):
            model, report = learn(self._latest(), gathered, epochs=epochs, compute=self._compute, listen=listen)
            if report.changed:
                if not self._folder.exists():
                    write(self._folder, Facts(options=model.facts.options), None)
                self._pointer = write(self._folder, model.facts, model.state())
                self._model = model
        return report

    def predict(
        self,
        images: Images,
        *,
        group: Grouping = "each",
        mean_run: float | None = None,
        top: int = 1,
        unknown_below: float = 0.0,
    ) -> list[Answer]:
        """Predict the class of images.

        Args:
            images: a file, a folder or a PIL image; an array (n, h, w[, c]) or a tensor (n, c, h, w); or a sequence of
                files, folders, PIL images, arrays (h, w[, c]) and tensors ([c,] h, w). Images of other sizes than the
                model's are scaled like files: their centre, to the model's size.
            group: `each` image stands alone, `all` share one task, those in one `folder` do, or they are an ordered
                `stream` whose task changes now and then.
            mean_run: for streams, how many images of one task come in a row on average; estimated if not given.
            top: how many classes to tell.
            unknown_below: predict `unknown` where the confidence is below this.

        Raises:
            DataError: nothing was learned yet, or these are not images.
            SettingsError: an option is not possible.
        """
        if group not in ("each", "all", "folder", "stream"):
            raise SettingsError(f"group must be each, all, folder or stream, not {group!r}")
        check_whole("top", top)
        check_number("unknown_below", unknown_below, least=0, most=1)
        if mean_run is not None:
            check_number("mean_run", mean_run, least=1)
        if self._model.learner is None:
            raise DataError(f"{self.path} has not learned anything yet; `itaml learn {self.path} IMAGES` teaches it")
        given = prepare(self._model, images)
        with limited_threads(self._threads):
            return name_pictures(self._model, given, by=group, mean_run=mean_run, top=top, unknown_below=unknown_below)

    def draw_exemplars(self, path: PathLike) -> dict[int, str]:
        """Draw the exemplars as a contact sheet.

        Returns:
            The names that no font of this machine can write, by the number that is in their place: the position of the
            class in `classes`, counting from 1.

        Raises:
            ItamlError: nothing is kept yet, or the file cannot be written.
        """
        exemplars = {} if self._model.learner is None else exemplars_of(self._model.learner.memory)
        if not exemplars:
            raise DataError(f"{self.path} keeps no images yet")
        return contact_sheet(Path(path), {n + 1: (self.classes[n], pixels) for n, pixels in exemplars.items()})


def _compute(device: str = "auto", precision: str = "auto", threads: int | None = None) -> dict[str, Any]:
    """Check where and how to compute; return it as arguments of `Library`."""
    compute = build(Compute, {"device": device, "precision": precision}, what="option")
    check_compute(compute)
    check_threads(threads)
    return {"compute": compute, "threads": threads}
