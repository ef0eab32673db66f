"""Classifiers that keep learning new classes.

The public names below are imported when they are first used, so that `import itaml` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from itaml._version import __version__

if TYPE_CHECKING:
    from itaml.config import Compute, Seeds
    from itaml.data.images import ImageSet
    from itaml.data.stream import Dataset, Task, TaskStream
    from itaml.errors import ItamlError
    from itaml.experiment.build import make_learner, make_stream
    from itaml.experiment.result import Result, load_result
    from itaml.experiment.run_config import RunConfig, resolve
    from itaml.experiment.runner import run_experiment
    from itaml.inference.bound import continuum_size, task_accuracy
    from itaml.learners.api import Learner, Prediction
    from itaml.learners.methods.itaml import ITAML
    from itaml.learners.methods.itaml_settings import ITAMLSettings
    from itaml.memory.buffer import Memory
    from itaml.models.classifier import Classifier, build_classifier
    from itaml.modelstore.image_classifier import ImageClassifier

_HOMES = {
    "Classifier": "itaml.models.classifier",
    "Compute": "itaml.config",
    "Dataset": "itaml.data.stream",
    "ITAML": "itaml.learners.methods.itaml",
    "ITAMLSettings": "itaml.learners.methods.itaml_settings",
    "ImageSet": "itaml.data.images",
    "ItamlError": "itaml.errors",
    "Learner": "itaml.learners.api",
    "ImageClassifier": "itaml.modelstore.image_classifier",
    "Memory": "itaml.memory.buffer",
    "Prediction": "itaml.learners.api",
    "Result": "itaml.experiment.result",
    "RunConfig": "itaml.experiment.run_config",
    "Seeds": "itaml.config",
    "Task": "itaml.data.stream",
    "TaskStream": "itaml.data.stream",
    "build_classifier": "itaml.models.classifier",
    "continuum_size": "itaml.inference.bound",
    "load_result": "itaml.experiment.result",
    "make_learner": "itaml.experiment.build",
    "make_stream": "itaml.experiment.build",
    "resolve": "itaml.experiment.run_config",
    "run_experiment": "itaml.experiment.runner",
    "task_accuracy": "itaml.inference.bound",
}

__all__ = [
    "ITAML",
    "Classifier",
    "Compute",
    "Dataset",
    "ITAMLSettings",
    "ImageClassifier",
    "ImageSet",
    "ItamlError",
    "Learner",
    "Memory",
    "Prediction",
    "Result",
    "RunConfig",
    "Seeds",
    "Task",
    "TaskStream",
    "__version__",
    "build_classifier",
    "continuum_size",
    "load_result",
    "make_learner",
    "make_stream",
    "resolve",
    "run_experiment",
    "task_accuracy",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'itaml' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
