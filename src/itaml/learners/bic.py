"""BiC: bias correction (Wu, Chen, Wang, Ye, Liu, Guo and Fu, Large Scale Incremental Learning, CVPR 2019).

| symbol       | here                                                                                          |
|--------------|-----------------------------------------------------------------------------------------------|
| n, m         | old and new classes                                                                           |
| o_k, q_k     | logits before and after the correction: q = alpha * o + beta for the columns of a task        |
| alpha, beta  | `bias`: two numbers a task; (1, 0) for the first                                              |
| T            | `temperature`                                                                                 |
| lambda       | n / (n + m)                                                                                   |
| train_old, val_old | `memory` and `held`, nine parts of the budget to one                                   |

Differences from the paper:

* alpha and beta are the optimum of stage 2's convex problem, found by L-BFGS in double precision with a pull of 1e-3
  towards (1, 0), which keeps them finite when the validation pictures are told apart perfectly; the paper
  takes steps of SGD.
* Corrections of earlier tasks are kept, and applied to both networks in stage 1; the paper does not say.
* Pictures held for validation are never trained on, in the task they come with or later.
* More pictures of known classes (no new ones) are learned with their labels alone.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from itaml import seeding
from itaml.config import Compute, Seeds
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.learners.batch import Batch
from itaml.learners.distill import DistillingLearner, Temperature, distillation
from itaml.learners.settings import MemorySettings
from itaml.memory.store import Memory
from itaml.models.classifier import Classifier
from itaml.storage import State

PULL = 1e-3


class BiCSettings(MemorySettings):
    """Settings of BiC."""

    temperature: Temperature = 2.0  # T
    held_share: Annotated[float, Field(gt=0, lt=1)] = 0.1  # of the memory, for validation

    @model_validator(mode="after")
    def _room(self) -> Self:
        if not 0 < self.held < self.memory:
            raise ValueError(f"a memory of {self.memory} has no room for validation pictures: set a larger memory")
        return self

    @property
    def held(self) -> int:
        """Pictures kept for validation."""
        return round(self.memory * self.held_share)

    @property
    def room(self) -> int:
        """Pictures in the smaller of the two memories."""
        return min(self.held, self.memory - self.held)


class BiC(DistillingLearner):
    """Distillation, and then two numbers against the bias to new classes."""

    Settings: ClassVar[type[BiCSettings]] = BiCSettings
    settings: BiCSettings
    read_in_training: ClassVar[frozenset[str]] = frozenset({"mirror"})  # the correction is fitted to the scores

    def __init__(
        self, model: Classifier, *, settings: BiCSettings, seeds: Seeds, compute: Compute | None = None
    ) -> None:
        super().__init__(model, settings=settings, seeds=seeds, compute=compute)
        self.memory = Memory(budget=settings.memory - settings.held, selection=settings.selection)
        self.held = Memory(budget=settings.held, selection="first")
        self.bias: list[tuple[float, float]] = []  # (alpha, beta) of each task learned

    def check_task(self, task: Task) -> None:
        """Refuse also a task for which the validation part of the memory is too small."""
        super().check_task(task)
        if self.progress is None:
            self.held.check_room(len(self.table.classes) + len(task.classes))

    def training_set(self, task: Task) -> ImageSet:
        """Return train_new and train_old."""
        kept = self._divide(task)[0]
        return super().training_set(Task(task.index, task.classes, kept))

    def loss(self, batch: Batch) -> Tensor:
        """Return lambda * L_d + (1 - lambda) * L_c (eqs. 1 to 3)."""
        logits = self.corrected(self.forward(batch.images))
        classification = self.sample_losses(logits, batch).mean()
        if self.teacher is None or self.teacher.columns == logits.shape[1]:
            return classification
        old = self.teacher.columns
        distilled = distillation(
            logits[:, :old], self.corrected(self.taught(batch.images)), temperature=self.settings.temperature
        )
        share = old / logits.shape[1]
        return share * distilled.mean() + (1 - share) * classification

    def end_task(self, task: Task) -> None:
        """Choose exemplars of both kinds, and find alpha and beta on those held for validation, which are balanced."""
        kept, held = self._divide(task)
        super().end_task(Task(task.index, task.classes, kept))
        generator = seeding.generator(self.seeds.memory, "held", task.index)
        self.held.add(held, self.table.classes, generator=generator)
        new = len(self.table) - 1
        if len(self.bias) <= new:
            self.bias.append((1.0, 0.0))
        validation = self.held.exemplars()
        if new and validation is not None:
            self.bias[new] = (1.0, 0.0)
            images, labels = validation.load()
            scores = self.corrected(self._outputs(images, {}))
            self.bias[new] = fit_bias(scores, self.table.column_of(labels), self.table.columns(new))

    def _divide(self, task: Task) -> tuple[ImageSet, ImageSet]:
        """Return what of a task is for training and what for validation, the same at every call."""
        generator = seeding.generator(self.seeds.memory, "validation", task.index)
        held, classes = [], self.table.classes
        for rank, class_id in enumerate(classes):
            positions = (task.train.labels == class_id).nonzero().flatten()
            count = min(self.held.share(rank, len(classes)), len(positions) // 2)
            held.append(positions[torch.randperm(len(positions), generator=generator)[:count]])
        chosen = torch.zeros(len(task.train), dtype=torch.bool)
        chosen[torch.cat(held)] = True
        return task.train.select((~chosen).nonzero().flatten()), task.train.select(chosen.nonzero().flatten())

    def corrected(self, logits: Tensor) -> Tensor:
        """Return q (eq. 4): each learned task's columns times its alpha, plus its beta."""
        known = [self.bias[task] if task < len(self.bias) else (1.0, 0.0) for task in range(len(self.table))]
        pairs = torch.tensor(known, dtype=logits.dtype, device=logits.device)[self.table.task_of_column]
        return logits * pairs[: logits.shape[1], 0] + pairs[: logits.shape[1], 1]

    def class_scores(self, images: Tensor) -> Tensor:
        """Return corrected scores."""
        return self.corrected(super().class_scores(images))

    def extra_state(self) -> State:
        """Return the teacher, the corrections and the pictures held for validation."""
        return {**super().extra_state(), "bias": [list(pair) for pair in self.bias], "held": self.held.state_dict()}

    def load_extra_state(self, state: State) -> None:
        """Take over what `extra_state` returned."""
        super().load_extra_state(state)
        self.bias = [(float(alpha), float(beta)) for alpha, beta in state["bias"]]
        self.held.load_state_dict(state["held"])


def fit_bias(scores: Tensor, targets: Tensor, new: slice) -> tuple[float, float]:
    """Return the alpha and beta of the columns `new` with the least cross-entropy (eq. 5), slightly pulled."""
    scores = scores.double()
    pair = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    start = pair.detach().clone()
    optimizer = torch.optim.LBFGS(
        [pair], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=1e-10, tolerance_change=1e-14
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        mended = scores.clone()
        mended[:, new] = pair[0] * scores[:, new] + pair[1]
        loss = F.cross_entropy(mended, targets) + PULL * (pair - start).square().sum()
        loss.backward()
        return loss

    optimizer.step(objective)
    alpha, beta = pair.detach().tolist()
    return alpha, beta
