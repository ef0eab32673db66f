"""The inner loop of Algorithm 1, literally: r steps of any torch optimiser on one micro-batch.

What is carried from one inner loop to the next, and from one iteration to the next:

* *Weights*: nothing; every loop is given its start and returns a copy.
* *Optimiser state* (momentum, moments, step counts): every loop starts from the state that belongs to the base.
  `finish_iteration`, called once the loops of an iteration are done, makes the new state of a parameter the mean over
  the loops that changed it. So the state follows the weights, and the order of tasks does not matter. With
  `shared_state` (the released code) each loop continues with the state that the one before it left.
* *Batch-norm statistics*: like the optimiser's state. A micro-batch is normalised by itself in training mode; one of a
  single image, which has no standard deviation, is normalised with the running statistics and leaves them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.optim import Optimizer

from itaml import params
from itaml.losses import Loss, Negatives, sample_losses
from itaml.meta.loop_states import States, mean_over_processes, mean_state
from itaml.models.batch_norm import single_image_batch_norm
from itaml.models.classifier import Classifier
from itaml.models.task_map import TaskMap
from itaml.optimizers import backward, copy_in_layout, gradient_step
from itaml.params import Weights

MakeOptimizer = Callable[[list[Any]], Optimizer]  # from tensors, or groups of them
HEAD = ("head.weight", "head.bias")
BUFFERS, LOSS = "all buffers", "loss"  # averaged over loops like the state of a parameter, under a name of no parameter


@dataclass(frozen=True)
class MicroBatch:
    """The samples of one task in a mini-batch, B_mu^i."""

    task: int
    images: Tensor  # (n, c, h, w)
    targets: Tensor  # (n,) columns


def micro_batches(images: Tensor, targets: Tensor, task_map: TaskMap) -> list[MicroBatch]:
    """Group a mini-batch by task (line 8): one micro-batch for each task seen, empty where it has no samples."""
    tasks = task_map.task_of_column.to(targets.device)[targets]
    groups = [(tasks == task).nonzero().flatten() for task in range(len(task_map))]
    return [MicroBatch(task, images[group], targets[group]) for task, group in enumerate(groups)]


class InnerLoop:
    """Callable as `adapt(base, micro_batch)`, for `meta_step`.

    Args:
        model: gives the structure; its weights are not touched.
        make_optimizer: makes an optimiser for a list of tensors.
        steps: r, updates on the same micro-batch.
        loss: see `losses`.
        negatives: see `losses`; with `own`, task i's loop changes {theta, phi_i} and no other row of the head.
        shared_state: let each loop continue with the optimiser state and statistics the last one left.
        whole_head: let the optimiser see the whole head even with `own` negatives (as the released code does).
        clip: largest norm of a step's gradient; 0 is no limit.
        autocast: context to compute the forward pass in.
    """

    def __init__(
        self,
        model: Classifier,
        *,
        make_optimizer: MakeOptimizer,
        steps: int,
        loss: Loss,
        negatives: Negatives,
        shared_state: bool = False,
        whole_head: bool = False,
        clip: float = 0.0,
        autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.model = model
        self.make_optimizer = make_optimizer
        self.steps = steps
        self.loss: Loss = loss
        self.negatives: Negatives = negatives
        self.shared_state = shared_state
        self.whole_head = whole_head or negatives == "seen"
        self.clip = clip
        self.autocast = autocast
        self.state: States = {}  # parameter -> optimiser state at the base
        self.last_losses: list[Tensor] = []
        self._states: list[States] = []
        self._buffers: list[Weights] = []

    def __call__(self, base: Weights, batch: MicroBatch) -> Weights:
        """Return the adapted weights of one task (lines 7 to 12); without samples, a copy of the base."""
        if not len(batch.targets):
            return params.copy(base)
        leaves = self._leaves(base, batch.task)
        optimizer = self.optimizer_of(leaves, self.state)
        buffers = params.snapshot_buffers(self.model)
        for step in range(self.steps):
            loss = gradient_step(
                optimizer,
                lambda: backward(self._loss(base, leaves, buffers, batch)),
                clip=self.clip,
                clipped=[leaves.values()],
            )
            if step == 0:
                self.last_losses.append(loss)
        states = {name: _copy_state(optimizer.state[leaf]) for name, leaf in leaves.items()}
        if self.shared_state:
            self.state.update(states)
            params.restore(self.model, buffers)
        else:
            self._states.append(states)
            self._buffers.append(buffers)
        with torch.no_grad():
            return {name: value.detach().clone() for name, value in self._assemble(base, leaves, batch.task).items()}

    def finish_iteration(self) -> Tensor:
        """Average the optimizer states and statistics of the loops since the last call; return the mean first loss."""
        found = {name: [s[name] for s in self._states if name in s] for states in self._states for name in states}
        means = {name: mean_state(states) for name, states in found.items()}
        loops = {name: len(states) for name, states in found.items()}
        if self._buffers:
            means[BUFFERS], loops[BUFFERS] = params.mean(self._buffers), len(self._buffers)
        if self.last_losses:
            means[LOSS], loops[LOSS] = {LOSS: torch.stack(self.last_losses).mean()}, len(self.last_losses)
        means = mean_over_processes(means, loops, base={BUFFERS: params.snapshot_buffers(self.model)})
        params.restore(self.model, means.pop(BUFFERS, {}))
        loss: Tensor = means.pop(LOSS, {}).get(LOSS, torch.zeros(()))
        self.state |= means
        self._states, self._buffers, self.last_losses = [], [], []
        return loss

    def reset(self) -> None:
        """Forget the optimizer states, at the start of a task."""
        self.state = {}

    def state_dict(self) -> States:
        """Return the optimizer states at the base."""
        return self.state

    def load_state_dict(self, state: States | None) -> None:
        """Restore what `state_dict` returned."""
        self.state = dict(state or {})

    def optimizer_of(self, leaves: dict[str, Tensor], states: States) -> Optimizer:
        """Return an optimiser that continues from the states at the base.

        Leaves without a state yet, such as the rows of a task met for the first time, are a group of their own: the
        single-kernel optimisers want the tensors of a group to be all of one age.
        """
        known = [leaf for name, leaf in leaves.items() if name in states]
        fresh = [leaf for name, leaf in leaves.items() if name not in states]
        optimizer = self.make_optimizer([{"params": group} for group in (known, fresh) if group])
        for name, leaf in leaves.items():
            if name in states:
                optimizer.state[leaf] = {key: copy_in_layout(value, leaf) for key, value in states[name].items()}
        return optimizer

    def row_name(self, name: str, task: int) -> str:
        """Return the name of a task's own rows of the head."""
        return name if self.whole_head else f"{name}[{task}]"

    def _leaves(self, base: Weights, task: int) -> dict[str, Tensor]:
        """Return fresh leaf tensors of {theta, phi_i}, by name."""
        leaves = {}
        for name, value in base.items():
            if name in HEAD and not self.whole_head:
                name, value = self.row_name(name, task), value[self.model.task_map.columns(task)]  # noqa: PLW2901
            leaves[name] = value.detach().clone().requires_grad_()
        return leaves

    def _assemble(self, base: Weights, leaves: dict[str, Tensor], task: int) -> Weights:
        """Put the rows phi_i back among the rows of the other tasks."""
        if self.whole_head:
            return leaves
        weights = {name: leaf for name, leaf in leaves.items() if name in base}
        columns = self.model.task_map.columns(task)
        for name in HEAD:
            rows = leaves[self.row_name(name, task)]
            weights[name] = torch.cat([base[name][: columns.start], rows, base[name][columns.stop :]])
        return weights

    def _loss(self, base: Weights, leaves: dict[str, Tensor], buffers: Weights, batch: MicroBatch) -> Tensor:
        weights = self._assemble(base, leaves, batch.task)
        with single_image_batch_norm(self.model, len(batch.targets)), self.autocast():
            logits = functional_call(self.model, {**weights, **buffers}, (batch.images,))
        losses = sample_losses(logits, batch.targets, self.model.task_map, loss=self.loss, negatives=self.negatives)
        return losses.mean()


def _copy_state(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()}
