"""Which program computes a frozen backbone: ONNX Runtime where it can, torch otherwise.

ONNX Runtime is used on a CPU if it is installed and the network was exported before or can be exported now, once per
backbone: at once for an EfficientNet-Lite, in some seconds for others. `ITAML_RUNTIME=torch` turns it off. The features
of the two differ by rounding.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from itaml.errors import SettingsError
from itaml.hardware.machine import cache_folder
from itaml.models.backbones.efficientnet_lite import EfficientNetLite
from itaml.models.backbones.onnx_network import onnx_backbone, onnx_file
from itaml.models.backbones.spec import Backbone

VARIABLE = "ITAML_RUNTIME"
WRITE_TOOLS = ("onnx",)  # to write an EfficientNet-Lite
TRACE_TOOLS = ("onnx", "onnxscript")  # to trace any other network

Runtime = Literal["torch", "onnx"]
logger = logging.getLogger(__name__)


def choose_runtime(backbone: Backbone, device: torch.device, *, folder: Path | None = None) -> Runtime:
    """Return what will compute a backbone; nothing is opened or exported.

    Raises:
        SettingsError: the environment variable `ITAML_RUNTIME` is neither auto nor torch.
    """
    wanted = os.environ.get(VARIABLE, "auto")
    if wanted not in ("auto", "torch"):
        raise SettingsError(f"the environment variable {VARIABLE} is auto or torch, not {wanted!r}")
    if wanted == "torch" or device.type != "cpu" or not _installed("onnxruntime"):
        return "torch"
    exported = onnx_file(backbone, folder or exports_folder()).exists()
    tools = WRITE_TOOLS if isinstance(backbone.network, EfficientNetLite) else TRACE_TOOLS
    return "onnx" if exported or all(map(_installed, tools)) else "torch"


def open_runtime(backbone: Backbone, *, folder: Path | None = None) -> Backbone:
    """Return the backbone run by ONNX Runtime with torch's number of threads, or as it is if that fails."""
    folder = folder or exports_folder()
    file = onnx_file(backbone, folder)
    if not file.exists():
        logger.info("exporting %s for ONNX Runtime, once", backbone.spec.name)
    try:
        return onnx_backbone(backbone, folder, threads=torch.get_num_threads())
    except Exception as error:  # an optional package may fail in any way; torch computes the same
        reason = " ".join(str(error).split()) or type(error).__name__
        logger.warning("%s is computed by torch, not by ONNX Runtime: %s", backbone.spec.name, reason)
        with suppress(OSError):
            file.unlink(missing_ok=True)
        return backbone


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # half of an installation
        return False


def exports_folder() -> Path:
    """Return where exported networks are kept, in the user's cache folder."""
    return cache_folder() / "onnx"
