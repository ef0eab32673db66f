"""Replay: naive rehearsal of kept exemplars (Robins, Connection Science 1995; Hsu et al., NeurIPS workshop 2018).

| symbol | here                                                                       |
|--------|----------------------------------------------------------------------------|
| M(t-1) | `memory`, the exemplars of the classes learned before                      |
| D(t)   | `task.train`                                                               |

A task is trained on the union of D(t) and M(t-1), which is what a `Method` does when nothing is overridden.

Differences from the literature: `sampling="union"` draws mini-batches from the union, so that old tasks are as rare in
a batch as their exemplars are in the union; `sampling="balanced"` draws the same number of samples of every task, the
plain opponent that any method with a memory has to beat.
"""

from __future__ import annotations

from typing import ClassVar

from itaml.learners.method import Method
from itaml.learners.settings import MemorySettings, TrainingSettings


class Replay(Method):
    """Train on the new data and the exemplars together."""

    Settings: ClassVar[type[TrainingSettings]] = MemorySettings
