"""Every method can use the recipe; what a method cannot use is refused before training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from itaml import params
from itaml.config import Compute, Seeds, build
from itaml.data.stream import TaskStream
from itaml.errors import SettingsError
from itaml.learners import LEARNERS
from itaml.learners.learner import GradientLearner
from itaml.learners.method import Method
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from support import SHAPE

CPU = Compute(device="cpu", precision="fp32")
SMALL: dict[str, dict[str, Any]] = {
    "itaml": {"horizon": 3},
    "dgr": {"generator_hidden": (12,), "latent": 3},
    "rtf": {"generator_hidden": (12,), "latent": 3},
    "dmc": {"auxiliary_images": 30},
    "rpsnet": {"modules": 2},
    "gem": {"memory_batch": 4},
}
OWN_LOSS = {"reptile", "fomaml", "dmc"}  # compute their own targets or gradients
TRAINED = [name for name in LEARNERS.names() if LEARNERS.load(name).traits.trains_gradients]
COMPOSED = [name for name in TRAINED if name not in OWN_LOSS]


def learner_of(name: str, *, backbone: nn.Module | None = None, **settings: Any) -> GradientLearner:
    kind = LEARNERS.load(name)
    values = {"epochs": 2, "batch_size": 8, "lr": 0.05} | SMALL.get(name, {}) | settings
    if kind.traits.uses_memory:
        values["memory"] = 60
    torch.manual_seed(0)
    model = Classifier(backbone or mlp(SHAPE, hidden=(8,)), shape=SHAPE)
    return GradientLearner(kind, model, settings=build(kind.Settings, values), seeds=Seeds.of(0), compute=CPU)


def learned(name: str, stream: TaskStream, **settings: Any) -> params.Weights:
    learner = learner_of(name, **settings)
    for task in stream[:2]:
        learner.learn(task)
    return params.snapshot(learner.model)


def differ(left: params.Weights, right: params.Weights) -> bool:
    return any(not torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("name", [name for name in COMPOSED if name != "fixedrep"])
def test_distillation_changes_what_a_method_learns(name: str, tiny_stream: TaskStream) -> None:
    assert differ(learned(name, tiny_stream), learned(name, tiny_stream, distill=2.0))


@pytest.mark.parametrize("name", [name for name in COMPOSED if name not in ("icarl", "joint")])
def test_class_balancing_changes_what_a_method_learns(name: str, tiny_stream: TaskStream) -> None:
    """From the second task on a class without images has the logarithm of 1 added; iCaRL's loss has no softmax."""
    balanced = learned(name, tiny_stream, class_balancing="logits", loss="ce", negatives="seen")
    assert differ(learned(name, tiny_stream, loss="ce", negatives="seen"), balanced)


def test_fixed_features_refuse_a_distillation_that_would_change_nothing() -> None:
    with pytest.raises(SettingsError, match="distillation cannot change them"):
        learner_of("fixedrep", distill=1.0)


def test_class_balancing_needs_a_softmax_over_all_classes() -> None:
    with pytest.raises(SettingsError, match="class_balancing=logits needs loss=ce and negatives=seen"):
        learner_of("icarl", class_balancing="logits")


class _Sides(nn.Module):
    """Features that any size of image has, and a record of the sides in training."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.sides: list[int] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.sides.append(images.shape[-1])
        return self.scale * images.mean((2, 3))


@pytest.mark.parametrize("name", ["finetune", "lwf", "ewc", "bic", "icarl", "gem", "joint"])
def test_progressive_resizing_is_for_every_method(name: str, tiny_stream: TaskStream) -> None:
    backbone = _Sides()
    learner = learner_of(
        name, backbone=backbone, epochs=2, progressive_resize_from=0.5, progressive_resize_until=0.5, batch_size=100
    )
    learner.learn(tiny_stream[0])
    assert set(backbone.sides) == {4}, "sides are multiples of four, and these images have four pixels"


@pytest.mark.parametrize("name", sorted(OWN_LOSS))
@pytest.mark.parametrize(
    "settings", [{"distill": 1.0}, {"class_balancing": "logits"}, {"progressive_resize_from": 0.5}]
)
def test_methods_with_a_loss_of_their_own_refuse_the_recipe(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="computes its own loss"):
        learner_of(name, **settings)


@pytest.mark.parametrize("name", TRAINED)
def test_a_moving_average_of_the_weights_is_for_every_method(name: str, tiny_stream: TaskStream) -> None:
    assert differ(learned(name, tiny_stream), learned(name, tiny_stream, ema=0.5))


def test_the_moving_average_is_the_recursion_worked_by_hand(tiny_stream: TaskStream) -> None:
    """Averages of steps 1, 2, 3 at decay 0.75: a1 = w1, a2 = a1 + (w2 - a1)/4, a3 = a2 + (w3 - a2)/4."""
    learner = learner_of("finetune", ema=0.75, epochs=3, batch_size=100)
    seen: list[torch.Tensor] = []
    original = learner.method.step

    def step(*arguments: Any) -> torch.Tensor:
        loss = original(*arguments)
        seen.append(params.snapshot(learner.model)["head.weight"])
        return loss

    learner.method.step = step  # type: ignore[method-assign, assignment]
    learner.learn(tiny_stream[0])
    expected = seen[0]
    for weights in seen[1:]:
        expected = expected + (weights - expected) / 4
    torch.testing.assert_close(params.snapshot(learner.model)["head.weight"], expected)


def test_a_restored_learner_goes_on_with_its_moving_average(tiny_stream: TaskStream) -> None:
    whole = learner_of("replay", ema=0.9, epochs=3)
    whole.learn(tiny_stream[0])
    states: list[dict[str, Any]] = []
    first = learner_of("replay", ema=0.9, epochs=3)

    def stop(event: object) -> None:
        if type(event).__name__ == "EpochDone":
            states.append(first.state_dict())
            raise KeyboardInterrupt

    first.callback = stop
    with pytest.raises(KeyboardInterrupt):
        first.learn(tiny_stream[0])
    second = learner_of("replay", ema=0.9, epochs=3)
    second.load_state_dict(states[0])
    second.learn(tiny_stream[0])
    assert not differ(params.snapshot(whole.model), params.snapshot(second.model))


def test_icarl_never_predicts_a_class_without_exemplars(tiny_stream: TaskStream) -> None:
    """In the middle of the second task its classes have no exemplars; with more than 25 columns or rows as well."""
    learner = learner_of("icarl", lr=1.0)
    learner.learn(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    learner.clear_caches()
    images = tiny_stream.test(0).load()[0]
    for count in (1, 10, 71):
        scores = learner.class_scores(images.repeat(10, 1, 1, 1)[:count])
        assert not scores.isnan().any()
        assert set(scores.argmax(1).tolist()) <= {0, 1}


def test_every_method_overrides_documented_hooks_only_and_inherits_from_method_alone() -> None:
    hooks = {"begin_task", "training_data", "param_groups", "networks", "loss", "step", "end_task", "class_scores"}
    inherited = {name for name in vars(Method) if not name.startswith("__")}
    for name in TRAINED:
        kind = LEARNERS.load(name)
        assert kind.__bases__ == (Method,), name
        overridden = {key for key in vars(kind) if key in inherited and callable(getattr(kind, key))}
        assert overridden - {"Settings"} <= hooks, name
