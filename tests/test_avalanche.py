"""Strategies and benchmarks of Avalanche: the installed one if it can be imported, else a double of what is used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from itaml import avalanche as adapter
from itaml.errors import DataError, MissingExtraError
from itaml.learners.api import Prediction


class Pairs:
    """A data set as Avalanche gives it: items are image, label and task label."""

    def __init__(self, images: Tensor, targets: list[int]) -> None:
        self.images, self.targets = images, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, row: int) -> tuple[Tensor, int, int]:
        return self.images[row], self.targets[row], 0


def drawn(labels: tuple[int, ...], count: int, seed: int) -> tuple[Tensor, list[int]]:
    """Return images (n, 1, 6, 6) of classes with a bright row of their own."""
    generator = torch.Generator().manual_seed(seed)
    images, targets = [], []
    for label in labels:
        pixels = torch.rand(count, 1, 6, 6, generator=generator) / 2
        pixels[:, :, label] += 0.5
        images.append(pixels)
        targets += [label] * count
    return torch.cat(images), targets


SPLITS = ((0, 3), (1, 2))
SETTINGS = {"backbone": "mlp", "epochs": 10, "memory": 40, "augment": "none"}


class _Template:
    """The double of Avalanche's `BaseTemplate`: its two loops, and its plugins."""

    def __init__(self, *, model: Any, device: str, plugins: list[Any]) -> None:
        self.model, self.plugins, self.experience = model, plugins, None

    def train(self, experiences: Any, eval_streams: Any = None, **kwargs: Any) -> None:
        for self.experience in experiences if isinstance(experiences, list) else [experiences]:
            self._train_exp(self.experience, eval_streams)  # type: ignore[attr-defined]

    def eval(self, experiences: Any, **kwargs: Any) -> None:
        _trigger(self, "before_eval")
        for self.experience in experiences:
            self._eval_exp()  # type: ignore[attr-defined]


class _Evaluator:
    """The double of Avalanche's `EvaluationPlugin` with the accuracy of the stream."""

    def __init__(self, *metrics: Any, loggers: Any) -> None:
        self.right = self.total = 0

    def before_eval(self, strategy: Any) -> None:
        self.right = self.total = 0

    def after_eval_iteration(self, strategy: Any) -> None:
        self.right += int((strategy.mb_output.argmax(1) == strategy.mb_y).sum())
        self.total += len(strategy.mb_y)

    def get_last_metrics(self) -> dict[str, float]:
        return {"Top1_Acc_Stream/eval_phase/test_stream/Task000": self.right / max(self.total, 1)}


def _trigger(strategy: Any, event: str, **kwargs: Any) -> None:
    for plugin in strategy.plugins:
        getattr(plugin, event, lambda _: None)(strategy)


def double() -> dict[str, ModuleType]:
    contents: dict[str, dict[str, Any]] = {
        "avalanche": {},
        "avalanche.training": {},
        "avalanche.training.templates": {},
        "avalanche.training.templates.base": {"BaseTemplate": _Template},
        "avalanche.training.plugins": {"SupervisedPlugin": object, "EvaluationPlugin": _Evaluator},
        "avalanche.training.plugins.clock": {"Clock": object},
        "avalanche.training.utils": {"trigger_plugins": _trigger},
        "avalanche.evaluation": {},
        "avalanche.evaluation.metrics": {"accuracy_metrics": lambda **_: ()},
    }
    found = {}
    for name, values in contents.items():
        found[name] = ModuleType(name)
        vars(found[name]).update(values)
    return found


def importable() -> bool:
    try:
        import avalanche.benchmarks  # noqa: F401
    except Exception:  # a torchvision for another torch raises RuntimeError
        return False
    return True


REAL = importable()


@pytest.fixture
def benchmark_of_avalanche(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    adapter._strategy_class.cache_clear()
    if REAL:
        yield real_benchmark()
    else:
        for name, module in double().items():
            monkeypatch.setitem(sys.modules, name, module)
        streams = {
            name: [SimpleNamespace(dataset=Pairs(*drawn(labels, count, seed)), task_label=0) for labels in SPLITS]
            for name, count, seed in (("train_stream", 40, 0), ("test_stream", 10, 1))
        }
        yield SimpleNamespace(**streams)
    adapter._strategy_class.cache_clear()


def real_benchmark() -> Any:
    """Return a benchmark like SplitMNIST, of generated images, by Avalanche's own generator."""
    from avalanche.benchmarks import class_incremental_benchmark
    from avalanche.benchmarks.utils.utils import as_classification_dataset
    from torch.utils.data import TensorDataset

    sets = {}
    for name, count, seed in (("train", 40, 0), ("test", 10, 1)):
        images, targets = drawn((0, 1, 2, 3), count, seed)
        dataset: Any = TensorDataset(images, torch.tensor(targets))
        dataset.targets = targets
        sets[name] = as_classification_dataset(dataset)
    return class_incremental_benchmark(sets, class_order=[0, 3, 1, 2], num_experiences=2)


def test_a_strategy_learns_the_experiences_and_avalanche_measures_it(benchmark_of_avalanche: Any) -> None:
    strategy = adapter.make_strategy("itaml", settings=SETTINGS)
    for experience in benchmark_of_avalanche.train_stream:
        strategy.train(experience)
    assert strategy.learner.task_map.tasks == SPLITS
    metrics = strategy.eval(benchmark_of_avalanche.test_stream)
    (accuracy,) = [value for name, value in metrics.items() if name.startswith("Top1_Acc_Stream")]
    assert accuracy > 0.9


def test_a_benchmark_is_a_stream_with_a_task_for_each_experience(benchmark_of_avalanche: Any) -> None:
    stream = adapter.stream_from_benchmark(benchmark_of_avalanche)
    assert [task.classes for task in stream] == [tuple(sorted(classes)) for classes in SPLITS]
    images, labels = stream[1].train.load()
    assert tuple(images.shape) == (80, 1, 6, 6)
    assert sorted(set(labels.tolist())) == [1, 2]
    expected, targets = drawn(SPLITS[1] if not REAL else (0, 1, 2, 3), 40, 0)
    rows = [row for row, label in enumerate(targets) if label == 1]
    assert torch.equal(images[labels == 1], expected[rows])


def test_a_class_in_two_experiences_is_refused() -> None:
    experience = SimpleNamespace(dataset=Pairs(*drawn((0, 1), 2, 0)))
    again = SimpleNamespace(train_stream=[experience, experience], test_stream=[experience])
    with pytest.raises(DataError, match="a class is in two experiences"):
        adapter.stream_from_benchmark(again)


def test_the_largest_score_is_the_predicted_class() -> None:
    prediction = Prediction(torch.tensor([2, 0]), None, torch.tensor([[0.7, 0.3], [0.9, 0.1]]), (0, 2))
    scores = adapter.scores_by_class(prediction, 4)
    assert scores.argmax(1).tolist() == [2, 0]
    assert scores[1].tolist() == pytest.approx([0.9, 0, 0.1, 0])


def test_without_avalanche_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter._strategy_class.cache_clear()
    monkeypatch.setitem(sys.modules, "avalanche.training.templates.base", None)
    with pytest.raises(MissingExtraError, match="pip install avalanche-lib"):
        adapter.make_strategy("itaml")
    adapter._strategy_class.cache_clear()
