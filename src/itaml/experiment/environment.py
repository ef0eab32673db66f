"""The versions and the machine that numbers depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import torch

from itaml import distributed
from itaml._version import __version__
from itaml.hardware.machine import cores


def environment() -> dict[str, Any]:
    """Return the versions and the machine that numbers depend on."""
    packages = ("torch", "numpy", "scipy", "scikit-learn", "pillow")
    return {
        "itaml": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": cores(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        **({"processes": distributed.size()} if distributed.size() > 1 else {}),
    }
