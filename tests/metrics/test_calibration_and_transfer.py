"""Calibration error and forward transfer, by hand and against `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from experiment_support import numbers, short
from handmade import handmade
from itaml.config import Compute
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.errors import InterruptedRunError
from itaml.events import EpochDone, Event
from itaml.experiment.result import Result
from itaml.experiment.run_config import resolve
from itaml.experiment.runner import run_experiment
from itaml.metrics.calibration_error import calibration_error, expected_calibration_error
from itaml.metrics.evaluate import evaluate
from itaml.metrics.metric_registry import metrics
from itaml.metrics.nearest_mean import SHOTS, nearest_mean_accuracy
from itaml.metrics.samples import Samples
from support import fresh_itaml, synthetic_stream


def test_calibration_error_by_hand() -> None:
    # Two bins. (0, 0.5]: confidences 0.4 and 0.5, one hit: gap |0.5 - 0.45|. (0.5, 1]: 0.9 and 0.7, two hits: 0.2.
    confidence, hits = torch.tensor([0.4, 0.9, 0.5, 0.7]), torch.tensor([True, True, False, True])
    assert expected_calibration_error(confidence, hits, bins=2) == pytest.approx((2 * 0.05 + 2 * 0.2) / 4)
    assert expected_calibration_error(torch.ones(3), torch.ones(3, dtype=torch.bool)) == 0.0
    assert expected_calibration_error(torch.ones(3), torch.zeros(3, dtype=torch.bool)) == 1.0


def test_a_learner_without_probabilities_has_no_calibration_error() -> None:
    nothing = torch.full((2,), float("nan"))
    assert calibration_error(Samples(torch.zeros(2), torch.zeros(2), torch.zeros(2), nothing)) is None


STREAM = synthetic_stream((2, 3, 2), train=12, test=11)


@pytest.mark.parametrize("task_score", ["max-logit", "log-posterior", "calibrated"])
@pytest.mark.parametrize("adapt_steps", [0, 4])
def test_confidence_is_the_probability_that_predict_gives_to_its_class(
    task_score: str, adapt_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"epochs": 2, "lr": 0.05, "adapt_lr": 0.3, "adapt_guard": False}
    learner = fresh_itaml(**settings, task_score=task_score, adapt_steps=adapt_steps)
    for task in STREAM:
        learner.learn(task)
    kept: list[Samples] = []
    monkeypatch.setattr("itaml.metrics.evaluate._measures", kept.append)
    evaluate(learner, STREAM, seen=3, continuum_sizes=(1, 4), seed=0)
    images, labels = (torch.cat(part) for part in zip(*(STREAM.test(task).load() for task in range(3)), strict=True))
    prediction = learner.predict(images, torch.arange(len(images)))
    assert prediction.tasks is not None
    wanted = torch.tensor([best[0][1] for best in prediction.top(1)])
    compared = prediction.tasks == kept[0].tasks if adapt_steps else torch.ones(len(images), dtype=torch.bool)
    assert torch.equal(kept[0].hits, prediction.classes == labels)
    assert not bool(kept[0].hits.all())
    assert int(compared.sum()) > 10
    assert kept[0].confidence[compared].tolist() == pytest.approx(wanted[compared].tolist(), abs=1e-5)


class Pixels:
    """Stands for a learner whose features are the pixels themselves."""

    def features(self, images: Tensor) -> Tensor:
        return images.flatten(1).float()


def points(values: list[tuple[int, float]]) -> ImageSet:
    images = torch.tensor([value for _, value in values]).reshape(-1, 1, 1, 1)
    return ImageSet.from_arrays(images, [label for label, _ in values])


def test_nearest_means_by_hand() -> None:
    # Means: class 5 at 0.1, class 7 at 0.8. Of the test images 0.0, 0.6, 0.9 and 0.3, the second is nearer to class 7.
    task = Task(1, (7, 5), points([(5, 0.0), (5, 0.2), (7, 0.7), (7, 0.9)]))
    test = points([(5, 0.0), (5, 0.6), (7, 0.9), (5, 0.3)])
    assert nearest_mean_accuracy(Pixels(), task, test) == 0.75  # type: ignore[arg-type]


def test_only_the_first_images_of_a_class_make_its_mean() -> None:
    many = [(0, 0.0)] * SHOTS + [(0, 100.0)] * 50 + [(1, 1.0)]
    task = Task(1, (0, 1), points(many))
    assert nearest_mean_accuracy(Pixels(), task, points([(0, 0.2), (1, 0.9)])) == 1.0  # type: ignore[arg-type]


def test_tasks_of_many_classes_have_fewer_images_of_each() -> None:
    asked: list[int] = []

    class Counted(Pixels):
        def features(self, images: Tensor) -> Tensor:
            asked.append(len(images))
            return super().features(images)

    classes = tuple(range(2000))
    images = ImageSet.from_arrays(torch.arange(2000.0).repeat(3).reshape(-1, 1, 1, 1), classes * 3)
    assert nearest_mean_accuracy(Counted(), Task(1, classes, images), images) == 1.0  # type: ignore[arg-type]
    assert asked == [2000, 2000]


def test_transfer_is_not_measurable_without_features_or_with_one_class() -> None:
    single = Task(1, (0,), points([(0, 0.0)]))
    assert nearest_mean_accuracy(Pixels(), single, points([(0, 0.0)])) is None  # type: ignore[arg-type]
    two = Task(1, (0, 1), points([(0, 0.0), (1, 1.0)]))
    assert nearest_mean_accuracy(object(), two, points([(0, 0.0)])) is None  # type: ignore[arg-type]


def forward_transfer(rows: list[float | None]) -> float | None:
    value = handmade()
    for row, gain in zip(value["tasks"], rows, strict=True):
        row["measures"] = {} if gain is None else {"forward_transfer": gain}
    (metric,) = [metric for metric in metrics((1,)) if metric.key == "forward_transfer"]
    return metric.value_of(Result.model_validate(value))


def test_forward_transfer_is_the_mean_gain_over_all_tasks_but_the_first() -> None:
    assert forward_transfer([0.9, 0.25]) == 0.25
    assert forward_transfer([None, None]) is None


@pytest.mark.usefixtures("small_benchmarks")
def test_gains_are_measured_before_the_task_and_survive_an_interruption(tmp_path: Path) -> None:
    config = short(epochs=4)
    whole = run_experiment(config, tmp_path / "whole")
    assert whole.tasks[0].measures.keys() == {"ece_p1"}
    assert whole.final.metrics["forward_transfer"] == whole.tasks[1].measures["forward_transfer"]
    assert whole.final.metrics["forward_transfer"] is not None
    steps: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, EpochDone):
            steps.append(event.step)

    folder = tmp_path / "cut"  # stopped in the middle of the second task, after its measurement
    with pytest.raises(InterruptedRunError):
        run_experiment(config, folder, callbacks=[note], stop=lambda: steps[-1:] == [6])
    assert numbers(run_experiment(config, folder, resume=True)) == numbers(whole)


@pytest.mark.usefixtures("small_benchmarks")
@pytest.mark.parametrize("method", ["ncm", "icarl", "finetune"])
def test_every_kind_of_learner_has_a_calibration_error(method: str, tmp_path: Path) -> None:
    config = resolve("small", method=method, compute=Compute(device="cpu", precision="fp32"))
    value = run_experiment(config, tmp_path).final.metrics["ece_p1"]
    assert value is not None
    assert 0 <= value <= 1
