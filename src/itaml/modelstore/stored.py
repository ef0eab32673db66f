"""What a model in memory shares with its folder: its version, saving a copy, going back, checking, describing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from itaml.config import Compute
from itaml.errors import UsageError
from itaml.models.backbones.program_trust import trust_programs
from itaml.modelstore.checksummed_json import FORMAT, Pointer
from itaml.modelstore.description import TaskInfo, describe, learned_tasks
from itaml.modelstore.exemplar_files import read_file
from itaml.modelstore.loaded_model import Model, restored
from itaml.modelstore.model_copy import copied
from itaml.modelstore.model_display import model_html
from itaml.modelstore.model_folder import ModelFolder, Version, size_on_disk
from itaml.modelstore.verification import problems
from itaml.modelstore.version_writer import copy_version, rollback

if TYPE_CHECKING:
    from itaml.exchange.onnx_export import ExportReport
    from itaml.modelstore.image_classifier import ImageClassifier

NOT_WRITTEN = Pointer(0, "not written")

PathLike = str | os.PathLike[str]


class StoredModel:
    """A version of a model in memory, and the folder that it belongs to."""

    def __init__(self, folder: ModelFolder, version: Version, compute: Compute, *, threads: int | None = None) -> None:
        self._folder, self._compute, self._threads = folder, compute, threads
        self._take(version)

    @property
    def path(self) -> Path:
        """The model's folder."""
        return self._folder.path

    @property
    def version(self) -> int:
        """The number of the version in memory: 0 for an empty model, 1 after the first learn."""
        return self._pointer.number

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of all classes, in order of arrival."""
        return self._model.manifest.classes

    @property
    def tasks(self) -> tuple[TaskInfo, ...]:
        """What was learned, task by task."""
        return learned_tasks(self._model)

    @property
    def unknown_threshold(self) -> float:
        """Score (`unknown_score` of a prediction) above which an image is unknown; infinite: none is."""
        return self._model.unknown_threshold

    def _repr_html_(self) -> str:
        """Return a table with exemplars for notebooks."""
        return model_html(self.path.name, self.version, self._model, self._folder)

    def reload(self) -> None:
        """Take over what other processes have learned since (see `open` for errors)."""
        self._take(self._folder.read())

    def export(self, path: PathLike, *, int8: bool = False) -> ExportReport:
        """Write the model as one file that other programs run: `.onnx`, or `.pt2` for `torch.export`.

        Args:
            path: the file; one that exists is replaced.
            int8: 8-bit numbers in the network of an `.onnx` file; the report says what accuracy that costs.

        Raises:
            UsageError: the file has another ending, or the method cannot be exported.
            DataError: nothing was learned yet, or there are no images to calibrate int8 with.
            CheckpointError: the file does not predict what the model predicts.
            MissingExtraError: the extra `export` is not installed.
        """
        suffix, model = os.path.splitext(path)[1], cast("ImageClassifier", self)
        if suffix not in (".onnx", ".pt2") or (int8 and suffix == ".pt2"):
            what = "for int8 a model is" if int8 else "a model is"
            raise UsageError(f"{what} exported to .onnx{'' if int8 else ' or .pt2'}, not to {os.fspath(path)!r}")
        if suffix == ".pt2":
            from itaml.exchange.program_export import export_program  # noqa: PLC0415 (slow to import)

            return export_program(model, path)
        from itaml.exchange.onnx_export import export_onnx  # noqa: PLC0415 (needs the extra `export`)

        return export_onnx(model, path, int8=int8)

    def save(self, path: PathLike) -> None:
        """Write a copy of the model in memory as a new model at `path`; `learn` saves by itself.

        Raises:
            UsageError: there is something at `path`.
            ItamlError: it cannot be written.
        """
        state = None if self._model.learner is None else self._model.state()
        files = {image.sha256: read_file(self._folder, image) for image in self._model.manifest.stored_images}
        copy_version(Version(self._pointer, self._model.manifest, state), ModelFolder(Path(path)), files)

    def rollback(self) -> int:
        """Return to the state before the last learn, for good; return the number of the version now in use.

        Raises:
            UsageError: there is no earlier version.
        """
        self._take(rollback(self._folder)[1])
        return self.version

    def verify(self) -> list[str]:
        """Check every file of the model; return a sentence for each thing wrong."""
        return problems(self._folder)[1]

    def info(self) -> dict[str, Any]:
        """Return what there is to know, as plain values."""
        return {
            "path": str(self.path),
            "format": FORMAT,
            "version": self.version,
            "versions_kept": self._folder.numbers(),
            "bytes": size_on_disk(self._folder),
            **describe(self._model),
        }

    def _take(self, version: Version) -> None:
        self._pointer = version.pointer
        self._model = self._restored(version)

    def _restored(self, version: Version) -> Model:
        if version.pointer == NOT_WRITTEN:  # named by the user, not by a record
            trust_programs(version.manifest.backbones)
        return restored(f"{self.path}: version {version.number}", version.manifest, version.state, self._compute)

    def _latest(self) -> Model:
        """Return the model to go on with, to be used up: what is in memory, unless the disk has another version."""
        if not self._folder.exists():
            return self._model
        if self._folder.current() == self._pointer:
            return copied(self._model, self._compute)
        version = self._folder.read()
        if self._pointer == NOT_WRITTEN and not version.manifest.classes:
            return self._model  # the options of a model that has learned nothing are replaced
        return self._restored(version)

    def _check_empty(self) -> None:
        if self._folder.exists() and self._folder.read().manifest.classes:
            raise UsageError(f"there is a model in {self.path} already; open it, or choose another name")
