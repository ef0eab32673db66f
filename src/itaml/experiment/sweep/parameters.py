"""Sweep parameters: the settings whose values `itaml ablate` compares, and the values that are worth comparing.

Importing this module imports no torch: the command's help reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from itaml.errors import UnknownNameError
from itaml.models import backbone_traits
from itaml.registry import unknown

CONTINUUM = "p"  # the one parameter that is no setting: every run is evaluated with continua of many sizes
BUDGETS = ("memory", "memory_bytes")  # in images or in bytes
SHARES = {"quarter": 0.25, "half": 0.5, "same": 1.0, "double": 2.0}  # of the preset's memory


@dataclass(frozen=True)
class SweepParameter:
    """A setting that can be varied."""

    name: str
    meaning: str
    values: tuple[Any, ...] = ()  # compared unless others are named; none if they follow from the other settings
    at_inference: bool = False  # read after training only, so that one trained learner serves every value
    of_memory: bool = False  # means nothing to a method without exemplars


_ALL = (
    SweepParameter(CONTINUUM, "samples per continuum", (1, 2, 5, 10, 20, 50), at_inference=True),
    SweepParameter("inner_steps", "steps of each inner loop (r)", (1, 2, 5)),
    SweepParameter("beta", "decay of the outer rate eta", (0, 0.5, 1, 2)),
    SweepParameter("adapt_steps", "updates at inference (b)", (0, 1, 5, 10), at_inference=True),
    SweepParameter(
        "adapt_anchor", "anchor of an own-task head to the generic one", (1, 0.1, 0.01, 0.001), at_inference=True
    ),
    SweepParameter("adapt_lda", "share of LDA in an own-task head", (0, 0.25, 0.5, 1), at_inference=True),
    SweepParameter("optimizer", "optimiser", ("sgd", "adam", "radam")),
    SweepParameter("backbone", "network"),
    SweepParameter("loss", "loss of the classes", ("bce", "ce")),
    SweepParameter("negatives", "columns that compete in the loss", ("own", "seen")),
    SweepParameter("task_score", "score of a task", ("max-logit", "log-posterior", "calibrated"), at_inference=True),
    SweepParameter(
        "task_temperature", "temperature of task_score=energy (0 is max-logit)", (0, 0.5, 1, 2, 4), at_inference=True
    ),
    SweepParameter("task_epsilon", "e of the robust sum over a continuum", (0, 0.01, 0.05, 0.1), at_inference=True),
    SweepParameter(
        "task_distance", "distances in the task score", ("none", "mahalanobis", "nearest"), at_inference=True
    ),
    SweepParameter("task_distance_weight", "weight of task_distance", (0.01, 0.1, 1, 10), at_inference=True),
    SweepParameter(
        "flip_tta", "average with horizontally flipped images at inference", (False, True), at_inference=True
    ),
    SweepParameter(
        "shift_tta", "average with images shifted by this many pixels at inference", (0, 1, 2, 4), at_inference=True
    ),
    SweepParameter("memory", "exemplars in all", ("half", "same", "double"), of_memory=True),
    SweepParameter("memory_bytes", "bytes of exemplars in all", ("half", "same", "double"), of_memory=True),
    SweepParameter("selection", "choice of exemplars", ("random", "herding", "first"), of_memory=True),
    SweepParameter("augment", "random changes of training images"),
    SweepParameter("class_balancing", "how exemplars are weighted", ("tasks", "logits"), of_memory=True),
    SweepParameter("strong_augment", "stronger changes, of exemplars above all", ("none", "trivial", "trivial-cutout")),
    SweepParameter("distill", "weight of the distillation", (0, 0.5, 1, 2)),
    SweepParameter("progressive_resize_from", "size of the first training images", (0.5, 0.75, 1)),
)
SWEEP_PARAMETERS = {parameter.name: parameter for parameter in _ALL}


def find_parameter(name: str) -> SweepParameter:
    """Return the parameter called `name`.

    Raises:
        UnknownNameError: there is none; the message lists them, and offers the nearest name if there is one.
    """
    if name not in SWEEP_PARAMETERS:
        message = unknown("parameter", name, SWEEP_PARAMETERS)
        raise UnknownNameError(
            message if "there are" in message else f"{message} There are: {', '.join(SWEEP_PARAMETERS)}"
        )
    return SWEEP_PARAMETERS[name]


def default_values(parameter: SweepParameter, settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values to compare with a preset whose settings are given; the preset's own is always among them."""
    if parameter.name == CONTINUUM:
        return parameter.values
    values = parameter.values or _fitting(parameter, settings)
    own = settings[parameter.name]
    if own in values or parameter.name in BUDGETS:
        return values
    return tuple(sorted((*values, own))) if is_number(own) else (own, *values)


def _fitting(parameter: SweepParameter, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the networks, or the augmentations, that fit a preset; digits are not flipped."""
    backbone, augment = settings.get("backbone"), str(settings.get("augment"))
    convolutional = backbone is None or backbone_traits(backbone).convolutional
    if parameter.name == "backbone":
        return ("resnet18" if convolutional else "mlp", "resnet18-small", "resnet18-third")
    if not convolutional:
        return ("none", "shift", "shift2")
    return ("none", "crop", "crop-flip", "crop-flip-cutout") if "flip" in augment else ("none", "shift2", "crop")


def share_of_memory(value: Any, memory: int) -> Any:
    """Return how many exemplars, or bytes, `half`, `same` and `double` are; other values as they are."""
    return int(SHARES[value] * memory) if isinstance(value, str) and value in SHARES else value


def is_number(value: Any) -> bool:
    """Return whether values like this one have an order and distances."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def format_value(value: Any) -> str:
    """Return a value as people write it."""
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    return "+".join(map(format_value, value)) if isinstance(value, (list, tuple)) else str(value)
