"""The engines of Algorithm 1: ways to compute the same iteration.

| engine    | computes the inner loops                  | for                                                        |
|-----------|-------------------------------------------|------------------------------------------------------------|
| `loop`    | one after another, as the paper writes it | everything                                                 |
| `batched` | together, by `torch.func.vmap`            | networks whose samples do not mix, element-wise optimizers |
| `fused`   | as one pass over the mini-batch (Lemma 2) | r = 1; see `meta.engines.fused`                            |

In a run over several processes, `loop` and `batched` compute the inner loops of different tasks in different processes,
and the outer mean is one all-reduce; `fused` divides the samples of a mini-batch.

`update="released"` is not Algorithm 1 but what the authors' released code computes, and has a separate loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from itaml import distributed
from itaml.errors import SettingsError
from itaml.losses import Loss, Negatives
from itaml.meta.algorithm1 import meta_step, released_step
from itaml.meta.engines.batched import batched_meta_step, supports_batching
from itaml.meta.inner_loop import InnerLoop, MakeOptimizer, MicroBatch
from itaml.models.classifier import Classifier
from itaml.params import Weights


class MetaStep(Protocol):
    """One iteration of Algorithm 1."""

    def __call__(self, base: Weights, batches: Sequence[MicroBatch], *, adapt: InnerLoop, eta: float) -> Weights:
        """Return the weights after the iteration."""


class InnerSettings(Protocol):
    """The settings of an inner loop."""

    @property
    def inner_steps(self) -> int:
        """Updates r on the same micro-batch."""

    @property
    def update(self) -> str:
        """`paper` or `released`."""

    @property
    def loss(self) -> Loss:
        """See `losses`."""

    @property
    def negatives(self) -> Negatives:
        """See `losses`."""

    @property
    def clip(self) -> float:
        """Largest norm of a step's gradient; 0 is no limit."""


def meta_step_of(engine: str, model: Classifier, *, update: str, batched: bool) -> MetaStep:
    """Return the function that computes an iteration.

    Args:
        engine: the engine that was asked for.
        model: the network.
        update: `paper` or `released`.
        batched: whether the settings and the precision allow the inner loops to run together.

    Raises:
        SettingsError: engine=batched is not possible.
    """
    together = batched and supports_batching(model)
    if engine == "batched" and not together:
        raise SettingsError("engine=batched needs fp32 and a network whose samples do not mix; use engine=loop")
    if update == "released":
        if distributed.size() > 1:
            raise SettingsError("update=released trains tasks one after another, on one process: leave out torchrun")
        return released_step
    return batched_meta_step if together else meta_step


def inner_loop(
    model: Classifier,
    settings: InnerSettings,
    *,
    make_optimizer: MakeOptimizer,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> InnerLoop:
    """Return the inner loop that the settings describe."""
    released = settings.update == "released"
    return InnerLoop(
        model,
        make_optimizer=make_optimizer,
        steps=1 if released else settings.inner_steps,
        loss=settings.loss,
        negatives=settings.negatives,
        shared_state=released,
        whole_head=released,
        clip=settings.clip,
        autocast=autocast,
    )
