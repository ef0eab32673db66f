"""Changes of an ONNX graph: numbers in single precision, and what a reader must know as metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from itaml._version import __version__
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.modelstore.loaded_model import Model

if TYPE_CHECKING:
    import onnx

FORMAT = "1"  # of the metadata


def export_metadata(model: Model) -> dict[str, str]:
    """Return what a reader of an exported network must know, as text."""
    manifest, core = model.manifest, model.core
    assert manifest.shape is not None
    temperature = core.fit.temperature if isinstance(core, StatisticsLearner) else model.confidence.temperature
    return {
        "itaml_format": FORMAT,
        "itaml_version": __version__,
        "classes": json.dumps(manifest.classes, ensure_ascii=False),
        "tasks": json.dumps([task.classes for task in manifest.tasks], ensure_ascii=False),
        "unknown_threshold": repr(float(model.unknown_threshold)),  # `inf`: no image is ever called unknown
        "temperature": repr(float(temperature)),  # that the probabilities were divided by already
        "image_shape": json.dumps(manifest.shape),  # at which the network sees an image
        "method": manifest.method,
        "backbone": str(manifest.settings.get("backbone", "")),
    }


def in_single_precision(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph in which numbers of double precision have single precision; most runtimes have no others."""
    import onnx  # noqa: PLC0415 (extra `export`)

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    double, single = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT
    for tensor in _tensors(result.graph):
        if tensor.data_type == double:
            tensor.CopyFrom(onnx.numpy_helper.from_array(_single(onnx.numpy_helper.to_array(tensor)), tensor.name))
    for node in result.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == double:
                attribute.i = single
    for value in result.graph.value_info:
        if value.type.tensor_type.elem_type == double:
            value.type.tensor_type.elem_type = single
    return result


def _single(values: Any) -> Any:
    """Return an array in single precision, in which the smallest positive numbers do not become zero."""
    tiny = np.finfo(np.float32).tiny
    return np.where((values > 0) & (values < tiny), tiny, values).astype(np.float32)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
