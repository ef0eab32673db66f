"""FOMAML: first-order model-agnostic meta-learning (Finn, Abbeel and Levine, ICML 2017, section 5.2).

| symbol        | here                                                                              |
|---------------|-----------------------------------------------------------------------------------|
| theta         | the classifier's weights, all of them                                             |
| theta'_i      | the same after the inner loop of task i                                           |
| alpha, beta   | `inner_lr`, `lr`                                                                  |
| K             | `inner_steps`                                                                     |
| D_i, D'_i     | the first `inner_steps` parts of a task's samples, and the part held back         |

    theta'_i = theta - alpha * L_i'(theta; D_i),     theta - beta * mean over i of  L_i'(theta'_i; D'_i)

The gradient is taken at theta'_i and used at theta: second derivatives are left out.

Differences from the paper: each inner step has a part of its own, as in Nichol, Achiam and Schulman (arXiv 1803.02999).
Tasks are not drawn: every task in the mini-batch takes part, with the share of its samples (`weighting="tasks"` gives
all the same share). A task with a single sample in the mini-batch takes no inner step. The outer step is that of the
optimiser of the settings.
"""

from __future__ import annotations

from itaml.learners.first_order import FirstOrderLearner
from itaml.params import Weights


class FOMAML(FirstOrderLearner):
    """Step along the gradients at the adapted weights, on samples held back."""

    def parts(self) -> int:
        """Return one part for each inner step, and one that is held back."""
        return self.settings.inner_steps + 1

    def meta_gradient(self, slopes: list[Weights]) -> Weights:
        """Return the gradient of the part held back."""
        return slopes[-1]
