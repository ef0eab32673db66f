"""The store works with every method, also with one that offers nothing but the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from itaml.config import Compute, Seeds, Settings
from itaml.data.images import Shape
from itaml.data.stream import Task
from itaml.errors import SettingsError, UnknownNameError
from itaml.learners import LEARNERS
from itaml.learners.api import Prediction, Traits
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.storage import State
from modelstore_support import TINY, Ran, digits_of


class MeanSettings(Settings):
    """Settings of the plug-in."""

    sharpness: float = 10.0


class MeanLearner:
    """Nearest mean of pixels, without memory, callback, task map or backbone."""

    Settings: ClassVar[type[MeanSettings]] = MeanSettings
    traits: ClassVar[Traits] = Traits(memory="none")

    def __init__(self, sharpness: float) -> None:
        self.sharpness, self.sums = sharpness, dict[int, Tensor]()

    @classmethod
    def from_settings(
        cls, settings: MeanSettings, *, shape: Shape, seeds: Seeds, compute: Compute | None = None
    ) -> MeanLearner:
        return cls(settings.sharpness)

    def learn(self, task: Task) -> None:
        images, labels = task.train.load()
        for label in labels.unique().tolist():
            part = images[labels == label].flatten(1).float()
            total = torch.cat([part.sum(0), torch.tensor([float(len(part))])])
            self.sums[label] = self.sums.get(label, torch.zeros(len(total))) + total

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        means = torch.stack([total[:-1] / total[-1] for total in self.sums.values()]) / 255
        distances = torch.cdist(images.flatten(1).float() / 255, means)
        columns = tuple(self.sums)
        classes = torch.tensor(columns)[distances.argmin(1)]
        return Prediction(classes, None, (-self.sharpness * distances).softmax(1), columns)

    def state_dict(self) -> State:
        return {"sums": {str(label): total for label, total in self.sums.items()}}

    def load_state_dict(self, state: State) -> None:
        self.sums = {int(label): total for label, total in state["sums"].items()}


@pytest.fixture
def plugin() -> Iterator[str]:
    LEARNERS.add("plug-in", f"{__name__}:MeanLearner", "for tests: nearest mean of pixels")
    yield "plug-in"
    LEARNERS._entries.pop("plug-in")


@pytest.mark.parametrize("method", sorted(LEARNERS.names()))
def test_every_method_learns_saves_and_predicts(method: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 2, "memory": 60}
    if "backbone" in LEARNERS.load(method).Settings.model_fields and method not in ("lda", "ranpac", "ncm", "rpsnet"):
        options["backbone"] = TINY
    classifier = ImageClassifier.create(tmp_path / "model", method=method, **options)
    classifier.learn(*digits_of((0, 1)))
    classifier.learn(*digits_of((2, 3)))
    opened = ImageClassifier.open(tmp_path / "model")
    assert (opened.info()["method"], opened.classes) == (method, ("0", "1", "2", "3"))
    images, _ = digits_of((0, 3), skip=20)
    assert [p.label for p in opened.predict(images)] == [p.label for p in classifier.predict(images)]
    assert len({p.task for p in opened.predict(images, group="all")}) == 1
    assert opened.verify() == []


def test_a_plug_in_with_nothing_but_the_contract_is_good_for_everything(plugin: str, tmp_path: Path) -> None:
    classifier = ImageClassifier.create(tmp_path / "model", method=plugin, memory=200, settings={"sharpness": 5.0})
    first, labels = digits_of((0, 1))
    classifier.learn(first, labels)
    record = classifier.learn(*digits_of((2, 4))).record
    assert (record.epochs, record.validation_images) == (0, 2)
    assert record.tasks[0].before == 1
    again = classifier.learn(first, labels)
    assert (again.changed, again.record.duplicates) == (False, 24)
    images, wanted = digits_of((0, 1, 2, 4), skip=30)
    found = classifier.predict(images)
    assert sum(p.label == str(label) for p, label in zip(found, wanted, strict=True)) >= 40
    assert {p.task for p in found if p.label in ("2", "4")} == {1}
    streamed = classifier.predict(images, group="stream")
    assert len({p.group for p in streamed}) == 2
    opened = ImageClassifier.open(tmp_path / "model")
    assert [p.confidence for p in opened.predict(images)] == [p.confidence for p in found]
    assert (opened.info()["exemplars"], opened.info()["validation_images"]) == (44, 4)
    opened.draw_exemplars(tmp_path / "sheet.png")
    moved = opened.learn(first[:3], ["other"] * 3)
    assert moved.record.moved == 3
    assert opened.info()["tasks"][2]["exemplars"] == 3


def test_wrong_methods_and_options_are_refused(plugin: str, itaml: Callable[..., Ran], tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no method 'iclar'; did you mean 'icarl'"):
        ImageClassifier.create(tmp_path / "model", method="iclar")
    classifier = ImageClassifier.create(tmp_path / "model", method=plugin, backbone="mlp")
    with pytest.raises(SettingsError, match="plug-in has no backbone to choose: leave out --backbone mlp"):
        classifier.learn(*digits_of((0, 1)))
