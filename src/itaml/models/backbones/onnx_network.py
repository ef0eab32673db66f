"""Run a backbone by ONNX Runtime where it is installed, which is faster on CPUs than torch in eager mode.

The network is exported once to a file named by the hash of its weights and its input size, and read from there
afterwards. Its features agree with torch's up to rounding, which is checked on a batch when it is opened.
"""

from __future__ import annotations

import copy
import logging
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from itaml.errors import CheckpointError
from itaml.models.backbones.efficientnet_lite import EfficientNetLite
from itaml.models.backbones.lite_onnx import lite_graph
from itaml.models.backbones.module import import_optional
from itaml.models.backbones.spec import Backbone

TOLERANCE = 1e-3  # of the largest feature


class OnnxNetwork(nn.Module):
    """A session of ONNX Runtime as a module for inference."""

    def __init__(self, session: Any) -> None:
        super().__init__()
        self.session = session

    def forward(self, images: Tensor) -> Tensor:
        """Return the features (n, features) of normalised images."""
        (features,) = self.session.run(None, {"images": images.contiguous().numpy()})
        return torch.from_numpy(features)


def onnx_backbone(backbone: Backbone, folder: Path, *, threads: int = 0) -> Backbone:
    """Return the same backbone, run by ONNX Runtime.

    Args:
        backbone: as `open_backbone` returned it.
        folder: where the exported network is kept.
        threads: threads of one forward pass; 0 leaves the choice to ONNX Runtime.

    Raises:
        MissingExtraError: onnxruntime, or onnxscript for the export, is not installed.
        CheckpointError: the exported network does not compute what the backbone computes.
    """
    runtime = import_optional("onnxruntime", "'itaml[export]'", backbone.spec.name)
    path = onnx_file(backbone, folder)
    if not path.exists():
        _export(backbone, path)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has an exception class of its own for each status code
        raise CheckpointError(f"cannot read {path}: {error}; delete it, and it is made again") from error
    fast = replace(backbone, network=OnnxNetwork(session), memory_format=torch.contiguous_format)
    _compare(backbone, fast)
    return fast


def onnx_file(backbone: Backbone, folder: Path) -> Path:
    """Return the file of a backbone's exported network, which need not exist."""
    return folder / f"{backbone.spec.weights_sha256[:32]}-{backbone.spec.preprocessing.size}.onnx"


def _export(backbone: Backbone, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    if isinstance(backbone.network, EfficientNetLite):
        unfinished.write_bytes(lite_graph(backbone.network, name=backbone.spec.name))
    else:
        _traced(backbone).save(unfinished, external_data=False)
    unfinished.replace(path)


def _traced(backbone: Backbone) -> torch.onnx.ONNXProgram:
    import_optional("onnxscript", "'itaml[export]'", backbone.spec.name)
    channels, size = len(backbone.spec.preprocessing.mean), backbone.spec.preprocessing.size
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns of every package that it could use and does not need
    try:
        return _program(backbone, channels, size)
    except Exception as error:  # the exporter has an exception class of its own for each stage
        raise CheckpointError(f"{backbone.spec.name} cannot be exported: {' '.join(str(error).split())}") from error
    finally:
        log.setLevel(level)


def _program(backbone: Backbone, channels: int, size: int) -> torch.onnx.ONNXProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            copy.deepcopy(backbone.network).to(memory_format=torch.contiguous_format),  # type: ignore[call-overload]
            (torch.zeros(2, channels, size, size),),
            input_names=["images"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program


def _compare(slow: Backbone, fast: Backbone) -> None:
    preprocessing = slow.spec.preprocessing
    shape = (3, len(preprocessing.mean), preprocessing.size, preprocessing.size)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    expected, found = slow.features(images), fast.features(images)
    if not bool((found - expected).abs().max() <= TOLERANCE * expected.abs().max()):
        raise CheckpointError(f"ONNX Runtime does not compute what {slow.spec.name} computes; use torch instead")
