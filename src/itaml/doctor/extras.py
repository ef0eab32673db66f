"""Which packages the installation asks for, which of them are there, and what each extra gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

GIVES = {
    "report": "HTML reports, figures and plots of ablations",
    "pandas": "results as data frames",
    "tensorboard": "numbers of a run in TensorBoard",
    "mlflow": "numbers of a run in MLflow",
    "pretrained": "weights of EfficientNet-Lite1 and -Lite2 (those of Lite0 are always installed)",
    "serve": "a model as an HTTP service",
    "export": "models as ONNX files, and frozen backbones by ONNX Runtime, faster on CPUs",
    "ray": "runs spread over a Ray cluster",
    "tune": "settings chosen on a validation split by Optuna",
    "remote": "images from URLs and object stores",
    "hub": "models pushed to and pulled from the Hugging Face Hub",
    "docs": "building the documentation",
    "dev": "running the tests and checks",
}
NAME, EXTRA = re.compile(r"[A-Za-z0-9._-]+"), re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True)
class Extra:
    """An optional part of the package: what it gives, and which of its packages are not installed."""

    name: str
    gives: str
    missing: tuple[str, ...]

    @property
    def installed(self) -> bool:
        """Whether all of its packages are there."""
        return not self.missing


def extras() -> tuple[Extra, ...]:
    """Return every extra that the installed package declares."""
    found: dict[str, list[str]] = {}
    for extra, name in _requirements():
        if extra:
            found.setdefault(extra, []).extend([] if is_installed(name) else [name])
    return tuple(Extra(name, GIVES.get(name, ""), tuple(missing)) for name, missing in found.items())


def missing_dependencies() -> tuple[str, ...]:
    """Return the packages that nothing works without and that are not installed."""
    return tuple(name for extra, name in _requirements() if not extra and not is_installed(name))


def is_installed(name: str) -> bool:
    """Return whether a distribution is installed."""
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _requirements() -> list[tuple[str, str]]:
    """Return (extra, package) of all that the package requires; the extra is empty for what is always required."""
    try:
        lines = requires("itaml") or []
    except PackageNotFoundError:  # a source folder that was not installed says nothing
        return []
    found = []
    for line in lines:
        name, extra = NAME.match(line), EXTRA.search(line)
        if name and name.group() != "itaml":  # an extra that includes others
            found.append((extra.group(1) if extra else "", name.group()))
    return found
