"""Optimizers by name, their state as plain values, and the one place where a step is taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from itaml.errors import SettingsError, UnknownNameError
from itaml.registry import unknown
from itaml.storage import State

UNSUPPORTED = (Optimizer, torch.optim.LBFGS, torch.optim.SparseAdam)  # need closures, or sparse gradients
FUSED = {"sgd", "adam", "adamw"}  # have a single-kernel step on every device


def optimizer_names() -> dict[str, type[Optimizer]]:
    """Return every optimizer of torch by its name in lower case."""
    found = {}
    for name, value in vars(torch.optim).items():
        if inspect.isclass(value) and issubclass(value, Optimizer) and value not in UNSUPPORTED:
            found[name.lower()] = value
    return found


def make_optimizer(
    name: str, parameters: Iterable[Any], *, lr: float, momentum: float = 0.0, weight_decay: float = 0.0
) -> Optimizer:
    """Return a torch optimizer; `momentum` is passed to those that have one.

    Raises:
        UnknownNameError: torch has no optimizer of that name.
        SettingsError: it refuses the numbers, or weights of these shapes.
    """
    known = optimizer_names()
    if name.lower() not in known:
        raise UnknownNameError(unknown("optimizer", name, known))
    kind = known[name.lower()]
    accepted = inspect.signature(kind).parameters
    values = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
    options: dict[str, Any] = {key: value for key, value in values.items() if key in accepted}
    if name.lower() in FUSED:
        options["fused"] = True
    try:
        return kind(parameters, **options)
    except ValueError as error:
        raise SettingsError(f"optimizer {name} cannot be used: {error}") from error


def gradient_step(
    optimizer: Optimizer,
    compute_gradients: Callable[[], Tensor],
    *,
    clip: float = 0.0,
    clipped: Iterable[Iterable[Tensor]] = (),
) -> Tensor:
    """Take one optimizer step and return the loss, detached. Every step of the package is taken here.

    Args:
        optimizer: whose parameters move.
        compute_gradients: fills `.grad` of the parameters and returns the loss.
        clip: largest norm of the gradients of each group in `clipped`; 0 is no limit.
        clipped: groups of parameters whose gradients are limited together.
    """
    optimizer.zero_grad()
    loss = compute_gradients()
    if clip:
        for group in clipped:
            nn.utils.clip_grad_norm_(group, clip)
    optimizer.step()
    return loss.detach()


def backward(loss: Tensor) -> Tensor:
    """Compute the gradients of a loss and return the loss."""
    loss.backward()
    return loss


def minimize(
    variables: list[Tensor],
    objective: Callable[[], Tensor],
    *,
    tolerance_grad: float,
    tolerance_change: float = 1e-9,
    max_iter: int = 200,
) -> None:
    """Minimize a smooth convex objective over `variables`, in place, with L-BFGS and a strong Wolfe line search."""
    solver = torch.optim.LBFGS(
        variables,
        max_iter=max_iter,
        line_search_fn="strong_wolfe",
        tolerance_grad=tolerance_grad,
        tolerance_change=tolerance_change,
    )

    def closure() -> Tensor:
        solver.zero_grad()
        return backward(objective())

    solver.step(closure)


def optimizer_state(optimizer: Optimizer) -> State:
    """Return an optimizer's state with text for keys; hyperparameters are not part of it."""
    saved = optimizer.state_dict()["state"]
    return {
        str(index): {key: value.clone() if isinstance(value, Tensor) else value for key, value in values.items()}
        for index, values in saved.items()
    }


def restore_optimizer(optimizer: Optimizer, state: State) -> None:
    """Give a new optimizer the state that `optimizer_state` returned, in the memory layout of its parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    whole = optimizer.state_dict()
    whole["state"] = {
        int(index): {key: copy_in_layout(value, parameters[int(index)]) for key, value in values.items()}
        for index, values in state.items()
    }
    optimizer.load_state_dict(whole)


def copy_in_layout(value: Any, like: Tensor) -> Any:
    """Copy a value of an optimizer's state, in the memory layout of its parameter.

    Single-kernel optimizers walk both in memory order, and a state that was saved comes back contiguous.
    """
    if isinstance(value, Tensor) and value.shape == like.shape:
        return torch.empty_like(like, dtype=value.dtype, requires_grad=False).copy_(value)
    return value.clone() if isinstance(value, Tensor) else value
