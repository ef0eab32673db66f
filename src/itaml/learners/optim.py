"""Optimisers by name and the learning rate's course through a task."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from itaml.errors import SettingsError, UnknownNameError
from itaml.learners.settings import SgdSettings
from itaml.meta.inner import laid_out
from itaml.registry import unknown
from itaml.storage import State

UNFIT = (Optimizer, torch.optim.LBFGS, torch.optim.SparseAdam)  # need closures, or gradients that are sparse
FUSED = {"sgd", "adam", "adamw"}  # have a single-kernel step on every device


def optimizer_names() -> dict[str, type[Optimizer]]:
    """Return every optimiser of torch by its name in lower case."""
    found = {}
    for name, value in vars(torch.optim).items():
        if inspect.isclass(value) and issubclass(value, Optimizer) and value not in UNFIT:
            found[name.lower()] = value
    return found


def make_optimizer(
    name: str, parameters: Iterable[Any], *, lr: float, momentum: float = 0.0, weight_decay: float = 0.0
) -> Optimizer:
    """Return a torch optimiser; `momentum` is for those that have one.

    Raises:
        UnknownNameError: torch has no optimiser of that name.
        SettingsError: it refuses the numbers, or weights of these shapes.
    """
    known = optimizer_names()
    if name.lower() not in known:
        raise UnknownNameError(unknown("optimizer", name, known))
    kind = known[name.lower()]
    accepted = inspect.signature(kind).parameters
    wanted = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
    options: dict[str, Any] = {key: value for key, value in wanted.items() if key in accepted}
    if name.lower() in FUSED:
        options["fused"] = True
    try:
        return kind(parameters, **options)
    except ValueError as error:
        raise SettingsError(f"optimizer {name} cannot be used: {error}") from error


def rate_factor(settings: SgdSettings, progress: float, *, epochs: int) -> float:
    """Return what lr is multiplied by after `progress` epochs (a whole number and a fraction) of a task of `epochs`."""
    share = progress / epochs
    if share < settings.warmup:
        return max(share / settings.warmup, 0.01)
    if settings.schedule == "cosine":
        after = (share - settings.warmup) / (1 - settings.warmup)
        return 0.5 * (1 + math.cos(math.pi * min(after, 1.0)))
    if settings.schedule == "step":
        return float(settings.lr_decay ** sum(progress >= milestone for milestone in settings.milestones))
    return 1.0


def optimizer_state(optimizer: Optimizer) -> State:
    """Return an optimiser's state with text for keys; its settings are made anew, only its memory is kept."""
    saved = optimizer.state_dict()["state"]
    return {
        str(index): {key: value.clone() if isinstance(value, Tensor) else value for key, value in values.items()}
        for index, values in saved.items()
    }


def restore_optimizer(optimizer: Optimizer, state: State) -> None:
    """Give a fresh optimiser the state that `optimizer_state` returned, laid out as its parameters are."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    whole = optimizer.state_dict()
    whole["state"] = {
        int(index): {key: laid_out(value, parameters[int(index)]) for key, value in values.items()}
        for index, values in state.items()
    }
    optimizer.load_state_dict(whole)
