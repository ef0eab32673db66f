"""Importance penalties against closed forms."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from itaml import params
from itaml.config import Compute, Seeds
from itaml.data.images import ImageSet
from itaml.data.stream import Task, TaskStream
from itaml.learners.batch import Batch
from itaml.learners.components.importance import Anchor, Anchors, fisher, grown
from itaml.learners.learner import GradientLearner
from itaml.learners.method import Method
from itaml.learners.methods.ewc import EWC, EWCSettings
from itaml.learners.methods.mas import MAS, MASSettings, sensitivity
from itaml.learners.methods.online_ewc import OnlineEWC, OnlineEWCSettings
from itaml.learners.methods.rwalk import RWalk, RWalkSettings, unit
from itaml.learners.methods.si import SI, SISettings, path_importance
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from support import SHAPE, small_classifier

CPU = Compute(device="cpu", precision="fp32")


def linear(columns: int) -> Classifier:
    """A classifier without hidden layers: logits are W x + b."""
    return small_classifier((columns,), backbone=nn.Flatten())


def learner_of(kind: Any, settings: Any) -> Any:
    torch.manual_seed(0)
    return GradientLearner(
        kind, Classifier(mlp(SHAPE, hidden=(6,)), shape=SHAPE), settings=settings, seeds=Seeds.of(0), compute=CPU
    )


def samples(count: int) -> Tensor:
    return torch.randn(count, *SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_exact_fisher_of_a_softmax_model_is_its_closed_form() -> None:
    # log p_y has the gradient (1[y=j] - p_j) x_i for W_ji, whose mean square over y ~ p is p_j (1 - p_j) x_i^2.
    model, images = linear(3), samples(40)
    found = fisher(model, images, torch.zeros(40, dtype=torch.int64), labels="exact")
    x = images.flatten(1)
    p = model(images).softmax(1).detach()
    spread = p * (1 - p)
    torch.testing.assert_close(found["head.weight"], spread.T @ x.square() / 40)
    torch.testing.assert_close(found["head.bias"], spread.mean(0))


def test_exact_fisher_of_two_classes_is_that_of_logistic_regression() -> None:
    model, images = linear(2), samples(25)
    found = fisher(model, images, torch.zeros(25, dtype=torch.int64), labels="exact")
    probability = torch.sigmoid(model(images)[:, 1] - model(images)[:, 0]).detach()
    expected = (probability * (1 - probability))[:, None] * images.flatten(1).square()
    torch.testing.assert_close(found["head.weight"][1], expected.mean(0))


def test_empirical_fisher_is_the_mean_squared_gradient() -> None:
    model, images = linear(3), samples(10)
    targets = torch.arange(10) % 3
    found = fisher(model, images, targets, labels="empirical")
    residual = nn.functional.one_hot(targets, 3) - model(images).softmax(1).detach()
    expected = (residual[:, :, None] * images.flatten(1)[:, None, :]).square().mean(0)
    torch.testing.assert_close(found["head.weight"], expected)


def test_sampled_fisher_tends_to_the_exact_one() -> None:
    model, images = linear(2), samples(5).repeat(1500, 1, 1, 1)
    torch.manual_seed(0)
    sampled = fisher(model, images, torch.zeros(len(images), dtype=torch.int64), labels="sampled")
    exact = fisher(model, images[:5], torch.zeros(5, dtype=torch.int64), labels="exact")
    torch.testing.assert_close(sampled["head.bias"], exact["head.bias"], rtol=0.05, atol=0)


def test_mas_of_a_linear_map() -> None:
    # |F|^2 has the gradient 2 F_j x_i for W_ji and 2 F_j for b_j.
    model, images = linear(3), samples(30)
    found = sensitivity(model, images)
    outputs, x = model(images).detach(), images.flatten(1)
    torch.testing.assert_close(found["head.weight"], 2 * outputs.abs().T @ x.abs() / 30)
    torch.testing.assert_close(found["head.bias"], 2 * outputs.abs().mean(0))


def test_penalty_counts_only_rows_that_the_anchor_knows() -> None:
    model = small_classifier((2,), backbone=nn.Flatten())
    start = params.snapshot(model)
    anchor = Anchor(start, {name: torch.full_like(value, 2.0) for name, value in start.items()})
    assert anchor.penalty(model).item() == 0
    model.head.grow((2, 3), generator=torch.Generator().manual_seed(0))
    assert anchor.penalty(model).item() == 0
    with torch.no_grad():
        model.head.bias.add_(3.0)
    assert anchor.penalty(model).item() == pytest.approx(2 * 2.0 * 9.0)  # two old rows, Omega 2, moved by 3


def test_grown_fills_up_with_zeros() -> None:
    model = small_classifier((2,), backbone=nn.Flatten())
    old = {name: torch.ones_like(value) for name, value in params.snapshot(model).items()}
    model.head.grow((2,), generator=torch.Generator().manual_seed(0))
    assert grown(old, model)["head.bias"].tolist() == [1, 1, 0]


def test_importance_accumulates_with_decay_and_rows_that_came_later_start_at_zero() -> None:
    model = linear(2)
    anchors = Anchors(model)
    anchors.accumulate({name: torch.full_like(value, 4.0) for name, value in params.snapshot(model).items()}, decay=0.5)
    assert float(anchors.importance()["head.bias"].min()) == 4.0  # nothing to decay yet
    model.head.grow((2,), generator=torch.Generator().manual_seed(0))
    anchors.accumulate({name: torch.ones_like(value) for name, value in params.snapshot(model).items()}, decay=0.5)
    assert len(anchors) == 1
    assert anchors.importance()["head.bias"].tolist() == [3.0, 3.0, 1.0]


class _Quadratic:
    """Replaces a learner's loss by sum over weights of a * theta^2 / 2, whose fall along any path is known."""

    curvature = 3.0

    def loss(self: Any, batch: Batch) -> Tensor:
        zero = torch.zeros((), dtype=torch.float64)
        return sum((self.curvature * value.square().sum() / 2 for value in self.model.parameters()), zero)


class _QuadraticSI(_Quadratic, SI):
    pass


class _QuadraticRWalk(_Quadratic, RWalk):
    pass


def quadratic_walk(learner: Any, task: Task, *, steps: int) -> tuple[params.Weights, params.Weights]:
    """Take plain gradient steps and return the weights before and after."""
    learner.begin_task(task)
    learner.model.double()
    learner.method.path = {name: value.double() for name, value in getattr(learner.method, "path", {}).items()}
    start = learner.method.start = params.snapshot(learner.model)
    optimizer = torch.optim.SGD(learner.model.parameters(), lr=1e-4)
    batch = learner.context.make_batch(*task.train.load())
    for _ in range(steps):
        learner.method.step(dataclasses.replace(batch, logits=None), optimizer)
    return start, params.snapshot(learner.model)


def test_si_importance_on_a_quadratic(tiny_stream: TaskStream) -> None:
    # With small steps the path integral is the fall of the loss, weight by weight: a (start^2 - end^2) / 2.
    learner = learner_of(_QuadraticSI, SISettings(damping=0.5))
    start, end = quadratic_walk(learner, tiny_stream[0], steps=400)
    for name, path in learner.method.path.items():
        fall = 3.0 * (start[name].square() - end[name].square()) / 2
        torch.testing.assert_close(path, fall, rtol=1e-3, atol=1e-9)
    total = sum(float(path.sum()) for path in learner.method.path.values())
    assert total == pytest.approx(sum(1.5 * float((start[k] ** 2 - end[k] ** 2).sum()) for k in start), rel=1e-3)
    omega = path_importance(learner.method.path, params.subtract(end, start), damping=0.5)["backbone.1.weight"]
    moved = (end["backbone.1.weight"] - start["backbone.1.weight"]).square()
    torch.testing.assert_close(omega, learner.method.path["backbone.1.weight"] / (moved + 0.5))


def test_si_ignores_weights_that_moved_against_the_loss() -> None:
    omega = path_importance({"w": torch.tensor([2.0, -1.0])}, {"w": torch.tensor([1.0, 1.0])}, damping=1.0)
    assert omega["w"].tolist() == [1.0, 0.0]


def test_rwalk_fisher_is_the_moving_average_of_squared_gradients(tiny_stream: TaskStream) -> None:
    learner = learner_of(_QuadraticRWalk, RWalkSettings(average=0.25, interval=100))
    start, end = quadratic_walk(learner, tiny_stream[0], steps=2)
    name = "backbone.1.weight"
    first = start[name]
    second = first * (1 - 3e-4)  # one step of SGD on the quadratic
    expected = 0.75 * 0.25 * (3 * first).square() + 0.25 * (3 * second).square()
    torch.testing.assert_close(learner.method.walk["fisher"][name], expected)
    torch.testing.assert_close(
        learner.method.walk["fall"][name], 1.5 * (first.square() - end[name].square()), rtol=1e-3, atol=1e-9
    )


def test_rwalk_importance_is_scaled_to_one() -> None:
    scaled = unit({"a": torch.tensor([0.0, 5.0]), "b": torch.tensor([[10.0]])})
    assert scaled["a"].tolist() == [0.0, 0.5]
    assert scaled["b"].tolist() == [[1.0]]


def test_ewc_keeps_an_anchor_a_task_and_online_ewc_one(tiny_stream: TaskStream) -> None:
    many = learner_of(EWC, EWCSettings(epochs=1, strength=1.0, fisher="exact"))
    one = learner_of(OnlineEWC, OnlineEWCSettings(epochs=1, strength=1.0, decay=0.5, fisher="exact"))
    for task in tiny_stream[:2]:
        many.learn(task)
        before = one.method.anchors.anchors[0].importance if one.method.anchors else None
        one.learn(task)
    assert len(many.method.anchors) == 2
    assert len(one.method.anchors) == 1
    assert before is not None
    batch = one.context.make_batch(*tiny_stream[1].train.load())
    fresh = fisher(one.model, batch.images, batch.targets, labels="exact")  # 20 images: all are used
    expected = {name: 0.5 * grown(before, one.model)[name] + fresh[name] for name in fresh}
    for name, value in one.method.anchors.anchors[0].importance.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(
    ("kind", "settings", "share"),
    [(EWC, EWCSettings(strength=8.0), 4.0), (MAS, MASSettings(strength=8.0), 8.0)],
)
def test_the_loss_has_the_penalty_with_its_factor(
    kind: Any, settings: Any, share: float, tiny_stream: TaskStream
) -> None:
    learner = learner_of(kind, settings)
    learner.begin_task(tiny_stream[0])
    batch = learner.context.make_batch(*tiny_stream[0].train.load())
    plain = Method.loss(learner.method, batch).item()
    here = params.snapshot(learner.model)
    ones = {name: torch.ones_like(value) for name, value in here.items()}
    learner.method.anchors.anchors = (Anchor({name: value + 0.5 for name, value in here.items()}, ones),)
    count = sum(value.numel() for value in here.values())
    assert learner.method.loss(batch).item() == pytest.approx(plain + share * 0.25 * count, rel=1e-5)


def test_a_huge_penalty_holds_important_weights(tiny_stream: TaskStream) -> None:
    """Where the importance is 1 everywhere, a strong penalty keeps old weights where they were."""
    moved = {}
    for strength in (0.0, 1000.0):
        learner = learner_of(MAS, MASSettings(strength=strength, epochs=3, lr=1e-3, optimizer="adam"))
        learner.learn(tiny_stream[0])
        ones = {name: torch.ones_like(value) for name, value in learner.method.anchors.anchors[0].importance.items()}
        anchor = learner.method.anchors.anchors[0].weights
        learner.method.anchors.anchors = (Anchor(anchor, ones),)
        learner.learn(tiny_stream[1])
        name = "backbone.1.weight"
        moved[strength] = float((learner.model.state_dict()[name] - anchor[name]).abs().mean())
    assert moved[1000.0] < moved[0.0] / 2


def test_images_for_importance_come_from_the_task_alone(tiny_stream: TaskStream) -> None:
    task = tiny_stream[0]
    assert isinstance(task.train, ImageSet)
    learner = learner_of(MAS, MASSettings(epochs=1, samples=5))
    learner.learn(task)
    assert len(learner.memory) == 0
