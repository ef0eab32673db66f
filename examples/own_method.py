"""Write a method in a few lines: replay with a penalty on large logits; check it against the contract and train it."""

from typing import ClassVar

from torch import Tensor

import itaml
from itaml.config import Seeds
from itaml.learners.batch import Batch
from itaml.learners.method import Method
from itaml.learners.settings import MemorySettings
from itaml.testing import check_learner


class SmallLogitsSettings(MemorySettings):
    """Settings of the method."""

    weight: float = 0.01  # of the mean square of the logits


class SmallLogits(Method):
    """Replay with a penalty on large logits."""

    Settings: ClassVar[type[SmallLogitsSettings]] = SmallLogitsSettings
    settings: SmallLogitsSettings

    def loss(self, batch: Batch) -> Tensor:
        """Return the classification loss and the penalty."""
        return super().loss(batch) + self.settings.weight * self.logits(batch).square().mean()


tiny = SmallLogits.Settings(backbone="mlp", epochs=1, memory=8)
check_learner(lambda: SmallLogits.from_settings(tiny, shape=(1, 6, 6), seeds=Seeds.of(0)))

config = itaml.resolve("digits", method="replay", seed=0, overrides={"epochs": 2})
stream = itaml.make_stream(config)
settings = SmallLogits.Settings(**config.settings, weight=0.01)
learner = SmallLogits.from_settings(settings, shape=stream.shape, seeds=config.seeds)
for task in stream:
    learner.learn(task)
images, labels = stream.test(4).load()
accuracy = (learner.predict(images).classes == labels).float().mean()
print(f"accuracy on the last task: {100 * accuracy:.1f} %")
