"""`ImageClassifier`.

A classifier in a folder that learns new classes whenever they come, and predicts the class of images.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from itaml import distributed
from itaml.config import Compute, build
from itaml.errors import DataError, SettingsError
from itaml.events import Callback, ignore
from itaml.learners.compute import check_compute, check_threads, limited_threads
from itaml.modelstore.argument_checks import check_number, check_unknown, check_whole
from itaml.modelstore.checksummed_json import Pointer
from itaml.modelstore.contact_sheet import MAX_PER_ROW, contact_sheet
from itaml.modelstore.editable_model import EditableModel
from itaml.modelstore.exemplar_images import exemplar_images
from itaml.modelstore.labelled_inputs import LabelledInputs, parse_labelled
from itaml.modelstore.learn_checkpoint import LearnCheckpoint
from itaml.modelstore.learning import LearnReport, learn
from itaml.modelstore.loaded_model import Model, factory
from itaml.modelstore.manifest import Manifest, Options
from itaml.modelstore.model_folder import ModelFolder, Version
from itaml.modelstore.predictions import Grouping, ImagePrediction, Unknown, predict_images, prepare_inputs
from itaml.modelstore.stored import NOT_WRITTEN, PathLike
from itaml.modelstore.uncertainty import Ranking, rank_uncertain
from itaml.modelstore.version_writer import changing, write

Images = PathLike | Iterable[Any] | Any  # paths, folders, PIL images, arrays, tensors, or a sequence of them


class ImageClassifier(EditableModel):
    """A model in a folder. Make one with `create` or `open`.

    Every `learn` saves: it writes a complete new version beside the old one and switches to it at the end, so that at
    any moment there is the old model or the new one. A `ImageClassifier` in memory stays what it was when it was opened
    or last learned; `reload` takes over what other processes have learned since.
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
    ) -> ImageClassifier:
        """Make a new model that has learned nothing.

        Args:
            path: its folder, which must not exist, be empty, or hold a model that has learned nothing.
            device: where to compute: auto, cpu, cuda or mps.
            precision: the number format of products: auto, fp32 or bf16.
            threads: CPU threads to learn and predict with; torch's own number if not given.
            options: `method`, `backbone`, `image_size`, `epochs`, each chosen for the images if not given; `memory`,
                images kept in all; `preset`, `seed`; `settings`, a dictionary that overrides settings of the learner.

        Raises:
            UsageError: there is something at `path`, or an option does not exist or is not possible here.
            ItamlError: the folder cannot be written.
        """
        classifier = cls.unsaved(path, device=device, precision=precision, threads=threads, **options)
        with changing(classifier._folder):
            classifier._check_empty()
            classifier._pointer = write(classifier._folder, classifier._model.manifest, None)
        return classifier

    @classmethod
    def unsaved(cls, path: PathLike, **arguments: Any) -> ImageClassifier:
        """Return a new model that is not on disk until its first `learn` (see `create` for arguments and errors)."""
        compute = {name: arguments.pop(name) for name in ("device", "precision", "threads") if name in arguments}
        manifest = Manifest(options=build(Options, arguments, what="option"))
        if manifest.options.method is not None:
            factory(manifest.options.method)
        classifier = cls(ModelFolder(Path(path)), Version(NOT_WRITTEN, manifest, None), **_compute(**compute))
        classifier._check_empty()
        return classifier

    @classmethod
    def open(
        cls, path: PathLike, *, device: str = "auto", precision: str = "auto", threads: int | None = None
    ) -> ImageClassifier:
        """Open a model (see `create` for the arguments).

        Raises:
            UsageError: there is none, or an option is not possible here.
            CheckpointError: it is damaged, or of a newer format.
        """
        folder = ModelFolder(Path(path))
        return cls(folder, folder.read(), **_compute(device, precision, threads))

    def learn(
        self,
        data: Images | LabelledInputs,
        labels: Sequence[Any] | None = None,
        *,
        epochs: int | None = None,
        callback: Callback = ignore,
    ) -> LearnReport:
        """Learn images and save: classes that are new become a new task, others are refreshed.

        A learn that was interrupted continues from its last saved epoch when it is called again with the same images.

        Args:
            data: a folder of class folders, or several of them; with `labels`, images as `predict` takes them.
            labels: the class of each image, text or numbers, if `data` is images; numbers become names.
            epochs: passes through the images in this learn; as the model was made, or chosen for them, if not given.
            callback: called with progress events.

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
        labelled = data if isinstance(data, LabelledInputs) else parse_labelled(data, labels)
        distributed.start()
        distributed.barrier()  # all have opened the model as it is
        with changing(self._folder) if distributed.is_main() else nullcontext(), limited_threads(self._threads):
            distributed.barrier()  # the first process has the lock
            checkpoint = LearnCheckpoint(self._folder)
            model, report = learn(
                self._latest(),
                labelled,
                epochs=epochs,
                compute=self._compute,
                callback=callback,
                checkpoint=checkpoint,
            )
            if report.changed:
                self._pointer = distributed.on_main(partial(_write, self._folder, model))
                self._model = replace(model, files={})
            checkpoint.clear()
        return report

    def predict(
        self,
        images: Images,
        *,
        group: Grouping = "each",
        mean_run: float | None = None,
        top: int = 1,
        unknown: Unknown = "auto",
        rank: Ranking | None = None,
    ) -> list[ImagePrediction]:
        """Predict the class of images.

        Args:
            images: a file, a folder or a PIL image; an array (n, h, w[, c]) or a tensor (n, c, h, w); or a sequence of
                files, folders, PIL images, arrays (h, w[, c]) and tensors ([c,] h, w). Images of other sizes than the
                model's are scaled like files: their centre, to the model's size.
            group: `each` image stands alone, `all` share one task, those in one `folder` do, or they are an ordered
                `stream` whose task changes now and then.
            mean_run: for streams, how many images of one task come in a row on average; estimated if not given.
            top: how many classes to tell.
            unknown: `auto` predicts `unknown` for images that look like none of the classes, by a threshold that was
                calibrated in the last learn; `never` does not; a number does where the confidence is below it.
            rank: `uncertain` returns first the images that labelling would teach most (see `uncertainty`).

        Raises:
            DataError: nothing was learned yet, or these are not images.
            SettingsError: an option is not possible.
        """
        if group not in ("each", "all", "folder", "stream"):
            raise SettingsError(f"group must be each, all, folder or stream, not {group!r}")
        if rank not in (None, "uncertain"):
            raise SettingsError(f"rank must be uncertain, not {rank!r}")
        check_whole("top", top)
        check_unknown(unknown)
        if mean_run is not None:
            check_number("mean_run", mean_run, least=1)
        if self._model.learner is None:
            raise DataError(f"{self.path} has not learned anything yet; `itaml learn {self.path} IMAGES` teaches it")
        given = prepare_inputs(self._model, images)
        with limited_threads(self._threads):
            found = predict_images(
                self._model,
                given,
                by=group,
                mean_run=mean_run,
                top=len(self.classes) if rank else top,
                unknown=unknown,
            )
        if rank is None:
            return found
        return [replace(prediction, top=prediction.top[:top]) for prediction in rank_uncertain(found)]

    def write_page(self, path: PathLike) -> None:
        """Write an HTML page about the model: its history, classes, mistakes, and labels that look wrong.

        Raises:
            DataError: nothing was learned yet.
            MissingExtraError: the extra `report` is not installed.
            ItamlError: the file cannot be written.
        """
        if self._model.learner is None:
            raise DataError(f"{self.path} has not learned anything yet, so there is nothing to show")
        from itaml.modelstore.html_page import write_page  # noqa: PLC0415 (needs the extra `report`)

        with limited_threads(self._threads):
            write_page(Path(path), self.path.resolve().name, self.version, self._model, self._folder)

    def draw_exemplars(self, path: PathLike) -> dict[int, str]:
        """Draw the exemplars as a contact sheet.

        Returns:
            The names that no font of this machine can write, by the number that is in their place: the position of the
            class in `classes`, counting from 1.

        Raises:
            ItamlError: nothing is kept yet, or the file cannot be written.
        """
        exemplars = exemplar_images(self._model, self._folder, limit=MAX_PER_ROW)
        if not exemplars:
            raise DataError(f"{self.path} keeps no images yet")
        counts = self._model.exemplar_counts
        rows = {n + 1: (self.classes[n], counts[n], pixels) for n, pixels in exemplars.items()}
        return contact_sheet(Path(path), rows)


def _compute(device: str = "auto", precision: str = "auto", threads: int | None = None) -> dict[str, Any]:
    """Check where and how to compute; return it as arguments of `ImageClassifier`."""
    compute = build(Compute, {"device": device, "precision": precision}, what="option")
    check_compute(compute)
    check_threads(threads)
    return {"compute": compute, "threads": threads}


def _write(folder: ModelFolder, model: Model) -> Pointer:
    """Write a model that has learned, after an empty one if the folder is new."""
    if not folder.exists():
        write(folder, Manifest(options=model.manifest.options), None)
    return write(folder, model.manifest, model.state(), model.files)
