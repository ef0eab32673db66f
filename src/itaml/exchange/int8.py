"""The network of an exported model with 8-bit weights and activations: a quarter of the size, faster on many CPUs.

Ranges are calibrated on the exemplars. Only the network is changed: convolutions, or linear layers if there are none.
The resize, the normalisation, and the head of a statistics learner keep their precision. What it costs is measured on
the validation images, or on the exemplars where a model keeps no others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from itaml.errors import DataError, SettingsError
from itaml.exchange.export_check import MOST_MEASURED, KeptImages, kept_images, measure_accuracy

if TYPE_CHECKING:
    from itaml.exchange.onnx_export import ExportReport
    from itaml.modelstore.image_classifier import ImageClassifier

CALIBRATION_IMAGES = 128
CALIBRATION_BATCH = 8
LINEAR = ("Gemm", "MatMul")
ACTIVATIONS = ("Clip", "Relu", "Add")


def quantize(classifier: ImageClassifier, path: Path, report: ExportReport) -> ExportReport:
    """Replace an exported network by one of 8-bit integers; return the report with the accuracy of both.

    Raises:
        DataError: the model keeps no images to calibrate with.
        SettingsError: there is no network to make smaller, or pixels are floats of their own range.
    """
    from onnxruntime import quantization  # noqa: PLC0415 (extra `export`)

    from itaml.exchange.onnx_export import open_session, runner  # noqa: PLC0415 (it calls this module)

    kept = kept_images(classifier, kind="exemplar", limit=CALIBRATION_IMAGES)
    if kept.kind == "drawn":
        raise DataError("int8 needs images to calibrate with, and this model keeps none; export it without int8")
    measured = kept_images(classifier, kind="validation", limit=MOST_MEASURED)
    if measured.kind == "drawn":
        measured = kept_images(classifier, kind="exemplar", limit=MOST_MEASURED)
    before = measure_accuracy(runner(open_session(path)), measured)
    log = logging.getLogger()
    level = log.level
    log.setLevel(logging.ERROR)  # the quantizer advises on the root logger
    small = path.with_suffix(".int8")
    try:
        with np.errstate(all="ignore"):  # it divides by the range of values that are constant
            quantization.quantize_static(
                path,
                small,
                _Reader(kept.first(CALIBRATION_IMAGES)),
                nodes_to_quantize=_network_nodes(path),
                per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
                calibrate_method=quantization.CalibrationMethod.MinMax,
            )
        after = measure_accuracy(runner(open_session(small)), measured)
        small.replace(path)
    finally:
        log.setLevel(level)
        small.unlink(missing_ok=True)
    return replace(
        report,
        size=path.stat().st_size,
        accuracy=before,
        int8_accuracy=after,
        measured=len(measured.labels),
        measured_on=measured.kind,
    )


class _Reader:
    """Hands images to the calibration, some at a time."""

    def __init__(self, kept: KeptImages) -> None:
        self.batches: Iterator[Any] = (
            {"images": kept.images[start : start + CALIBRATION_BATCH]}
            for start in range(0, len(kept.images), CALIBRATION_BATCH)
        )

    def get_next(self) -> Any:
        """Return the next input, None at the end."""
        return next(self.batches, None)


def _network_nodes(path: Path) -> list[str]:
    """Return the names of the nodes that are the network's: its layers, and the activations that follow them."""
    import onnx  # noqa: PLC0415 (extra `export`)

    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    layers = [node for node in graph.node if node.op_type == "Conv"]
    if not layers:
        activated = {name for node in graph.node if node.op_type == "Relu" for name in (*node.input, *node.output)}
        linear = [node for node in graph.node if node.op_type in LINEAR and constants.intersection(node.input)]
        layers = [node for node in linear if activated.intersection((*node.input, *node.output))]
    if not layers:
        raise SettingsError("this model has no network whose numbers could be made smaller; export it without int8")
    inside = {name for node in layers for name in node.output}
    found = [node.name for node in layers]
    for node in graph.node:  # in topological order
        if node.op_type in ACTIVATIONS and inside.intersection(node.input):
            inside.update(node.output)
            found.append(node.name)
    return found
