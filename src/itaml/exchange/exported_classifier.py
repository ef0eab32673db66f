"""`ExportedClassifier`: predict with an exported ONNX file as `ImageClassifier.predict` does, without its model."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from itaml.errors import CheckpointError, DataError, SettingsError
from itaml.exchange.onnx_export import INPUT, open_session, runner
from itaml.exchange.onnx_graph import FORMAT
from itaml.modelstore.argument_checks import check_unknown, check_whole
from itaml.modelstore.class_names import UNKNOWN
from itaml.modelstore.image_listing import what_to_install
from itaml.modelstore.input_parsing import parse_inputs
from itaml.modelstore.inputs import unreadable
from itaml.modelstore.manifest import PixelFormat
from itaml.modelstore.pixels import ANY_FLOATS, BYTES
from itaml.modelstore.predictions import ImagePrediction, Unknown
from itaml.safe_files import parse_json

MAX_SIDE = 4096  # pixels
BATCH = 32
Outputs = tuple[int, list[float], list[float], float]  # label, probabilities, log-posteriors, unknown score


class ExportedClassifier:
    """An ONNX file that `itaml export` wrote.

    Args:
        path: the file.
        threads: CPU threads; ONNX Runtime's own choice if None.

    Raises:
        CheckpointError: it cannot be read, or is no exported model.
        MissingExtraError: onnxruntime is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        self.path = os.fspath(path)
        session = open_session(path, threads=threads or 0)
        metadata = session.get_modelmeta().custom_metadata_map
        try:
            if metadata["itaml_format"] != FORMAT:
                raise CheckpointError(
                    f"{self.path} has format {metadata['itaml_format']}, and this version reads {FORMAT}"
                )
            self.classes = tuple(map(str, parse_json(metadata["classes"])))
            self.tasks = tuple(tuple(map(str, task)) for task in parse_json(metadata["tasks"]))
            self.unknown_threshold = float(metadata["unknown_threshold"])
            self.temperature = float(metadata["temperature"])
            _, self.height, self.width = map(int, parse_json(metadata["image_shape"]))
            if not (1 <= self.height <= MAX_SIDE and 1 <= self.width <= MAX_SIDE):
                raise ValueError(f"images of {self.height:.9g} x {self.width:.9g} pixels")
            (given,) = [one for one in session.get_inputs() if one.name == INPUT]
            self._channels = int(given.shape[3])
        except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
            raise CheckpointError(f"{self.path} is not a model that itaml exported ({error!r:.200})") from error
        self._format: PixelFormat = BYTES if given.type == "tensor(uint8)" else ANY_FLOATS
        self._run = runner(session)

    def predict(self, images: Any, *, top: int = 1, unknown: Unknown = "auto") -> list[ImagePrediction]:
        """Predict the class of images, each alone; see `ImageClassifier.predict` for the arguments.

        Raises:
            DataError: these are not images.
            SettingsError: an option is not possible.
        """
        check_whole("top", top)
        check_unknown(unknown)
        inputs = parse_inputs(images)
        if not len(inputs):
            return []
        if inputs.indexes and self.height != self.width:
            raise DataError(f"this model was made for arrays of {self.height} x {self.width} pixels; files are squares")
        shape = (self._channels, self.height, self.width)
        found = inputs.images(torch.zeros(len(inputs), dtype=torch.int64), shape, self._format, exact=False)
        if found.batch(torch.arange(1))[0].is_floating_point() != (self._format == ANY_FLOATS):
            raise SettingsError("an exported model takes uint8 images; scale these floats to 0..255 and round them")
        files: list[str | None] = inputs.files()
        predictions: list[ImagePrediction | None] = [None] * len(files)
        for pixels, rows in found.numbered().batches(BATCH):
            if len(rows):
                outputs = self._run(np.ascontiguousarray(pixels.permute(0, 2, 3, 1).numpy()))
                for row, *values in zip(rows.tolist(), *(output.tolist() for output in outputs), strict=True):
                    predictions[row] = self._prediction(files[row], row, values, top=top, unknown=unknown)
        reasons = dict(unreadable(found).entries)
        return [one or _unreadable(file, reasons) for file, one in zip(files, predictions, strict=True)]

    def _prediction(self, file: str | None, row: int, values: Any, *, top: int, unknown: Unknown) -> ImagePrediction:
        label, probabilities, _, score = values
        order = sorted(range(len(self.classes)), key=lambda column: (column != label, -probabilities[column]))
        ranked = tuple((self.classes[column], probabilities[column]) for column in order[:top])
        confidence = probabilities[label]
        known = unknown == "never" or (score <= self.unknown_threshold if unknown == "auto" else confidence >= unknown)
        task = next(number for number, names in enumerate(self.tasks) if self.classes[label] in names)
        name = self.classes[label] if known else UNKNOWN
        return ImagePrediction(file, name, confidence, task, row, ranked, known=known, unknown_score=score)


def _unreadable(file: str | None, reasons: dict[str, str]) -> ImagePrediction:
    reason = reasons.get(file or "", "cannot be read") + what_to_install(file or "")
    return ImagePrediction(file, None, 0.0, None, None, error=reason, known=False)
