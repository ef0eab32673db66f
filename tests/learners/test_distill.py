"""LwF, iCaRL and BiC: losses worked by hand, herding by brute force, bias correction against scipy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize

from itaml.config import Compute, Seeds
from itaml.data.stream import TaskStream
from itaml.events import EpochDone
from itaml.learners.components.bias_correction import L2_PENALTY, fit_bias
from itaml.learners.components.teacher import distillation
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.bic import BiC, BiCSettings
from itaml.learners.methods.icarl import ICaRL, ICaRLSettings
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.learners.methods.lwf import LwF, LwFSettings
from itaml.memory.selection import herding_order
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from support import SHAPE


def learner_of(kind: Any, settings: Any) -> Any:
    torch.manual_seed(0)
    model = Classifier(mlp(SHAPE, hidden=(8,)), shape=SHAPE)
    return GradientLearner(
        kind, model, settings=settings, seeds=Seeds.of(0), compute=Compute(device="cpu", precision="fp32")
    )


def test_distillation_worked_by_hand() -> None:
    # Teacher (2 ln 3, 0) at T = 2 is (3/4, 1/4); the pupil (0, 0) is (1/2, 1/2): cross-entropy ln 2.
    teacher = torch.tensor([[2 * math.log(3), 0.0]])
    assert distillation(torch.zeros(1, 2), teacher, temperature=2.0).item() == pytest.approx(math.log(2))
    # The pupil (2 ln 9, 0) is (9/10, 1/10): 3/4 ln(10/9) + 1/4 ln 10.
    pupil = torch.tensor([[2 * math.log(9), 0.0]])
    expected = 0.75 * math.log(10 / 9) + 0.25 * math.log(10)
    assert distillation(pupil, teacher, temperature=2.0).item() == pytest.approx(expected, rel=1e-6)


def teach_constants(learner: Any, stream: TaskStream) -> None:
    """Begin two tasks with constant logits: of the teacher 3/4 and 1/4 once softened by T = 2, of the pupil none."""
    for index, bias in enumerate(([2 * math.log(3), 0.0], [0.0] * 4)):
        learner.begin_task(stream[index])
        with torch.no_grad():
            learner.model.head.weight.zero_()
            learner.model.head.bias.copy_(torch.tensor(bias))


def test_lwf_loss_worked_by_hand(tiny_stream: TaskStream) -> None:
    """Logits made constant: the loss is L_new + lambda_o * L_old of those numbers."""
    learner = learner_of(LwF, LwFSettings(epochs=1, strength=3.0, temperature=2.0))
    teach_constants(learner, tiny_stream)
    batch = learner.context.make_batch(*tiny_stream[1].train.load())
    assert learner.method.loss(batch).item() == pytest.approx(math.log(4) + 3 * math.log(2), rel=1e-6)


def test_itaml_adds_the_distillation_of_the_whole_batch_to_the_mean_over_tasks(tiny_stream: TaskStream) -> None:
    learner = learner_of(ITAML, ITAMLSettings(epochs=1, distill=3.0, temperature=2.0, horizon="open", memory=20))
    teach_constants(learner, tiny_stream)
    batch = learner.context.make_batch(*tiny_stream[1].train.load())  # of the second of two tasks alone
    loss = learner.method.step(batch, learner.trainer.optimizer())
    assert loss.item() == pytest.approx(math.log(4) / 2 + 3 * math.log(2), rel=1e-6)


def test_itaml_keeps_no_teacher_without_distillation(tiny_stream: TaskStream) -> None:
    learner = learner_of(ITAML, ITAMLSettings(epochs=1, horizon="open", memory=20))
    learner.learn(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    assert not learner.recipe.teacher


@pytest.mark.parametrize("once", [False, True])
def test_itaml_with_distillation_goes_on_to_the_same_bits(tiny_stream: TaskStream, once: bool) -> None:
    """Saved after the first of two epochs of the second task, teacher and all."""
    settings = ITAMLSettings(
        epochs=2,
        distill=1.0,
        cache_teacher_logits=once,
        horizon="open",
        memory=20,
        augment="flip",
        class_balancing="logits",
    )
    whole, states = learner_of(ITAML, settings), []
    whole.callback = lambda event: states.append(whole.state_dict()) if isinstance(event, EpochDone) else None
    for task in list(tiny_stream)[:2]:
        whole.learn(task)
    resumed = learner_of(ITAML, settings)
    resumed.load_state_dict(states[2])
    resumed.learn(tiny_stream[1])
    expected = whole.model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.model.state_dict().items())


def test_a_task_without_a_teacher_is_plain_training(tiny_stream: TaskStream) -> None:
    learner = learner_of(LwF, LwFSettings(epochs=1))
    learner.begin_task(tiny_stream[0])
    batch = learner.context.make_batch(*tiny_stream[0].train.load())
    assert (
        learner.method.loss(batch).item()
        == F.cross_entropy(learner.context.forward(batch.images), batch.targets).item()
    )


def test_the_teacher_is_the_model_before_the_task_to_the_bit(tiny_stream: TaskStream) -> None:
    learner = learner_of(LwF, LwFSettings(epochs=1))
    learner.learn(tiny_stream[0])
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    learner.begin_task(tiny_stream[1])
    batch = learner.context.make_batch(*tiny_stream[1].train.load())
    learner.method.step(batch, torch.optim.SGD(learner.model.parameters(), lr=0.5))
    kept = learner.recipe.teacher.model.state_dict()
    assert all(torch.equal(kept[name], before[name]) for name in before)
    assert not torch.equal(learner.model.state_dict()["backbone.1.weight"], before["backbone.1.weight"])


def test_herding_is_brute_force() -> None:
    """Each next exemplar is the one, of all that are left, that brings the mean nearest to the class mean."""
    features = F.normalize(torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4)), dim=1)
    target = features.mean(0)
    chosen: list[int] = []
    for _ in range(6):
        left = [row for row in range(9) if row not in chosen]
        chosen.append(min(left, key=lambda row: float((features[[*chosen, row]].mean(0) - target).norm())))
    assert herding_order(features, limit=6).tolist() == chosen
    firsts = itertools.combinations(range(9), 1)
    assert min(firsts, key=lambda rows: float((features[list(rows)].mean(0) - target).norm())) == (chosen[0],)


def test_icarl_loss_takes_old_columns_from_the_teacher(tiny_stream: TaskStream) -> None:
    learner = learner_of(ICaRL, ICaRLSettings(epochs=1, memory=20))
    learner.learn(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    batch = learner.context.make_batch(*tiny_stream[1].train.load())
    g, q = (
        learner.context.forward(batch.images).sigmoid().detach(),
        learner.recipe.teacher.logits(batch.images).sigmoid(),
    )
    total = 0.0
    for row, target in enumerate(batch.targets.tolist()):
        for column in range(4):
            truth = float(q[row, column]) if column < 2 else float(column == target)
            share = float(g[row, column])
            total -= truth * math.log(share) + (1 - truth) * math.log(1 - share)
    assert learner.method.loss(batch).item() == pytest.approx(total / g.numel(), rel=1e-5)


def test_icarl_names_the_nearest_mean_of_exemplars(tiny_stream: TaskStream) -> None:
    learner = learner_of(ICaRL, ICaRLSettings(epochs=3, lr=1.0, memory=11))
    for task in tiny_stream:
        learner.learn(task)
    images = torch.cat([tiny_stream.test(task).load()[0] for task in range(3)])
    nearest = []
    for feature in F.normalize(learner.predictor.features(images), dim=1):
        distances = {}
        for class_id in learner.memory.classes:
            exemplars = F.normalize(learner.predictor.features(learner.memory.exemplars([class_id]).load()[0]), dim=1)
            mean = exemplars.mean(0) / exemplars.mean(0).norm()
            distances[class_id] = float((feature - mean).norm())
        nearest.append(min(distances, key=lambda name: distances[name]))
    predictions = [learner.predict(images[row : row + 1]).classes.item() for row in range(len(images))]
    assert predictions == nearest
    assert learner.memory.count(0) == 2
    assert len(learner.memory) == 11


@pytest.mark.parametrize("seed", range(4))
def test_bias_correction_is_scipys_optimum(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(60, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 5, (60,), generator=generator)
    scores[torch.arange(60), targets] += 2
    scores[:, 3:] = scores[:, 3:] * 1.7 + 2.5  # a bias to the new classes

    def objective(pair: np.ndarray[Any, Any]) -> float:
        mended = scores.clone()
        mended[:, 3:] = pair[0] * mended[:, 3:] + pair[1]
        return float(F.cross_entropy(mended, targets)) + L2_PENALTY * float((pair[0] - 1) ** 2 + pair[1] ** 2)

    prediction = minimize(
        objective, np.array([1.0, 0.0]), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
    )
    found = fit_bias(scores, targets, slice(3, 5))
    assert found == pytest.approx(tuple(prediction.x), abs=1e-5)
    assert found[1] < 0, "the new classes were too strong"


def test_bic_corrects_the_columns_of_the_task_alone(tiny_stream: TaskStream) -> None:
    learner = learner_of(BiC, BiCSettings(epochs=1, memory=40))
    for task in tiny_stream[:2]:
        learner.learn(task)
    alpha, beta = learner.method.bias[1]
    assert learner.method.bias[0] == [1.0, 0.0]
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    expected = torch.tensor([[1.0, 2.0, 3 * alpha + beta, 4 * alpha + beta]])
    torch.testing.assert_close(learner.method.corrected(logits), expected)


def test_bic_never_trains_on_validation_images_and_keeps_the_budget(tiny_stream: TaskStream) -> None:
    learner = learner_of(BiC, BiCSettings(epochs=1, memory=40, validation_share=0.25))
    for task in tiny_stream:
        learner.learn(task)
        trained, validation = learner.method._divide(task)
        assert set(trained.rows.tolist()).isdisjoint(validation.rows.tolist())
        assert len(trained) + len(validation) == len(task.train)
        kept = {bytes(image.numpy().tobytes()) for image in learner.memory.exemplars().load()[0]}
        validating = {bytes(image.numpy().tobytes()) for image in learner.method.validation.exemplars().load()[0]}
        assert kept.isdisjoint(validating)
        assert len(learner.memory) + len(learner.method.validation) <= 40
    counts = [learner.method.validation.count(c) for c in learner.task_map.classes]
    assert max(counts) - min(counts) <= 1, "validation is balanced"


def test_itaml_may_ask_its_teacher_once_about_each_image(tiny_stream: TaskStream) -> None:
    """Without augmentation that is what asking about every batch gives."""
    models = []
    for once in (False, True):
        settings = ITAMLSettings(epochs=2, distill=1.0, cache_teacher_logits=once, horizon="open", memory=20)
        learner = learner_of(ITAML, settings)
        for task in list(tiny_stream)[:2]:
            learner.learn(task)
        models.append(learner.model.state_dict())
    for name, value in models[0].items():
        torch.testing.assert_close(models[1][name], value, atol=1e-5, rtol=1e-4)


def test_a_teacher_asked_once_averages_the_mirror_image_where_training_flips(tiny_stream: TaskStream) -> None:
    learner = learner_of(ITAML, ITAMLSettings(epochs=1, distill=1.0, horizon="open", memory=20))
    learner.learn(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    images = tiny_stream[1].train
    pixels = images.load()[0]
    plain, flipped = learner.recipe.teacher.logits(pixels), learner.recipe.teacher.logits(pixels.flip(3))
    torch.testing.assert_close(learner.recipe.teacher.all_logits(images, flip=False), plain)
    torch.testing.assert_close(learner.recipe.teacher.all_logits(images, flip=True), (plain + flipped) / 2)
