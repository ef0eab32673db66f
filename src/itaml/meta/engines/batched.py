"""The inner loops of all tasks at once: a copy of the weights for each task, stacked, and one batched pass per step.

A task's loop needs separate weights from its second step on, so at r > 1 tasks cannot share one pass as in
`meta.engines.fused`; but their passes can be one batched pass (`torch.func.vmap`). Micro-batches are padded to the size
of the largest with samples of weight 0.

* Exact (to rounding) where samples do not mix and optimisers work number by number: see `supports_batching` and
  `ELEMENTWISE`. Everything that `meta.inner_loop` says about optimiser state holds here as well.
* Not possible with batch normalisation (padding would enter its statistics) or dropout (its draws would differ):
  such networks use the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from itaml import params
from itaml.meta.algorithm1 import over_processes
from itaml.meta.inner_loop import HEAD, InnerLoop, MicroBatch
from itaml.meta.loop_states import States, mean_over_processes
from itaml.models.classifier import Classifier, GrowingHead, Normalize
from itaml.optimizers import gradient_step
from itaml.params import Weights

ELEMENTWISE = frozenset({"adadelta", "adagrad", "adam", "adamax", "adamw", "nadam", "radam", "rmsprop", "sgd"})
CHUNK = 16  # tasks at a time; faster than 4 or 8 for the MLP
_OURS = (Classifier, GrowingHead, Normalize)
_APART = (nn.Sequential, nn.Identity, nn.Flatten, nn.Linear, nn.Conv2d, nn.LayerNorm, nn.GroupNorm)
_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
_CURVES = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU)


def supports_batching(model: Classifier) -> bool:
    """Return whether every layer is known to treat each sample by itself, with nothing drawn at random."""
    return all(type(layer) in (*_OURS, *_APART, *_POOLS, *_CURVES) for layer in model.modules())


def batched_meta_step(base: Weights, batches: Sequence[MicroBatch], *, adapt: InnerLoop, eta: float) -> Weights:
    """Return the weights after one iteration of Algorithm 1: `meta_step` with all inner loops computed together."""
    return params.lerp(base, over_processes(base, batched_mean(adapt, base, batches)), eta)


def batched_mean(loop: InnerLoop, base: Weights, batches: Sequence[MicroBatch]) -> Weights:
    """Return the mean of `[loop(base, batch) for batch in batches]`, computed together, and settle the loop.

    Tasks are taken a few at a time (`CHUNK`), because the copies of many tasks' weights do not fit a CPU's cache.
    """
    present = [batch for batch in batches if len(batch.targets)]
    mean, states = params.copy(base), _States(loop)
    for start in range(0, len(present), CHUNK):
        together = _BatchedLoops(loop, base, present[start : start + CHUNK])
        for step in range(loop.steps):
            losses = together.step()
            if step == 0:
                loop.last_losses.extend(losses)
        states.add(together)
        together.add_to(mean, share=1 / len(batches))
    states.finish_iteration()
    return mean


class _States:
    """The mean of the optimiser states of the loops that changed a parameter."""

    def __init__(self, loop: InnerLoop) -> None:
        self.loop, self.count = loop, 0
        self.sums: States = {}
        self.rows: States = {}  # of the head, each of one task alone

    def add(self, together: _BatchedLoops) -> None:
        self.count += len(together.tasks)
        for name, leaf in together.shared.items():
            known = self.sums.setdefault(name, {})
            for key, value in together.optimizer.state[leaf].items():
                if _is_state_of(key, value, leaf):
                    known[key] = value.sum(0) + known.get(key, 0)
                else:
                    known[key] = value  # the same in every loop: a count of steps
        for name, rows in together.rows.items():
            for task, row in zip(together.tasks, rows, strict=True):
                self.rows[self.loop.row_name(name, task)] = dict(together.optimizer.state[row])

    def finish_iteration(self) -> None:
        means = {}
        for name, state in self.sums.items():
            like = self.loop.model.get_parameter(name)
            means[name] = {
                key: value / self.count if _is_state_of(key, value, like) else value for key, value in state.items()
            }
        loops = dict.fromkeys(means, self.count) | dict.fromkeys(self.rows, 1)
        self.loop.state |= mean_over_processes(means | self.rows, loops)


class _BatchedLoops:
    """The loops of the tasks that have samples, under way."""

    def __init__(self, loop: InnerLoop, base: Weights, batches: Sequence[MicroBatch]) -> None:
        self.loop, self.base = loop, base
        self.tasks = [batch.task for batch in batches]
        self.columns = [loop.model.task_map.columns(task) for task in self.tasks]
        self.buffers = dict(loop.model.named_buffers())
        kept = [name for name in base if loop.whole_head or name not in HEAD]
        self.shared = {name: base[name].expand(len(batches), *base[name].shape).clone() for name in kept}
        self.rows = {} if loop.whole_head else {name: self._rows_of(base[name]) for name in HEAD}
        self.optimizer = self._make_optimizer()
        self.samples = self._padded(batches)

    def step(self) -> list[Tensor]:
        """Take one step of every loop; return the loss of each before it."""
        return list(gradient_step(self.optimizer, self._fill_gradients).unbind())

    def _fill_gradients(self) -> Tensor:
        """Compute every loop's gradients; return the loss of each (k,)."""
        stacked = dict(self.shared)
        for name, rows in self.rows.items():
            stacked[name] = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        grads, losses = vmap(grad_and_value(self._loss))(stacked, *self.samples)
        if self.loop.clip:
            self._clip(grads)
        for name, leaf in self.shared.items():
            leaf.grad = grads[name]
        for name, rows in self.rows.items():
            for row, grad in zip(rows, grads[name], strict=True):
                row.grad = grad[: len(row)]
        return torch.as_tensor(losses)

    def add_to(self, mean: Weights, *, share: float) -> None:
        """Add a share of each task's way from the base to a sum; what the loops hold is of no use afterwards."""
        for name, value in self.shared.items():
            mean[name].add_(value.sub_(self.base[name]).sum(0), alpha=share)
        for name, rows in self.rows.items():
            for columns, row in zip(self.columns, rows, strict=True):
                mean[name][columns].add_(row - self.base[name][columns], alpha=share)

    def _rows_of(self, value: Tensor) -> list[Tensor]:
        return [value[columns].clone() for columns in self.columns]

    def _make_optimizer(self) -> torch.optim.Optimizer:
        leaves, states = dict(self.shared), {}
        for name, leaf in self.shared.items():
            if name in self.loop.state:
                like = {key: (value, leaf[0]) for key, value in self.loop.state[name].items()}
                states[name] = {
                    key: value.expand_as(leaf) if _is_state_of(key, value, one) else value
                    for key, (value, one) in like.items()
                }
        for name, rows in self.rows.items():
            for task, row in zip(self.tasks, rows, strict=True):
                own = self.loop.row_name(name, task)
                leaves[own] = row
                if own in self.loop.state:
                    states[own] = self.loop.state[own]
        return self.loop.optimizer_of(leaves, states)

    def _padded(self, batches: Sequence[MicroBatch]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return images, targets and weights of samples, (k, m, ...) each, and which columns are real (k, columns)."""
        device = batches[0].targets.device
        starts = [0 if self.loop.whole_head else columns.start for columns in self.columns]
        pad = nn.utils.rnn.pad_sequence
        images = pad([batch.images for batch in batches], batch_first=True)
        targets = pad([batch.targets - start for batch, start in zip(batches, starts, strict=True)], batch_first=True)
        dtype = self.base["head.weight"].dtype
        each = [torch.full((len(b.targets),), 1 / len(b.targets), dtype=dtype, device=device) for b in batches]
        if self.loop.whole_head:
            real = torch.ones(len(batches), len(self.base["head.weight"]), dtype=torch.bool, device=device)
        else:
            ones = [torch.ones(len(row), dtype=torch.bool, device=device) for row in self.rows["head.bias"]]
            real = pad(ones, batch_first=True)
        return images, targets, pad(each, batch_first=True), real

    def _loss(self, weights: Weights, images: Tensor, targets: Tensor, shares: Tensor, real: Tensor) -> Tensor:
        """Return the loss of one task, as `losses` has it, over the real columns of its head."""
        logits = functional_call(self.loop.model, {**weights, **self.buffers}, (images,))
        if self.loop.loss == "ce":
            each = F.cross_entropy(logits.masked_fill(~real, float("-inf")), targets, reduction="none")
        else:
            truth = (targets[:, None] == torch.arange(logits.shape[1], device=targets.device)).to(logits.dtype)
            columns = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
            each = (columns * real).sum(1) / real.sum()
        return (each * shares).sum()

    def _clip(self, grads: Weights) -> None:
        """Limit the norm of each task's gradient."""
        norms = torch.stack([grad.flatten(1).norm(dim=1) for grad in grads.values()]).norm(dim=0)  # (k,)
        factors = (self.loop.clip / (norms + 1e-6)).clamp(max=1.0)
        for grad in grads.values():
            grad.mul_(factors.view(-1, *[1] * (grad.dim() - 1)))


def _is_state_of(key: str, value: object, parameter: Tensor) -> bool:
    """Return whether a value of an optimiser's state has a number for each one of a parameter."""
    return key != "step" and isinstance(value, Tensor) and value.shape == parameter.shape
