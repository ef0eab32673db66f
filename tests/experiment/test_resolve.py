"""What `resolve` decides: sizes of continua, memory of methods that have none, learners of other packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
import torch
from torch import Tensor

import itaml
from itaml.config import Compute, Seeds, Settings
from itaml.data.images import ClassId, Shape
from itaml.data.stream import Task
from itaml.errors import DataError, SettingsError
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.experiment.runner import run_experiment
from itaml.learners import LEARNERS
from itaml.learners.api import Prediction
from itaml.metrics.evaluate import evaluate
from itaml.registry import Entry
from itaml.storage import State
from itaml.testing import SHAPE, check_learner

pytestmark = pytest.mark.usefixtures("small_benchmarks")

WITHOUT_MEMORY = [name for name in LEARNERS.names() if not LEARNERS.load(name).traits.uses_memory]


@pytest.mark.parametrize(("given", "used"), [((5,), (1, 5)), ((1,), (1,)), ((7, 1, 3, 7), (1, 3, 7))])
def test_single_samples_are_always_evaluated(given: tuple[int, ...], used: tuple[int, ...]) -> None:
    assert resolve("small", p=given).p == used


def test_forgetting_is_that_at_p_1_whatever_sizes_are_asked_for(tmp_path: Path) -> None:
    config = resolve("small", p=(5,), overrides={"epochs": 1})
    result = run_experiment(config, tmp_path)
    assert set(result.final.continuum) == {1, 5}
    assert result.accuracy_matrix == result.accuracy_matrices[1]
    assert result.final.forgetting == result.final.forgetting_at[1]


@pytest.mark.parametrize("method", WITHOUT_MEMORY)
def test_a_method_that_keeps_no_exemplars_refuses_a_memory(method: str) -> None:
    with pytest.raises(SettingsError, match=f"{method} keeps no exemplars: memory must be 0 or left out, not 50"):
        resolve("small", method=method, overrides={"memory": 50})
    assert resolve("small", method=method, overrides={"memory": 0}).settings["memory"] == 0


@pytest.mark.parametrize("method", WITHOUT_MEMORY)
def test_the_memory_of_the_benchmark_is_not_given_to_a_method_that_keeps_no_exemplars(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("itaml.experiment.run_config.load_preset", lambda *_, **__: {})
    assert resolve("small", method=method).settings["memory"] == 0


class MeansSettings(Settings):
    """The one setting of a nearest-mean classifier of pixels."""

    scale: float = 1.0


class PixelMeans:
    """The nearest class mean of raw pixels: no network, no exemplars, no tasks."""

    Settings: ClassVar[type[Settings]] = MeansSettings

    def __init__(self, shape: Shape, settings: MeansSettings) -> None:
        self.shape, self.settings = shape, settings
        self.means: dict[ClassId, Tensor] = {}

    @classmethod
    def from_settings(cls, settings: MeansSettings, *, shape: Shape, seeds: Seeds, compute: Compute) -> Self:
        return cls(shape, settings)

    def learn(self, task: Task) -> None:
        images, labels = task.train.load()
        if tuple(images.shape[1:]) != self.shape or self.means.keys() & set(task.classes):
            raise DataError("another shape, or a class that is known")
        for class_id in task.classes:
            self.means[class_id] = images[labels == class_id].float().mean(0)

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        if not self.means or not len(images) or tuple(images.shape[1:]) != self.shape:
            raise DataError("nothing to predict from, or with")
        columns = tuple(self.means)
        distances = torch.cdist(images.flatten(1).float(), torch.stack(list(self.means.values())).flatten(1))
        scores = (-self.settings.scale * distances).softmax(1)
        return Prediction(torch.tensor(columns)[scores.argmax(1)], None, scores, columns)

    def state_dict(self) -> State:
        return {"classes": list(self.means), "means": list(self.means.values())}

    def load_state_dict(self, state: State) -> None:
        self.means = dict(zip(state["classes"], state["means"], strict=True))


def add_method(monkeypatch: pytest.MonkeyPatch, learner: Any) -> None:
    monkeypatch.setitem(LEARNERS._entries, "means", Entry("means", "unused", "nearest mean of pixels"))
    monkeypatch.setattr(Entry, "load", lambda self: learner)


def test_a_learner_without_backbone_and_memory_runs_through_an_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_learner(lambda: PixelMeans(SHAPE, MeansSettings()))
    add_method(monkeypatch, PixelMeans)
    config = resolve("small", method="means", overrides={"scale": 2.0})
    assert config.settings == {"scale": 2.0}
    final = run_experiment(config, tmp_path).final
    assert final.continuum[1].classes > 0.5  # four classes
    assert final.continuum[1].task is None


def test_a_learner_that_cannot_be_made_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoFactory(PixelMeans):
        from_settings = None  # type: ignore[assignment]

    add_method(monkeypatch, NoFactory)
    config = resolve("small", method="means")
    with pytest.raises(SettingsError, match="means has no classmethod from_settings"):
        make_learner(config, make_stream(config))


def test_a_run_returns_a_result_and_its_paths_may_be_strings(tmp_path: Path) -> None:
    config = resolve("small", overrides={"epochs": 1})
    result = run_experiment(config, str(tmp_path / "run"), data_root=str(tmp_path))
    assert isinstance(result, itaml.Result)
    assert result == itaml.load_result(str(tmp_path / "run"))
    assert result == run_experiment(config, str(tmp_path / "run"), resume=True)


def test_the_test_images_are_scored_once_after_each_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, tuple[int, ...]]] = []

    def counted(*things: Any, seen: int, continuum_sizes: Any, **more: Any) -> Any:
        calls.append((seen, tuple(continuum_sizes)))
        return evaluate(*things, seen=seen, continuum_sizes=continuum_sizes, **more)

    monkeypatch.setattr("itaml.experiment.runner.evaluate", counted)
    result = run_experiment(resolve("small", overrides={"epochs": 1}), tmp_path)
    assert calls == [(1, (1, 3)), (2, (1, 2, 3, 5, 10, 20, 50, 100))]
    assert set(result.tasks[1].continuum) == {1, 3}
    assert result.final.curve[3].classes == result.tasks[1].continuum[3].classes
