"""Algorithm 3: adaptation on a copy, its guard, its cache; and that predicting changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from itaml import params
from itaml.data.stream import TaskStream
from itaml.errors import DataError
from itaml.inference.adaptation import adapt
from itaml.learners.learner import GradientLearner
from itaml.losses import sample_losses
from itaml.models.classifier import Classifier
from itaml.params import Weights
from itaml.storage import State
from support import SHAPE, draw_batch, fresh_itaml, make_itaml, same_bits, small_classifier

SIZES = (2, 3)


def frozen(state: Any) -> Any:
    """Copy a state, so that later changes of the learner cannot reach it."""
    if isinstance(state, Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {key: frozen(value) for key, value in state.items()}
    return [frozen(value) for value in state] if isinstance(state, list) else state


def run_adapt(model: Classifier, images: Tensor, targets: Tensor, **options: Any) -> Weights:
    chosen: dict[str, Any] = {
        "steps": 3,
        "batch_size": 64,
        "make_optimizer": lambda w: SGD(w, lr=0.1),
        "scope": "all",
        "loss": "ce",
        "negatives": "own",
        "guard": False,
        "generator": torch.Generator().manual_seed(0),
    }
    return adapt(model, images, targets, **chosen | options)


def exemplars(count: int = 20, seed: int = 0) -> tuple[Tensor, Tensor]:
    return draw_batch((0, count), SIZES, seed=seed)


@pytest.mark.parametrize("loss", ["ce", "bce"])
@pytest.mark.parametrize("negatives", ["own", "seen"])
def test_one_update_is_one_gradient_step_of_the_training_loss(loss: Any, negatives: Any) -> None:
    model = small_classifier(SIZES).eval()
    images, targets = exemplars()
    adapted = run_adapt(model, images, targets, steps=1, loss=loss, negatives=negatives)
    value = sample_losses(model(images), targets, model.task_map, loss=loss, negatives=negatives).mean()
    gradients = torch.autograd.grad(value, list(model.parameters()))
    for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
        assert torch.allclose(adapted[name], parameter - 0.1 * gradient, rtol=0, atol=1e-14)


def test_scope_head_takes_the_same_step_of_the_head_alone() -> None:
    model = small_classifier(SIZES).eval()
    images, targets = exemplars()
    whole = run_adapt(model, images, targets, steps=1)
    head = run_adapt(model, images, targets, steps=1, scope="head")
    assert set(head) == {"head.weight", "head.bias"}
    assert all(torch.allclose(head[name], whole[name], rtol=0, atol=1e-14) for name in head)


def test_own_negatives_leave_the_rows_of_other_tasks() -> None:
    model = small_classifier(SIZES).eval()
    adapted = run_adapt(model, *exemplars(), steps=5)
    assert torch.equal(adapted["head.weight"][:2], model.head.weight[:2])
    assert not torch.equal(adapted["head.weight"][2:], model.head.weight[2:])


@pytest.mark.parametrize("scope", ["head", "all"])
def test_the_generic_model_and_its_batch_norm_are_never_changed(scope: str) -> None:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.BatchNorm1d(5), nn.ReLU())
    model = small_classifier(SIZES, backbone=backbone).eval()
    before = frozen(dict(model.state_dict()))
    adapted = run_adapt(model, *exemplars(), scope=scope, steps=10)
    assert same_bits(dict(model.state_dict()), before)
    assert not any("running" in name for name in adapted)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(AssertionError, match="training mode"):
        run_adapt(small_classifier(SIZES).train(), *exemplars())


@pytest.mark.parametrize("lr", [1e3, 1e30])
@pytest.mark.parametrize("scope", ["head", "all"])
@pytest.mark.parametrize("count", [2, 4, 20])
def test_the_guard_throws_destructive_adaptations_away(lr: float, scope: str, count: int) -> None:
    model = small_classifier(SIZES).eval()
    setting: dict[str, Any] = {"make_optimizer": lambda w: SGD(w, lr=lr, maximize=True), "scope": scope}
    images = exemplars(count)[0]
    targets = torch.full((count,), 3)  # of one class, so that what unlearns some unlearns all
    assert run_adapt(model, images, targets, guard=True, **setting) == {}
    assert run_adapt(model, images, targets, guard=False, **setting) != {}


def test_the_guard_keeps_what_helps() -> None:
    model = small_classifier(SIZES).eval()
    images, targets = exemplars(100)
    images[torch.arange(100), 0, 0, targets - 2] += 4  # easy to tell apart
    assert run_adapt(model, images, targets, guard=True, steps=20) != {}


def test_one_exemplar_cannot_be_judged_and_adapts_nothing() -> None:
    assert run_adapt(small_classifier(SIZES).eval(), *exemplars(1), guard=True) == {}


def trained(stream: TaskStream, tasks: int = 2, **settings: Any) -> GradientLearner:
    learner = fresh_itaml(**{"epochs": 2, "adapt_steps": 3, "adapt_lr": 0.5, "adapt_guard": False} | settings)
    for index in range(tasks):
        learner.learn(stream[index])
    return learner


@pytest.mark.parametrize("task_score", ["max-logit", "log-posterior", "calibrated"])
@pytest.mark.parametrize("scope", ["head", "all"])
def test_predicting_leaves_the_state_bit_identical(tiny_stream: TaskStream, task_score: str, scope: str) -> None:
    learner = trained(tiny_stream, task_score=task_score, adapt_scope=scope)
    before: State = frozen(learner.state_dict())
    images = tiny_stream.test(1).load()[0]
    first = learner.predict(images[:5])
    learner.predict(images, torch.arange(len(images)) // 4)
    second = learner.predict(images[:5])
    assert same_bits(frozen(learner.state_dict()), before)
    assert torch.equal(first.classes, second.classes)
    assert torch.equal(first.probabilities, second.probabilities)
    assert first.tasks is not None
    assert second.tasks is not None
    assert torch.equal(first.tasks, second.tasks)


def test_adapted_weights_are_cached_and_forgotten_when_the_learner_learns(tiny_stream: TaskStream) -> None:
    learner = trained(tiny_stream)
    adapted = learner.predictor.adapted_weights(0)
    assert adapted
    assert learner.predictor.adapted_weights(0) is adapted
    learner.learn(tiny_stream[2])
    again = learner.predictor.adapted_weights(0)
    assert again is not adapted
    assert again["head.weight"].shape[0] == 6


def test_calibration_is_forgotten_when_the_learner_learns(tiny_stream: TaskStream) -> None:
    learner = trained(tiny_stream, task_score="calibrated")
    calibration = learner.predictor.calibration()
    assert learner.predictor.calibration() is calibration
    learner.learn(tiny_stream[2])
    assert len(learner.predictor.calibration().gain) == 3


def test_adapted_scores_are_those_of_the_adapted_model(tiny_stream: TaskStream) -> None:
    learner = trained(tiny_stream, adapt_scope="all")
    images = tiny_stream.test(0).load()[0]
    generic = learner.class_scores(images)
    found = learner.adapted_scores(images, generic, 0)
    copy = Classifier(learner.model.backbone, shape=SHAPE)  # shares the backbone, so weights are put back below
    copy.head.reset(learner.task_map)
    before = params.snapshot(learner.model)
    copy.normalize.load_state_dict(learner.model.normalize.state_dict())
    params.restore(copy, learner.predictor.adapted_weights(0))
    with torch.no_grad():
        expected = copy.eval()(images)[:, :2]
    params.restore(learner.model, before)
    assert torch.allclose(found, expected, atol=1e-6)
    assert not torch.allclose(found, generic[:, :2], atol=1e-6)


def test_flipped_scores_are_the_mean_over_an_image_and_its_flip(tiny_stream: TaskStream) -> None:
    plain, flipped = trained(tiny_stream), trained(tiny_stream, flip_tta=True)
    images = tiny_stream.test(0).load()[0]
    expected = (plain.class_scores(images) + plain.class_scores(images.flip(3))) / 2
    assert torch.equal(flipped.class_scores(images), expected)
    assert not torch.equal(expected, plain.class_scores(images))
    assert torch.allclose(flipped.class_scores(images), flipped.class_scores(images.flip(3)))


def test_without_steps_the_generic_scores_are_used(tiny_stream: TaskStream) -> None:
    learner = trained(tiny_stream, adapt_steps=0)
    images = tiny_stream.test(1).load()[0]
    generic = learner.class_scores(images)
    assert torch.equal(learner.adapted_scores(images, generic, 1), generic[:, 2:4])


def test_a_wrong_task_is_never_left_for_a_class_outside_it(tiny_stream: TaskStream) -> None:
    learner = trained(tiny_stream, tasks=3)
    for task in range(3):
        images = tiny_stream.test(task).load()[0]
        prediction = learner.predict(images)
        assert prediction.tasks is not None
        assert len(found := set(prediction.tasks.tolist())) == 1
        assert set(prediction.classes.tolist()) <= set(tiny_stream.splits[found.pop()])
        assert prediction.probabilities.sum(1).tolist() == pytest.approx([1] * len(images), abs=1e-5)


def test_predictions_by_hand_through_a_linear_learner() -> None:
    """A head that reads pixels directly: logits are the first five pixels, in uneven tasks (0, 1) and (2, 3, 4)."""
    model = small_classifier(SIZES, backbone=nn.Flatten())
    with torch.no_grad():
        model.head.weight.copy_(torch.eye(5, 16))
        model.head.bias.zero_()
    learner = make_itaml(model, task_score="max-logit")
    images = torch.zeros(2, 16, dtype=torch.float64)
    images[0, :5] = torch.tensor([5.0, 0.0, 4.0, 0.0, 1.0])  # largest a task: 5 and 4
    images[1, :5] = torch.tensor([0.0, 1.0, 0.0, 3.0, 2.0])  # 1 and 3
    images = images.reshape(2, *SHAPE)
    alone = [learner.predict(image[None]) for image in images]
    assert [prediction.tasks.tolist() for prediction in alone if prediction.tasks is not None] == [[0], [1]]
    assert [prediction.classes.tolist() for prediction in alone] == [[0], [3]]
    together = learner.predict(images)  # means 3 and 3.5: task 1, so the first sample is class 2 now
    assert together.tasks is not None
    assert together.tasks.tolist() == [1, 1]
    assert together.classes.tolist() == [2, 3]
    assert together.columns == (0, 1, 2, 3, 4)
    assert [best for best, _ in (row[0] for row in together.top(2))] == [2, 3]


def test_predicting_before_learning_or_nothing_or_another_shape_is_refused(tiny_stream: TaskStream) -> None:
    learner = fresh_itaml()
    with pytest.raises(DataError, match="nothing has been learned"):
        learner.predict(torch.zeros(1, *SHAPE))
    learner.learn(tiny_stream[0])
    with pytest.raises(DataError, match="no samples"):
        learner.predict(torch.zeros(0, *SHAPE))
    with pytest.raises(DataError, match="1 x 4 x 4, these are 3 x 4 x 4"):
        learner.predict(torch.zeros(1, 3, 4, 4))
