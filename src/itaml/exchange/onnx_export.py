"""Export a model as an ONNX file that holds everything from an image's bytes to the prediction.

The file is compared with the model before it gets its name: probabilities may differ by 1e-4 at most.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from itaml.config import Compute
from itaml.errors import CheckpointError, DataError, SettingsError
from itaml.exchange.export_check import MOST_CHECKED, Run, compare, kept_images
from itaml.exchange.export_network import OUTPUTS, ExportNetwork
from itaml.exchange.onnx_graph import export_metadata, in_single_precision
from itaml.models.backbones.module import import_optional
from itaml.modelstore.loaded_model import restore
from itaml.safe_files import read_regular, reason_of

if TYPE_CHECKING:
    from itaml.modelstore.image_classifier import ImageClassifier

OPSET = 18
INPUT = "images"
ONNX_LIMIT = 2 << 30  # bytes of a file; a protocol buffer cannot be larger
EXTRA = "'itaml[export]'"
NOISY = ("torch.onnx", "onnxscript", "onnx_ir")  # they warn of everything that they could use and do not need


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how it compares with the model."""

    path: Path
    size: int  # bytes
    images: int  # that were compared
    difference: float  # the largest of a probability
    accuracy: float | None = None  # of the model, on `measured` images; None unless numbers were made smaller
    int8_accuracy: float | None = None
    measured: int = 0
    measured_on: str = ""  # `validation` images or `exemplar` images


def export_onnx(classifier: ImageClassifier, path: str | os.PathLike[str], *, int8: bool = False) -> ExportReport:
    """Write a model as an ONNX file (opset 18); see `export_network` for its outputs and docs/exchange.md.

    Args:
        classifier: a model that has learned something.
        path: the file; one that exists is replaced.
        int8: weights and activations of the network as 8-bit integers, calibrated on the images that the model keeps.

    Raises:
        DataError: nothing was learned yet, or `int8` has no images to calibrate with.
        SettingsError: the method cannot be exported.
        CheckpointError: the file does not predict what the model predicts.
        MissingExtraError: the extra `export` is not installed.
    """
    for module in ("onnx", "onnxscript", "onnxruntime"):
        import_optional(module, EXTRA, "an exported model")
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        images, difference = _write(classifier, unfinished)
        report = ExportReport(target, unfinished.stat().st_size, images, difference)
        if int8:
            from itaml.exchange.int8 import quantize  # noqa: PLC0415 (extra `export`)

            report = quantize(classifier, unfinished, report)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return report


def trace(classifier: ImageClassifier) -> tuple[torch.export.ExportedProgram, dict[str, str]]:
    """Return a model as a program for batches and images of any size, and its metadata (see `export_onnx`)."""
    if classifier._model.learner is None:
        raise DataError(f"{classifier.path} has not learned anything yet, so there is nothing to export")
    loaded = classifier._model
    model = restore(loaded.manifest, loaded.state(), Compute(device="cpu"), like=loaded.learner)
    samples = next(iter(model.validation_images.values()), None)
    shape = model.manifest.shape if samples is None else samples.shape[1:]
    assert shape is not None
    if samples is None and model.learner is not model.core:
        shape = (model.ready.extractor.features, 1, 1)  # type: ignore[attr-defined]
    model.core.predict(torch.zeros(1, *shape), torch.arange(1))  # what is computed once is not part of the trace
    network = ExportNetwork(model)
    images = torch.zeros(2, 12, 15, network.channels, dtype=network.input_dtype)
    sizes = {axis: torch.export.Dim(name) for axis, name in enumerate(("n", "height", "width"))}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network(images)
        try:
            program = torch.export.export(network, (images,), dynamic_shapes=(sizes,), strict=False)
        except Exception as error:  # torch has an exception class of its own for each thing that it cannot trace
            said = " ".join(str(error).split())
            raise SettingsError(f"{model.manifest.method} cannot be exported: {said:.200}") from error
    return program, export_metadata(model)


def open_session(file: str | os.PathLike[str] | bytes, *, threads: int = 0) -> Any:
    """Return a session of ONNX Runtime on the CPU; a file is read by us, so that it can name no other files.

    Raises:
        CheckpointError: the file cannot be read.
    """
    runtime = import_optional("onnxruntime", EXTRA, "an exported model")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    what = "the exported network" if isinstance(file, bytes) else os.fspath(file)
    try:
        data = file if isinstance(file, bytes) else read_regular(os.path.realpath(file), limit=ONNX_LIMIT)
        return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except OSError as error:
        raise CheckpointError(f"{what} cannot be read as ONNX: {reason_of(error)}") from error
    except Exception as error:  # onnxruntime has an exception class of its own for each status code
        raise CheckpointError(f"{what} cannot be read as ONNX: {' '.join(str(error).split())[:400]}") from error


def runner(session: Any) -> Run:
    """Return a function that runs a session on images (n, h, w, channels)."""

    def run(images: Any) -> Any:
        return tuple(session.run(list(OUTPUTS), {INPUT: images}))

    return run


def _write(classifier: ImageClassifier, path: Path) -> tuple[int, float]:
    """Write and compare; a head that single precision is not enough for is written in double precision."""
    import onnx  # noqa: PLC0415 (extra `export`)

    program, metadata = trace(classifier)
    exact = _graph(program)
    onnx.helper.set_model_props(exact, metadata)
    images = kept_images(classifier, kind="exemplar", limit=MOST_CHECKED).first(MOST_CHECKED).images
    for proto in (in_single_precision(exact), exact):
        data = proto.SerializeToString()
        try:
            difference = compare(classifier, runner(open_session(data)), images)
            break
        except CheckpointError:
            if proto is exact:
                raise
    path.write_bytes(data)
    return len(images), difference


def _graph(program: torch.export.ExportedProgram) -> Any:
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.onnx.export(
                program,
                (),
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=list(OUTPUTS),
            )
    except Exception as error:  # the exporter has an exception class of its own for each stage
        raise CheckpointError(f"the model cannot be exported: {' '.join(str(error).split())}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    assert found is not None
    return found.model_proto
