"""FOMAML: first-order model-agnostic meta-learning (Finn, Abbeel and Levine, ICML 2017, section 5.2).

| symbol      | here                                                                     |
|-------------|--------------------------------------------------------------------------|
| theta       | the classifier's weights, all of them                                    |
| theta'_i    | the same after the inner loop of task i                                  |
| alpha, beta | `inner_lr`, `lr`                                                         |
| K           | `inner_steps`                                                            |
| D_i, D'_i   | the first `inner_steps` parts of a task's samples, and the part held out |

    theta'_i = theta - alpha * L_i'(theta; D_i),     theta - beta * mean over i of  L_i'(theta'_i; D'_i)

The gradient is taken at theta'_i and used at theta: second derivatives are left out.

Differences from the paper: each inner step has a separate part, as in Nichol, Achiam and Schulman (arXiv 1803.02999).
Tasks are not drawn: every task in the mini-batch takes part, with the share of its samples (`weighting="tasks"` gives
all the same share). A task with a single sample in the mini-batch takes no inner step. The outer step is that of the
optimiser of the settings.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.optim import Optimizer

from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.first_order import TRAITS, FirstOrderSettings, outer_step
from itaml.learners.method import Method


class FOMAML(Method):
    """Step along the gradients at the adapted weights, on samples held out."""

    Settings: ClassVar[type[FirstOrderSettings]] = FirstOrderSettings
    settings: FirstOrderSettings
    traits: ClassVar[Traits] = TRAITS

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take one outer step: `inner_steps` parts for the inner loop, and one that is held out for the gradient."""
        parts = self.settings.inner_steps + 1
        return outer_step(self, batch, optimizer, parts=parts, meta_gradient=lambda path: path[-1])
