"""Reptile and FOMAML: closed forms, autograd on two parameters, and what r = 1 is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from itaml import params
from itaml.config import Compute, Seeds
from itaml.data.stream import TaskStream
from itaml.learners.batch import Batch
from itaml.learners.components.first_order import FirstOrderSettings, cut
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.fomaml import FOMAML
from itaml.learners.methods.replay import Replay
from itaml.learners.methods.reptile import Reptile
from itaml.learners.settings import MemorySettings
from itaml.meta.meta_gradients import path_gradients, total
from itaml.params import Weights
from support import draw_batch, gap, make_itaml, small_classifier, synthetic_stream

SIZES = (2, 3, 2)
COUNTS = (9, 4, 2)
CPU = Compute(device="cpu", precision="fp32")


def learner_of(kind: Any, **settings: Any) -> Any:
    chosen = FirstOrderSettings(**{"loss": "ce", "negatives": "seen", "inner_lr": 0.3, "lr": 0.2} | settings)
    return GradientLearner(kind, small_classifier(SIZES), settings=chosen, seeds=Seeds.of(0), compute=CPU)


def batch_of(counts: tuple[int, ...] = COUNTS) -> Batch:
    images, targets = draw_batch(counts, SIZES)
    return Batch(images, targets, small_classifier(SIZES).task_map.task_of_column[targets])


def stepped(learner: GradientLearner, batch: Batch, *, lr: float = 0.2) -> Weights:
    """Return the weights after one outer step of plain SGD."""
    learner.method.step(batch, torch.optim.SGD(learner.model.parameters(), lr=lr))
    return params.snapshot(learner.model)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_reptile_on_quadratics_is_its_closed_form(steps: int) -> None:
    """Losses a/2 (x - c)^2: inner loops end at c + (1 - alpha a)^k (x0 - c), and phi goes lr/alpha of the way."""
    alpha, lr = 0.1, 0.04
    tasks = [(1.0, 2.0), (3.0, -1.0)]  # (a, c)
    base = {"x": torch.tensor([0.5], dtype=torch.float64)}
    gradients = []
    for a, c in tasks:

        def gradient(weights: Weights, number: int, a: float = a, c: float = c) -> Weights:
            return {"x": a * (weights["x"] - c)}

        gradients.append(total(path_gradients(base, range(steps), gradient=gradient, lr=alpha)))
    moved = base["x"] - lr * total(gradients, [0.5, 0.5])["x"]
    ends = [c + (1 - alpha * a) ** steps * (0.5 - c) for a, c in tasks]
    assert moved.item() == pytest.approx(0.5 + lr / alpha * (sum(ends) / 2 - 0.5), rel=1e-12)


def test_reptile_interpolates_towards_the_weights_that_the_inner_loops_end_at() -> None:
    """phi + epsilon * sum of shares * (phi~_i - phi), with inner loops written out here."""
    learner, batch = learner_of(Reptile, inner_steps=2), batch_of()
    base, ends = params.snapshot(learner.model), []
    for task in range(len(SIZES)):
        members = (batch.tasks == task).nonzero().flatten()
        twin = small_classifier(SIZES)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.3)
        for part in members.tensor_split(2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(twin(batch.images[part]), batch.targets[part]).backward()
            optimizer.step()
        ends.append(params.snapshot(twin))
    shares = [count / sum(COUNTS) for count in COUNTS]
    centre = {
        name: torch.stack([share * end[name] for share, end in zip(shares, ends, strict=True)]).sum(0) for name in base
    }
    expected = params.lerp(base, centre, 0.2 / 0.3)
    assert gap(stepped(learner, batch), expected) < 1e-14
    assert gap(base, expected) > 0.01


def test_fomaml_is_autograd_without_second_derivatives_on_two_parameters() -> None:
    """A model a * x + b: backpropagate through the inner step with its gradient held constant."""
    x, y = torch.tensor([0.3, -1.2, 0.7, 2.0]).double(), torch.tensor([1.0, 0.2, -0.4, 0.9]).double()

    def loss(weights: Weights, rows: Tensor) -> Tensor:
        return (weights["a"] * x[rows] + weights["b"] - y[rows]).square().mean()

    def gradient(weights: Weights, rows: Tensor) -> Weights:
        leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
        return dict(zip(leaves, torch.autograd.grad(loss(leaves, rows), list(leaves.values())), strict=True))

    support, query = torch.tensor([0, 1]), torch.tensor([2, 3])
    base = {"a": torch.tensor(0.8).double().requires_grad_(), "b": torch.tensor(-0.1).double().requires_grad_()}
    inner = torch.autograd.grad(loss(base, support), list(base.values()))
    adapted = {name: value - 0.25 * gradient for (name, value), gradient in zip(base.items(), inner, strict=True)}
    expected = torch.autograd.grad(loss(adapted, query), list(base.values()))
    plain = {name: value.detach() for name, value in base.items()}
    found = path_gradients(plain, [support, query], gradient=gradient, lr=0.25)[-1]
    assert [value.item() for value in found.values()] == pytest.approx([value.item() for value in expected], rel=1e-12)
    assert found["a"].item() != pytest.approx(gradient(plain, query)["a"].item(), rel=1e-3), "not the gradient at theta"


def test_fomaml_steps_along_the_gradient_of_the_part_held_back() -> None:
    learner, batch = learner_of(FOMAML, inner_steps=1, weighting="tasks"), batch_of((6, 4, 2))
    base = params.snapshot(learner.model)
    expected = params.copy(base)
    for task in range(len(SIZES)):
        first, validation_images = (batch.tasks == task).nonzero().flatten().tensor_split(2)
        twin = small_classifier(SIZES)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.3)
        torch.nn.functional.cross_entropy(twin(batch.images[first]), batch.targets[first]).backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            twin(batch.images[validation_images]), batch.targets[validation_images]
        ).backward()
        for name, parameter in twin.named_parameters():
            assert parameter.grad is not None
            expected[name] = expected[name] - 0.2 / 3 * parameter.grad
    assert gap(stepped(learner, batch), expected) < 1e-14


def joint_step(batch: Batch, **settings: Any) -> Weights:
    chosen = MemorySettings(**{"loss": "ce", "negatives": "seen"} | settings)
    return stepped(
        GradientLearner(Replay, small_classifier(SIZES), settings=chosen, seeds=Seeds.of(0), compute=CPU), batch
    )


@pytest.mark.parametrize(("loss", "negatives"), [("ce", "seen"), ("bce", "own")])
def test_reptile_with_one_inner_step_is_joint_sgd_and_itaml_is_not(loss: str, negatives: str) -> None:
    """Lemma 2 again: iTAML's mean gives every task the same share, so r = 1 is not joint training."""
    batch, chosen = batch_of(), {"loss": loss, "negatives": negatives}
    joint = joint_step(batch, **chosen)
    assert gap(stepped(learner_of(Reptile, inner_steps=1, **chosen), batch), joint) < 1e-15
    itaml = make_itaml(small_classifier(SIZES), inner_steps=1, beta=0.0, engine="loop", lr=0.2, **chosen)
    assert gap(stepped(itaml, batch), joint) > 1e-3


def test_reptile_with_more_inner_steps_is_not_joint_sgd() -> None:
    assert gap(stepped(learner_of(Reptile, inner_steps=2), batch_of()), joint_step(batch_of())) > 1e-3


def test_reptile_learns_a_whole_task_as_joint_training_does_with_one_inner_step(tiny_stream: TaskStream) -> None:
    weights = []
    for kind, settings in ((Reptile, FirstOrderSettings), (Replay, MemorySettings)):
        torch.manual_seed(0)
        chosen = settings(epochs=2, batch_size=8, lr=0.1, momentum=0.9, memory=20)
        learner = GradientLearner(kind, small_classifier(()), settings=chosen, seeds=Seeds.of(0), compute=CPU)
        for task in tiny_stream:
            learner.learn(task)
        weights.append(params.snapshot(learner.model))
    assert gap(*weights) < 1e-10


def test_parts_are_disjoint_and_a_task_with_few_samples_takes_fewer_steps() -> None:
    assert [part.tolist() for part in cut(torch.arange(7), 3)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert [part.tolist() for part in cut(torch.arange(2), 5)] == [[0], [1]]


@pytest.mark.parametrize("kind", [Reptile, FOMAML])
def test_all_three_settings_of_figure_5_differ(kind: Any) -> None:
    """Adaptation changes the scores inside a task, and nothing of the generic model."""
    stream = synthetic_stream(noise=130)
    learner = learner_of(kind, epochs=2, memory=40, adapt_steps=5, adapt_lr=0.3, adapt_guard=False)
    learner = GradientLearner(kind, small_classifier(()), settings=learner.settings, seeds=Seeds.of(0), compute=CPU)
    for task in stream:
        learner.learn(task)
    images = stream.test(0).load()[0]
    before = params.snapshot(learner.model)
    generic = learner.class_scores(images)
    assert float((learner.adapted_scores(images, generic, 0) - generic[:, :2]).abs().max()) > 1e-3
    assert gap(before, params.snapshot(learner.model)) == 0
