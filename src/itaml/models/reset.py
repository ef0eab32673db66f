"""New initial weights for a network that is there."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def reset_weights(network: nn.Module) -> None:
    """Let every layer draw new initial weights from torch's own generator; layers that cannot are left as they are."""
    for layer in network.modules():
        reset: Callable[[], None] | None = getattr(layer, "reset_parameters", None)
        if reset is not None:
            reset()
