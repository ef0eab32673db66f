"""RPS-net: random path selection (Rajasegaran, Hayat, Khan, Khan and Shao, NeurIPS 2019).

| symbol     | here                                                                                                 |
|------------|------------------------------------------------------------------------------------------------------|
| L, M       | layers of the backbone, `modules` in each (see `models.path_network`)                                |
| P_k        | the path of task k: one module per layer                                                             |
| P_k^tr     | its modules that no path had before: the only ones that train, with the head                         |
| P_k^ts     | the modules of all paths so far, whose outputs add up: what is computed in training and at inference |
| J          | `path_tasks`: a new path every J tasks                                                               |
| phi, gamma | weight of the distillation loss, `rigidness`                                                         |

    L = L_ce + phi * L_dist,    phi = 1 for k <= J,  gamma * (k - J) after that      (k counts from 0)

Saturation: after M paths there is none left to take, and the modules of the last one are trained further.

Differences from the paper: it trains N random paths side by side and keeps the best; here one is drawn, with at least
one new module. A layer is the sum of its modules; only layers of residual blocks have the skip connection, which the
paper trains in the first task. The distillation is over the old classes, and its teacher predicts by its own paths.
Budget and choice of exemplars are those of all learners here; the authors' code keeps 4,400 of MNIST.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from itaml import seeding
from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.teacher import distillation
from itaml.learners.compute import place
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.settings import Count, MemorySettings, Share, Temperature
from itaml.models.path_network import PathNetwork


class RPSNetSettings(MemorySettings):
    """Settings of RPS-net."""

    modules: Count = 8  # M
    path_tasks: Count = 1  # J
    rigidness: Share = 2.5  # gamma
    temperature: Temperature = 2.0


class RPSNet(Method):
    """New modules for new tasks, on paths that are drawn at random; distillation and exemplars for the old ones."""

    Settings: ClassVar[type[RPSNetSettings]] = RPSNetSettings
    settings: RPSNetSettings
    traits: ClassVar[Traits] = Traits(needs_teacher=True, supports_compile=False)  # the path changes with the tasks

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        with seeding.seeded(self.seeds.init, "paths"):
            self.paths = PathNetwork(self.model.backbone, modules=self.settings.modules)
        self.model.backbone = self.paths
        place(self.model, context.device, context.layout)

    def begin_task(self, task: Task) -> None:
        """Take a new path if it is time for one, and if one is left."""
        if not task.classes:
            return
        number, s = len(self.task_map) - 1, self.settings
        saturated = number // s.path_tasks >= s.modules or bool(self.paths.used.all())
        if number % s.path_tasks or saturated:
            return
        generator = seeding.generator(self.seeds.init, "path", number)
        self.paths.take(self.paths.draw(generator) if number else [0] * len(self.paths.layers))

    def param_groups(self) -> list[Any]:
        """Return P_k^tr and the head."""
        return [*self.paths.trained(), *self.model.head.parameters()]

    def phi(self) -> float:
        """Return the weight of the distillation loss for the task under way."""
        after = len(self.task_map) - 1 - self.settings.path_tasks  # k - J
        return 1.0 if after <= 0 else self.settings.rigidness * after

    def loss(self, batch: Batch) -> Tensor:
        """Return L_ce + phi * L_dist."""
        classification = super().loss(batch)
        if not self.recipe.teacher:
            return classification
        old = self.logits(batch)[:, : self.recipe.teacher.columns]
        distilled = distillation(old, self.recipe.teacher_logits(batch), temperature=self.settings.temperature)
        return classification + self.phi() * distilled.mean()
