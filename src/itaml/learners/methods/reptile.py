"""Reptile (Nichol, Achiam and Schulman, On first-order meta-learning algorithms, arXiv 1803.02999).

| symbol    | here                                                                       |
|-----------|----------------------------------------------------------------------------|
| phi       | the classifier's weights, all of them                                      |
| phi~_i    | the same after the inner loop of task i                                    |
| k, alpha  | `inner_steps` (r in the iTAML paper), `inner_lr`                           |
| epsilon   | `lr / inner_lr`                                                            |
| g_1..g_k  | gradients on disjoint parts of the task's samples, along the inner loop    |

The outer step phi + epsilon * mean(phi~_i - phi) is phi - lr * mean(g_1 + ... + g_k), because phi~_i - phi is
-alpha * (g_1 + ... + g_k). At k = 1 it is a step of SGD on the mini-batch, that is joint training.

Differences from the paper: tasks are not drawn; every task in the mini-batch takes part, with the share of its samples,
which is how often it would be drawn (`weighting="tasks"` gives all the same share). The sum of gradients is handed to
the optimiser of the settings, which the paper suggests for adaptive ones; with SGD it is the interpolation. Inner steps
are plain SGD, where the paper uses Adam.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.optim import Optimizer

from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.first_order import TRAITS, FirstOrderSettings, outer_step
from itaml.learners.method import Method
from itaml.meta.meta_gradients import total


class Reptile(Method):
    """Move towards where the inner loops end."""

    Settings: ClassVar[type[FirstOrderSettings]] = FirstOrderSettings
    settings: FirstOrderSettings
    traits: ClassVar[Traits] = TRAITS

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take one outer step; a task's meta-gradient is (phi - phi~) / alpha = g_1 + ... + g_k."""
        return outer_step(self, batch, optimizer, parts=self.settings.inner_steps, meta_gradient=total)
