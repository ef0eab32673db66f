"""DMC: deep model consolidation (Zhang, Zhang, Ghosh, Li, Tasci, Heck, Zhang and Kuo, WACV 2020).

| symbol | here                                                                                    |
|--------|-----------------------------------------------------------------------------------------|
| f_old  | `teacher`: the classifier before the task                                               |
| f_new  | `expert`: a separate network, trained on the new classes alone                        |
| f      | the classifier, which is to predict as f_old for old classes and as f_new for new ones   |
| U      | unlabelled auxiliary images, from the source `auxiliary` (see `data.auxiliary`)         |
| y^, y* | logits of f_old and f_new, and the same less their mean over each network's own classes |

    L_dd = mean over classes j of (f_j(x) - y*_j)**2,   x from U                                        (eqs. 3 and 4)

A task's epochs have two stages: the first `expert_share` of them train f_new on the task's images, the others train f
on U, which the task's images give the number of steps to and nothing else.

Differences from the paper: the auxiliary images are drawn by a program unless a data set is named, because none may
be on the machine; `student` says whether f starts afresh or from f_old. In a task of a single class f_new has nothing
to distinguish: its y* is 0. More images of known classes, without a new class, are learned with their labels.
"""

from __future__ import annotations

import copy
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.optim import Optimizer

from itaml import seeding
from itaml.data.auxiliary import STROKES, open_auxiliary, read_auxiliary
from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.teacher import Teacher
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.settings import Count, NoMemorySettings
from itaml.models.reset import reset_weights
from itaml.models.sharded_layers import in_shares
from itaml.models.task_map import TaskMap


class DMCSettings(NoMemorySettings):
    """Settings of DMC."""

    auxiliary: str = STROKES  # or the name of a benchmark, or folder:PATH
    auxiliary_images: Count = 10_000
    expert_share: Annotated[float, Field(gt=0, lt=1)] = 0.3  # of the epochs, for the new classes' own network
    student: Literal["fresh", "old"] = "fresh"  # where consolidation starts

    @model_validator(mode="after")
    def _two_stages(self) -> Self:
        if self.epochs < 2:
            raise ValueError("dmc has two stages, for the new classes and for consolidation: epochs must be at least 2")
        return self

    @property
    def expert_epochs(self) -> int:
        """Epochs of the first stage, at least one; the second has at least one too."""
        return min(max(1, round(self.expert_share * self.epochs)), self.epochs - 1)


class DMC(Method):
    """An expert for the new classes, then one network out of two, on images of neither."""

    Settings: ClassVar[type[DMCSettings]] = DMCSettings
    settings: DMCSettings
    traits: ClassVar[Traits] = Traits(memory="none", needs_teacher=True, supports_recipe=False)
    saved: ClassVar[tuple[str, ...]] = ("expert",)

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.expert = Teacher(context)
        self._source = open_auxiliary(self.settings.auxiliary, shape=self.model.shape)
        self._images: Tensor | None = None

    def begin_task(self, task: Task) -> None:
        """Make f_new and f; f_old is the teacher."""
        self.expert.clear()
        if not self.recipe.teacher or not task.classes:
            return
        number = len(self.task_map)
        network = copy.deepcopy(self.model)
        with seeding.seeded(self.seeds.init, "fresh", number):
            reset_weights(network.backbone)
        if self.settings.student == "fresh":
            self.model.backbone.load_state_dict(network.backbone.state_dict())
        network.head.reset(TaskMap())
        network.head.grow(task.classes, generator=seeding.generator(self.seeds.init, "expert", number))
        self.expert.copy(network)

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Train f_new in the first stage and f in the second; a task without an expert is plain training."""
        assert self.context.progress is not None, "a step belongs to a task"
        if self.expert.model is not None:
            self.expert.model.train(self.context.progress.epoch < self.settings.expert_epochs)
        return super().step(batch, optimizer)

    def loss(self, batch: Batch) -> Tensor:
        """Return the cross-entropy of f_new on new images, or L_dd of f on auxiliary ones (eq. 3)."""
        expert, teacher = self.expert.model, self.recipe.teacher
        if expert is None or not teacher:
            return super().loss(batch)
        if expert.training:
            return F.cross_entropy(in_shares(expert, batch.images, batch.share), batch.targets - teacher.columns)
        images = self.auxiliary(len(batch.targets))
        with torch.no_grad():
            targets = double_targets(teacher.logits(images), in_shares(expert, images).float())
        return F.mse_loss(self.context.forward(images), targets)

    def auxiliary(self, count: int) -> Tensor:
        """Draw auxiliary images; they are made at the first call, the same ones in every run with the same seed."""
        if self._images is None:
            generator = seeding.generator(self.seeds.augment, "auxiliary")
            count_all = self.settings.auxiliary_images
            self._images = read_auxiliary(self._source, shape=self.model.shape, count=count_all, generator=generator)
        return self._images[torch.randint(0, len(self._images), (count,))].to(self.context.device)

    def end_task(self, task: Task) -> None:
        """Drop the expert."""
        self.expert.clear()

    def param_groups(self) -> list[Any]:
        """Return f and f_new; weights without a gradient, in either stage, are left alone by every optimizer."""
        groups = [{"params": list(self.model.parameters())}]
        if self.expert.model is not None:
            groups.append({"params": list(self.expert.model.requires_grad_().parameters())})
        return groups

    def networks(self) -> list[nn.Module]:
        """Return f, and f_new while there is one."""
        return [self.model] if self.expert.model is None else [self.model, self.expert.model]


def double_targets(old: Tensor, new: Tensor) -> Tensor:
    """Return y* (n, old + new columns): each network's logits less their mean over its own classes (eq. 4)."""
    return torch.cat([old - old.mean(1, keepdim=True), new - new.mean(1, keepdim=True)], dim=1)
