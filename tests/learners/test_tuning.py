"""Pretrained backbones: frozen by default, the last layers or all of them tuned with a learning rate of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from itaml.config import Compute, Seeds, build
from itaml.errors import SettingsError
from itaml.learners import LEARNERS
from itaml.learners.frozen import FrozenLearner
from itaml.models.backbones.module import module_backbone
from itaml.models.backbones.spec import Backbone, Preprocessing
from support import SHAPE, synthetic_stream

NAME = "timm:tiny"
CPU = Compute(device="cpu", precision="fp32")
STREAM = synthetic_stream((2, 2), train=20, test=10, noise=40)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.ReLU(),
    )


@pytest.fixture(autouse=True)
def _pretrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backbone of the test's own in place of timm."""

    def opened(name: str, *, fold: bool = True) -> Backbone:
        return module_backbone(network(), Preprocessing(size=4, mean=(0.4,), std=(0.2,)), name=name, fold=fold)

    monkeypatch.setattr("itaml.models.pretrained.open_backbone", opened)
    monkeypatch.setattr("itaml.models.features.open_backbone", opened)


def learner_of(name: str = "replay", **settings: Any) -> Any:
    kind = LEARNERS.load(name)
    values = {"backbone": NAME, "memory": 20, "epochs": 3, "batch_size": 10, "lr": 0.05} | settings
    return kind.from_settings(build(kind.Settings, values), shape=SHAPE, seeds=Seeds.of(0), compute=CPU)


def convolutions(learner: Any) -> list[Tensor]:
    return [layer.weight for layer in learner.model.backbone.modules() if isinstance(layer, nn.Conv2d)]


def test_a_pretrained_backbone_is_frozen_unless_told() -> None:
    learner = learner_of()
    assert isinstance(learner, FrozenLearner)
    assert learner.extractor.extraction.backbone == NAME
    assert not list(learner.learner.model.backbone.parameters())  # type: ignore[attr-defined]


def test_an_adapter_is_a_trained_layer_on_frozen_features() -> None:
    learner = learner_of(adapter=5)
    shapes = [tuple(value.shape) for value in learner.learner.model.backbone.parameters()]
    assert shapes == [(5, 8), (5,)]


def test_tuning_the_last_layers_leaves_the_first_to_the_bit() -> None:
    learner = learner_of(tune="last")
    before = [weight.detach().clone() for weight in convolutions(learner)]
    statistics = learner.model.state_dict()
    kept = {name: value.clone() for name, value in statistics.items() if "running" in name}
    learner.learn(STREAM[0])
    still = [torch.equal(weight, old) for weight, old in zip(convolutions(learner), before, strict=True)]
    assert still == [True, True, False]
    assert all(torch.equal(learner.model.state_dict()[name], value) for name, value in kept.items())


def test_tuning_all_moves_every_layer() -> None:
    learner = learner_of(tune="all")
    before = [weight.detach().clone() for weight in convolutions(learner)]
    learner.learn(STREAM[0])
    assert all(not torch.equal(weight, old) for weight, old in zip(convolutions(learner), before, strict=True))


@pytest.mark.parametrize("name", ["replay", "itaml"])
def test_the_backbone_has_a_learning_rate_of_its_own(name: str) -> None:
    extra = {"horizon": 2} if name == "itaml" else {}
    fast, slow = (learner_of(name, tune="all", backbone_lr=rate, **extra) for rate in (0.05, 1e-6))
    distances = []
    for learner in (fast, slow):
        before = [weight.detach().clone() for weight in convolutions(learner)]
        head = learner.model.head
        learner.learn(STREAM[0])
        assert float(head.weight.detach().abs().max()) > 0
        pairs = zip(convolutions(learner), before, strict=True)
        distances.append(max(float((weight - old).detach().abs().max()) for weight, old in pairs))
    assert distances[1] < 1e-3 * distances[0]


def test_a_tuned_backbone_keeps_the_normalisation_it_was_trained_with() -> None:
    learner = learner_of(tune="all")
    learner.learn(STREAM[0])
    assert learner.model.normalize.mean.tolist() == pytest.approx([0.4])
    assert learner.model.normalize.std.tolist() == pytest.approx([0.2])


def test_an_adapter_on_a_tuned_backbone_is_refused() -> None:
    with pytest.raises(SettingsError, match="adapter is a layer on frozen features"):
        learner_of(tune="all", adapter=4)


def test_a_tuned_backbone_learns_a_task() -> None:
    learner = learner_of(tune="all", epochs=40, optimizer="adam", lr=0.01)
    learner.learn(STREAM[0])
    images, labels = STREAM[0].train.load()
    assert float((learner.predict(images, torch.arange(len(images))).classes == labels).float().mean()) > 0.9
