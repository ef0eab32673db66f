"""The inner loops run together are the loops run one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from itaml import params
from itaml.config import Compute, Seeds
from itaml.data.stream import TaskStream
from itaml.errors import SettingsError
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.meta.engines.batched import ELEMENTWISE, batched_mean, supports_batching
from itaml.meta.inner_loop import InnerLoop, MicroBatch, micro_batches
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from itaml.optimizers import make_optimizer
from support import SHAPE, draw_batch, gap, small_classifier

SIZES = (2, 3, 1)
PRESENT = ((4, 3, 2), (1, 0, 5), (0, 2, 0), (2, 2, 2))  # samples of each task in the batches of four iterations


def made(model: Classifier, optimizer: str, **options: Any) -> InnerLoop:
    def make(tensors: list[Any]) -> Optimizer:
        return make_optimizer(optimizer, tensors, lr=0.05, momentum=0.9, weight_decay=0.05)

    chosen: dict[str, Any] = {"steps": 3, "loss": "bce", "negatives": "own"} | options
    return InnerLoop(model, make_optimizer=make, **chosen)


Mean = Callable[[InnerLoop, params.Weights, list[MicroBatch]], params.Weights]


def in_turn(loop: InnerLoop, base: params.Weights, batches: list[MicroBatch]) -> params.Weights:
    return params.mean([loop(base, batch) for batch in batches])


def iterate(mean: Mean, optimizer: str, **options: Any) -> tuple[list[params.Weights], InnerLoop, list[float]]:
    """Return the mean weights of every iteration, the loop with its state, and the losses."""
    model = small_classifier(SIZES)
    loop, base, every, losses = made(model, optimizer, **options), params.snapshot(model), [], []
    for seed, counts in enumerate(PRESENT):
        base = mean(loop, base, micro_batches(*draw_batch(counts, SIZES, seed=seed), model.task_map))
        losses.append(float(loop.finish_iteration()))
        every.append(base)
    return every, loop, losses


@pytest.mark.parametrize("loss", ["bce", "ce"])
@pytest.mark.parametrize("negatives", ["own", "seen"])
@pytest.mark.parametrize("optimizer", sorted(ELEMENTWISE))
def test_together_is_one_after_another(optimizer: str, loss: str, negatives: str) -> None:
    options = {"loss": loss, "negatives": negatives}
    expected, one, losses = iterate(in_turn, optimizer, **options)
    found, other, found_losses = iterate(batched_mean, optimizer, **options)
    assert max(gap(a, b) for a, b in zip(expected, found, strict=True)) < 1e-10
    assert found_losses == pytest.approx(losses, abs=1e-10)
    assert one.state.keys() == other.state.keys()
    for name, state in one.state.items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                assert torch.allclose(value, other.state[name][key], atol=1e-10), (name, key)


def test_tasks_taken_a_few_at_a_time_are_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _, losses = iterate(in_turn, "adam")
    monkeypatch.setattr("itaml.meta.engines.batched.CHUNK", 2)
    found, _, found_losses = iterate(batched_mean, "adam")
    assert max(gap(a, b) for a, b in zip(expected, found, strict=True)) < 1e-10
    assert found_losses == pytest.approx(losses, abs=1e-10)


def test_each_tasks_gradient_is_clipped_by_itself() -> None:
    expected, _, _ = iterate(in_turn, "sgd", clip=0.05)
    found, _, _ = iterate(batched_mean, "sgd", clip=0.05)
    free, _, _ = iterate(in_turn, "sgd")
    assert max(gap(a, b) for a, b in zip(expected, found, strict=True)) < 1e-10
    assert max(gap(a, b) for a, b in zip(expected, free, strict=True)) > 1e-3


def test_networks_that_mix_samples_cannot_run_together() -> None:
    assert supports_batching(small_classifier(SIZES))
    norm = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.BatchNorm1d(5))
    assert not supports_batching(small_classifier(SIZES, backbone=norm))
    assert not supports_batching(small_classifier(SIZES, backbone=nn.Sequential(nn.Flatten(), nn.Dropout(0.5))))


def learner(network: nn.Module | None = None, **settings: Any) -> GradientLearner:
    torch.manual_seed(0)
    model = Classifier(network or mlp(SHAPE, hidden=(8,)), shape=SHAPE).double()
    chosen = ITAMLSettings(epochs=2, horizon="open", memory=20, **settings)
    return GradientLearner(
        ITAML, model, settings=chosen, seeds=Seeds.of(0), compute=Compute(device="cpu", precision="fp32")
    )


def test_learning_with_either_engine_gives_the_same_weights(tiny_stream: TaskStream) -> None:
    learned = []
    for engine in ("loop", "batched", "auto"):
        made = learner(engine=engine, inner_steps=3, optimizer="radam", lr=0.01)
        for task in tiny_stream:
            made.learn(task)
        learned.append(params.snapshot(made.model))
    assert gap(learned[0], learned[1]) < 1e-10
    assert gap(learned[1], learned[2]) == 0  # auto runs them together


def test_settings_that_cannot_run_together_are_refused() -> None:
    with pytest.raises(ValueError, match="engine=batched is for"):
        ITAMLSettings(engine="batched", optimizer="rprop")
    with pytest.raises(ValueError, match="engine=batched is for"):
        ITAMLSettings(engine="batched", update="released")
    norm = nn.Sequential(nn.Flatten(), nn.LazyBatchNorm1d())
    norm(torch.zeros(2, *SHAPE))
    with pytest.raises(SettingsError, match="samples do not mix"):
        learner(norm, engine="batched")
