"""Gaussians of classes that are carried along with the backbone, and the head that is fitted to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from experiment_support import checkpoint, short
from itaml.config import Compute
from itaml.data.images import ImageSet
from itaml.data.stream import TaskStream
from itaml.errors import CheckpointError, InterruptedRunError, SettingsError
from itaml.exchange.export_scoring import GradientScoring
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.experiment.runner import run_experiment
from itaml.inference.aligned_head import aligned_head
from itaml.inference.class_gaussians import RANK, ClassGaussians, Gaussian, fit_gaussian
from itaml.inference.own_head import OwnHead
from itaml.learners.learner import GradientLearner
from itaml.metrics.evaluate import evaluate
from support import same_bits


def drawn(count: int, size: int, seed: int = 0) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed))


def test_a_gaussian_has_the_moments_of_its_features() -> None:
    features = drawn(200, RANK) @ drawn(RANK, RANK, 1) + 3
    one = fit_gaussian(features)
    assert one.count == 200
    assert torch.allclose(one.mean, features.mean(0), atol=1e-5)
    assert torch.allclose(one.covariance, torch.cov(features.double().T, correction=0), atol=1e-4)


def test_a_gaussian_of_more_features_keeps_every_variance_and_its_largest_directions() -> None:
    mixed = drawn(300, 3) @ (10 * drawn(3, 30, 1)) + drawn(300, 30, 2)
    one, true = fit_gaussian(mixed), torch.cov(mixed.double().T, correction=0)
    assert one.directions.shape == (RANK, 30)
    assert torch.allclose(one.covariance.diagonal(), true.diagonal(), rtol=1e-4)
    assert (one.covariance - true).norm() < 0.02 * true.norm()


def test_draws_have_the_moments_of_the_gaussian() -> None:
    one = Gaussian(10, torch.tensor([1.0, -2.0]), torch.tensor([[2.0, 1.0]]), torch.tensor([0.5, 0.0]))
    found = one.draw(20_000, torch.Generator().manual_seed(0))
    assert torch.allclose(found.mean(0), one.mean, atol=0.06)
    assert torch.allclose(torch.cov(found.double().T), one.covariance, atol=0.15)


def test_a_gaussian_of_one_image_has_no_variance() -> None:
    one = fit_gaussian(torch.tensor([[1.0, 2.0, 3.0]]))
    found = one.draw(2, torch.Generator().manual_seed(0)).tolist()
    assert found == [[1.0, 2.0, 3.0]] * 2


def images_of(values: Tensor, labels: Tensor) -> ImageSet:
    return ImageSet.from_arrays(values[:, :, None, None], labels)


def kept(matrix: list[Tensor]) -> ClassGaussians:
    """Return Gaussians on a backbone that multiplies pixels by the last of some matrices."""
    return ClassGaussians(lambda pixels: pixels.flatten(1).float() @ matrix[-1])


def test_gaussians_follow_a_linear_change_of_the_backbone() -> None:
    matrix = [torch.eye(4)]
    gaussians = kept(matrix)
    old, new = drawn(100, 4) + 2, drawn(400, 4, 1)
    gaussians.after_task([0], images_of(old, torch.zeros(100).long()))
    second = images_of(new, torch.ones(400).long())
    gaussians.before_task(second)
    matrix.append(drawn(4, 4, 2) + 2 * torch.eye(4))
    gaussians.after_task([1], second)
    found = gaussians.of([0])
    assert found is not None
    expected = fit_gaussian(old @ matrix[-1])
    assert torch.allclose(found[0].mean, expected.mean, rtol=0.02, atol=0.02)
    assert (found[0].covariance - expected.covariance).norm() < 0.03 * expected.covariance.norm()
    assert gaussians.of([0, 1]) is not None
    assert gaussians.of([0, 2]) is None


def test_corrections_of_classes_change_their_gaussians() -> None:
    gaussians, (one, other) = kept([torch.eye(3)]), (drawn(30, 3), drawn(10, 3, 1) + 4)
    labels = torch.tensor([0] * 30 + [1] * 10)
    gaussians.after_task([0, 1], images_of(torch.cat([one, other]), labels))
    gaussians.merge(0, 1)
    merged, expected = gaussians.of([1]), fit_gaussian(torch.cat([one, other]))
    assert merged is not None
    assert gaussians.of([0]) is None
    assert merged[0].count == 40
    assert torch.allclose(merged[0].mean, expected.mean, atol=1e-5)
    assert torch.allclose(merged[0].covariance, expected.covariance, atol=1e-4)
    gaussians.renumber({1: 5})
    assert gaussians.of([5]) is not None
    gaussians.remove(5)
    assert gaussians.of([5]) is None


def test_states_are_restored_and_others_refused() -> None:
    gaussians, again = kept([torch.eye(3)]), kept([torch.eye(3)])
    gaussians.after_task([7], images_of(drawn(20, 3), torch.full((20,), 7)))
    again.load_state_dict(gaussians.state_dict())
    assert same_bits(gaussians.state_dict(), again.state_dict())
    again.load_state_dict(None)
    assert again.of([7]) is None
    others: list[dict[str, Any]] = [
        {"classes": {}},
        {"classes": {"x": 1}, "before": torch.empty(0)},
        {"classes": 3, "before": 1},
    ]
    for damaged in others:
        with pytest.raises(CheckpointError, match="not saved Gaussians"):
            again.load_state_dict(damaged)


def test_an_aligned_head_no_longer_favours_a_class() -> None:
    features = [drawn(200, 5, seed) + 2 * torch.eye(5)[seed] for seed in range(3)]
    biased = OwnHead(torch.eye(5)[:3], torch.tensor([0.0, 0.0, 3.0]))
    gaussians = [fit_gaussian(values) for values in features]
    tested, targets = torch.cat(features), torch.arange(3).repeat_interleave(200)

    def accuracy(head: OwnHead) -> float:
        return float((head(tested).argmax(1) == targets).double().mean())

    found = {
        share: aligned_head(biased, gaussians, share=share, generator=torch.Generator().manual_seed(0))
        for share in (0.0, 0.5, 1.0)
    }
    assert torch.equal(found[0.0].weight, biased.weight.double())
    assert torch.allclose(found[0.5].bias, (found[0.0].bias + found[1.0].bias) / 2)
    assert accuracy(biased) < 0.65
    assert accuracy(found[1.0]) > accuracy(found[0.5]) > accuracy(biased) + 0.05


def learned(*, tasks: int = 2, method: str = "itaml", **overrides: Any) -> tuple[GradientLearner, TaskStream]:
    compute = Compute(device="cpu", precision="fp32")
    config = resolve("digits", method=method, overrides={"epochs": 2, **overrides}, compute=compute)
    stream = make_stream(config)
    learner = make_learner(config, stream)
    assert isinstance(learner, GradientLearner)
    for index in range(tasks):
        learner.learn(stream[index])
    return learner, stream


def test_a_learner_scores_with_the_aligned_head_and_trains_with_its_own() -> None:
    (plain, stream), (aligned, _) = learned(), learned(align_head=1.0)
    assert same_bits(plain.model.state_dict(), aligned.model.state_dict())
    images, features = stream.test(0).load()[0], aligned.predictor.features(stream.test(0).load()[0])
    weights = aligned.predictor.aligned_weights()
    expected = features @ weights["head.weight"].T + weights["head.bias"]
    scores = aligned.class_scores(images)
    assert torch.allclose(scores, expected, atol=1e-4)
    assert not torch.allclose(scores, plain.class_scores(images), atol=1e-2)
    assert evaluate(aligned, stream, seen=2, continuum_sizes=[1], seed=0).at[1].classes > 0.8
    assert torch.allclose(GradientScoring(aligned).class_scores(images), scores, atol=1e-4)


def test_corrections_keep_the_aligned_head() -> None:
    learner, stream = learned(align_head=0.5)
    first, second = learner.task_map.tasks
    learner.forget_class(first[0])
    assert learner.predictor.aligned_weights()["head.weight"].shape[0] == len(learner.task_map.classes)
    learner.merge_classes(second[0], second[1])
    assert learner.predictor.aligned_weights()["head.weight"].shape[0] == len(learner.task_map.classes)
    learner.renumber_classes({class_id: class_id + 100 for class_id in learner.task_map.classes})
    assert learner.predictor.aligned_weights()["head.weight"].shape[0] == len(learner.task_map.classes)
    assert learner.class_scores(stream.test(0).load()[0]).shape[1] == len(learner.task_map.classes)


def test_without_gaussians_of_all_classes_the_head_is_that_of_training() -> None:
    plain, stream = learned()
    other, _ = learned(tasks=0, align_head=1.0)
    other.load_state_dict(plain.state_dict())
    images = stream.test(0).load()[0]
    assert other.predictor.aligned_weights() == {}
    assert torch.equal(other.class_scores(images), plain.class_scores(images))


@pytest.mark.usefixtures("small_benchmarks")
def test_a_stopped_run_with_an_aligned_head_continues_to_the_same_bits(tmp_path: Path) -> None:
    config = short(align_head=0.5, momentum=0.9)
    whole = run_experiment(config, tmp_path / "whole")
    asked = iter(range(1, 1000))
    with pytest.raises(InterruptedRunError):
        run_experiment(config, tmp_path / "parts", stop=lambda: next(asked) == 4)  # in the second task
    parts = run_experiment(config, tmp_path / "parts", resume=True)
    assert same_bits(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))
    assert parts.final.continuum == whole.final.continuum
    assert checkpoint(tmp_path / "whole")["learner"]["gaussians"]["classes"]


@pytest.mark.parametrize("method", ["replay", "rpsnet", "gem", "lwf", "dgr"])
def test_other_methods_can_use_it(method: str) -> None:
    learner, stream = learned(method=method, epochs=1, align_head=0.5)
    assert learner.predictor.aligned_weights()
    assert evaluate(learner, stream, seen=2, continuum_sizes=[1], seed=0).at[1].classes > 0.3


@pytest.mark.parametrize(
    ("method", "overrides", "message"),
    [
        ("icarl", {}, "icarl names classes by exemplar means"),
        ("bic", {}, "bic corrects the scores of its own head"),
        ("itaml", {"adapt_steps": 3}, "replaces the head that adaptation starts from"),
        ("itaml", {"align_head": 1.5}, "align_head"),
    ],
)
def test_what_cannot_be_aligned_is_refused(method: str, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        resolve("digits", method=method, overrides={"align_head": 0.5, **overrides})
