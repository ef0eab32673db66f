"""Every registered learner keeps the contract; and the check itself finds learners that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from itaml import seeding
from itaml.config import Compute, Seeds, build
from itaml.data.stream import Task
from itaml.errors import SettingsError
from itaml.learners import LEARNERS
from itaml.learners.api import Learner, Prediction
from itaml.learners.learner import GradientLearner
from itaml.learners.method import Method
from itaml.learners.methods.finetune import Finetune
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from itaml.testing import SHAPE, ConformanceError, check_learner

OVERRIDES: dict[str, dict[str, Any]] = {
    "itaml": {"horizon": 3},
    "ewc": {"strength": 10.0},
    "online-ewc": {"strength": 10.0},
    "icarl": {"lr": 1.0},
    "gem": {"memory_batch": 4},
    "dgr": {"generator_hidden": (16,), "latent": 4},
    "rtf": {"generator_hidden": (16,), "latent": 4},
    "dmc": {"auxiliary_images": 100},
    "rpsnet": {"modules": 2},
    "ranpac": {"width": 100},
}
TRAINED = [name for name in LEARNERS.names() if issubclass(LEARNERS.load(name), Method)]


def factory_of(name: str, **settings: Any) -> Callable[[], Learner]:
    """Return a maker of learners: small networks for methods that train one, else as the method makes itself."""
    kind = LEARNERS.load(name)
    if issubclass(kind, Method):
        return factory(kind, **settings)
    chosen = build(kind.Settings, {"memory": 60, **settings})
    return lambda: kind.from_settings(chosen, shape=SHAPE, seeds=Seeds.of(0))


def factory(
    kind: type[Method], learner: type[GradientLearner] = GradientLearner, **settings: Any
) -> Callable[[], GradientLearner]:
    chosen = build(kind.Settings, {"memory": 60, "epochs": 3, "batch_size": 8, "lr": 0.1} | settings)

    def make() -> GradientLearner:
        with seeding.seeded(0, "contract"):
            model = Classifier(mlp(SHAPE, hidden=(12,)), shape=SHAPE)
        return learner(kind, model, settings=chosen, seeds=Seeds.of(0), compute=Compute(device="cpu", precision="fp32"))

    return make


@pytest.mark.parametrize("name", LEARNERS.names())
def test_learner_keeps_the_contract(name: str) -> None:
    check_learner(factory_of(name, **OVERRIDES.get(name, {})))


@pytest.mark.parametrize("name", TRAINED)
def test_learner_keeps_the_contract_with_momentum_balance_and_clipping(name: str) -> None:
    settings = {"momentum": 0.9, "lr": 0.02, "weight_decay": 1e-3, "clip": 1.0, "sampling": "balanced", "epochs": 3}
    overrides = {key: value for key, value in OVERRIDES.get(name, {}).items() if key != "lr"}
    if name == "icarl":
        settings["lr"] = 0.2
    check_learner(factory_of(name, **settings, **overrides))


class _Grows(GradientLearner):
    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        with torch.no_grad():
            self.model.head.bias.add_(1)
        return super().predict(images, continua)


class _ForgetsMomentum(GradientLearner):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.trainer._saved_optimizer = None


class _Peeks(GradientLearner):
    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        task.train.pixels.read(torch.arange(len(task.train.pixels)))


class _Accepts(GradientLearner):
    def check_task(self, task: Task) -> None:
        pass


@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        (_Grows, "predicting the same samples twice"),
        (_ForgetsMomentum, "came back changed|differs from one that was not"),
        (_Peeks, "not its training images"),
        (_Accepts, "a refused request changed"),
    ],
)
def test_the_check_finds_a_broken_learner(learner: type[GradientLearner], rule: str) -> None:
    with pytest.raises(ConformanceError, match=rule):
        check_learner(factory(Finetune, learner, momentum=0.9, lr=0.02))


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("ewc", {"strength": -1}, "strength: .*greater than or equal to 0 \\(got -1\\)"),
        ("online-ewc", {"decay": 1.5}, "decay: .*less than or equal to 1"),
        ("si", {"damping": 0}, "damping: .*greater than 0"),
        ("mas", {"strength": -0.5}, "strength"),
        ("rwalk", {"average": 0}, "average: .*greater than 0"),
        ("rwalk", {"interval": 0}, "interval"),
        ("lwf", {"temperature": 0}, "temperature: .*greater than 0 \\(got 0\\)"),
        ("bic", {"temperature": 0}, "temperature: .*greater than 0 \\(got 0\\)"),
        ("bic", {"memory": 1}, "no room for validation images"),
        ("gem", {"margin": -1}, "margin"),
        ("finetune", {"task_score": "calibrated", "memory": 10}, "keeps no exemplars"),
        ("lwf", {"adapt_steps": 1, "memory": 10}, "keeps no exemplars"),
        ("icarl", {"adapt_steps": 1}, "names classes by exemplar means"),
        ("icarl", {"loss": "ce"}, "loss=bce"),
        ("icarl", {"flip_tta": True}, "flip_tta and shift_tta must be off"),
        ("icarl", {"shift_tta": 2}, "flip_tta and shift_tta must be off"),
        ("reptile", {"inner_steps": 0}, "inner_steps: .*greater than or equal to 1"),
        ("fomaml", {"inner_lr": 0}, "inner_lr: .*greater than 0"),
        ("dgr", {"generator_hidden": []}, "generator_hidden"),
        ("dgr", {"latent": 0}, "latent"),
        ("rtf", {"generative": 0}, "generative: .*greater than 0"),
        ("rtf", {"temperature": 0}, "temperature: .*greater than 0"),
        ("dmc", {"expert_share": 0}, "expert_share: .*greater than 0"),
        ("dmc", {"adapt_steps": 1}, "needs exemplars|keeps no exemplars"),
        ("rpsnet", {"modules": 0}, "modules"),
        *[(name, {"memory": 0}, "rehearses exemplars") for name in ("replay", "gem", "icarl", "bic", "rpsnet")],
    ],
)
def test_bad_settings_are_refused_before_training(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        build(LEARNERS.load(name).Settings, settings)
