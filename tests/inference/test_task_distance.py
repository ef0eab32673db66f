"""Distances in feature space as task scores: by hand, and where the head alone is wrong."""

from __future__ import annotations

import pytest
import torch

from itaml.config import Compute, Seeds
from itaml.errors import SettingsError
from itaml.exchange.export_scoring import GradientScoring
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.inference.task_distance import SHRINKAGE, fit_task_distance, shrunk_covariance
from itaml.learners import LEARNERS
from itaml.learners.api import task_scores
from itaml.learners.learner import GradientLearner
from itaml.models.task_map import TaskMap

TABLE = TaskMap(((4, 7), (2,)))
FEATURES = torch.tensor([[0.0, 1.0], [0.0, -1.0], [4.0, 1.0], [4.0, -1.0], [9.0, 1.0], [9.0, -1.0]])
COLUMNS = torch.tensor([0, 0, 1, 1, 2, 2])  # class means (0, 0), (4, 0) and (9, 0)


def test_mahalanobis_by_hand() -> None:
    # Residuals (0, +-1): W = diag(0, 6 / (6 - 3)) = diag(0, 2), trace / d = 1, S = diag(a, 2 (1 - a) + a).
    covariance = torch.diag(torch.tensor([SHRINKAGE, 2 - SHRINKAGE], dtype=torch.float64))
    residuals = torch.tensor([[0.0, 1.0], [0.0, -1.0]] * 3, dtype=torch.float64)
    assert torch.allclose(shrunk_covariance(residuals, classes=3), covariance)
    scores = fit_task_distance("mahalanobis", FEATURES, COLUMNS, TABLE)(torch.tensor([[3.0, 2.0]]))
    height = 4 / (2 - SHRINKAGE)
    nearest = [-(1 / SHRINKAGE + height) / 2, -(36 / SHRINKAGE + height) / 2]  # means (4, 0) and (9, 0)
    assert scores[0].tolist() == pytest.approx(nearest)


def test_nearest_exemplar_by_hand() -> None:
    features = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    scores = fit_task_distance("nearest", features, torch.tensor([0, 1, 2]), TABLE)
    found = scores(torch.tensor([[3.0, 4.0], [-5.0, 0.0]]))
    assert torch.allclose(found, torch.tensor([[0.8, -0.6], [0.0, 1.0]], dtype=torch.float64), atol=1e-6)


def test_exemplars_that_are_all_the_same_do_no_harm() -> None:
    scores = fit_task_distance("mahalanobis", torch.ones(6, 2), COLUMNS, TABLE)(torch.rand(5, 2))
    assert bool(scores.isfinite().all())


def learned(**overrides: object) -> tuple[GradientLearner, torch.Tensor]:
    values = {"epochs": 2, **overrides}
    config = resolve("digits", overrides=values, compute=Compute(device="cpu", precision="fp32"))
    stream = make_stream(config)
    learner = make_learner(config, stream)
    assert isinstance(learner, GradientLearner)
    for index in range(2):
        learner.learn(stream[index])
    return learner, stream.test(0).load()[0][:40]


@pytest.mark.parametrize("distance", ["mahalanobis", "nearest"])
def test_predict_adds_the_weighted_distance_and_training_is_the_same(distance: str) -> None:
    plain, images = learned()
    learner, _ = learned(task_distance=distance, task_distance_weight=3.0)
    scores = plain.class_scores(images)
    assert torch.equal(scores, learner.class_scores(images))
    assert plain.task_distances(images) is None
    one = learner.task_distances(images)
    learner.configure(learner.settings.model_copy(update={"task_distance_weight": 1.0}))
    half = learner.task_distances(images)
    assert one is not None
    assert half is not None
    assert torch.allclose(one, 3 * half)
    total = task_scores(learner, scores, images)
    assert torch.allclose(total, plain.task_scores(scores) + half)
    each, together = learner.predict(images, torch.arange(len(images))).tasks, learner.predict(images).tasks
    assert each is not None
    assert together is not None
    assert torch.equal(each, total.argmax(1))
    assert set(together.tolist()) == {int(total.mean(0).argmax())}


def test_distances_find_the_task_where_the_bias_of_the_head_hides_it() -> None:
    plain, images = learned()
    with torch.no_grad():
        plain.model.head.bias[2:] += 100  # task 1 always wins
    plain.clear_caches()
    biased = plain.predict(images, torch.arange(len(images))).tasks
    assert biased is not None
    assert set(biased.tolist()) == {1}
    settings = plain.settings.model_copy(update={"task_distance": "nearest", "task_distance_weight": 1e4})
    plain.configure(settings)
    found = plain.predict(images, torch.arange(len(images))).tasks
    assert found is not None
    assert (found == 0).float().mean() > 0.9


@pytest.mark.parametrize(
    ("method", "overrides", "message"),
    [
        ("itaml", {"task_temperature": 2}, r"task_temperature=2 is of task_score=energy \(got task_score=log-post"),
        ("itaml", {"task_score": "max-logit", "task_epsilon": 0.1}, "task_epsilon needs probabilities of tasks"),
        ("itaml", {"task_score": "energy", "task_temperature": 0, "task_epsilon": 0.1}, "task_temperature above 0"),
        ("itaml", {"task_distance_weight": 2}, "task_distance_weight needs task_distance="),
        ("itaml", {"task_distance": "nearest", "memory": 0}, "distances to exemplars need exemplars"),
        ("finetune", {"task_distance": "nearest"}, "distances to exemplars need exemplars"),
        ("itaml", {"task_score": "energi"}, "task_score: must be 'max-logit', 'log-posterior', 'energy' or 'calib"),
        ("itaml", {"task_epsilon": 1}, "task_epsilon: must be less than 1"),
        ("itaml", {"task_temperature": -1, "task_score": "energy"}, "task_temperature: must be greater than or equal"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    method: str, overrides: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        resolve("digits", method=method, overrides=overrides)


def test_frozen_features_have_no_distances_of_their_own() -> None:
    kind = LEARNERS.load("itaml")
    settings = kind.Settings(backbone="efficientnet-lite0", task_distance="nearest")
    with pytest.raises(SettingsError, match="task_distance is for networks that are trained"):
        kind.from_settings(settings, shape=(3, 32, 32), seeds=Seeds.of(0), compute=Compute(device="cpu"))


def test_an_export_refuses_distances() -> None:
    learner, _ = learned(task_distance="nearest")
    with pytest.raises(SettingsError, match="distances to exemplars cannot be exported"):
        GradientScoring(learner)
