"""Adaptation on features: an anchored own-task head, LDA, and snapshot heads carried along to a new backbone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from experiment_support import checkpoint, short
from itaml.config import Compute
from itaml.data.images import ImageSet
from itaml.errors import CheckpointError, InterruptedRunError, SettingsError, UsageError
from itaml.exchange.export_scoring import GradientScoring
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.experiment.runner import run_experiment
from itaml.inference.feature_drift import ridge_map
from itaml.inference.own_head import OwnHead, fit_anchored, fit_lda, no_better, pooled
from itaml.inference.snapshot_heads import SnapshotHeads, carried
from itaml.learners.learner import GradientLearner
from itaml.metrics.evaluate import evaluate
from support import same_bits

GENERIC = OwnHead(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0.0, 0.0]))


def two_classes(count: int = 50, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return features whose second coordinate tells the class; the generic head reads the first one as well."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(2 * count) % 2
    second = torch.where(targets == 1, 1.0, -1.0) + 0.1 * torch.randn(2 * count, generator=generator)
    return torch.stack([3 * torch.randn(2 * count, generator=generator), second], 1), targets


def hits(head: Any, features: Tensor, targets: Tensor) -> float:
    return float((head(features).argmax(1) == targets).double().mean())


def test_no_steps_and_an_infinite_anchor_leave_the_generic_head() -> None:
    features, targets = two_classes()
    for anchor, steps in ((0.1, 0), (math.inf, 50)):
        head = fit_anchored(GENERIC, features, targets, anchor=anchor, steps=steps)
        assert torch.equal(head.weight, GENERIC.weight.double())
        assert torch.equal(head.bias, GENERIC.bias.double())
    near = fit_anchored(GENERIC, features, targets, anchor=1e9, steps=50)
    assert torch.allclose(near.weight, GENERIC.weight.double(), atol=1e-6)
    assert GENERIC.weight.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_an_anchored_head_solves_its_problem_and_moves_less_with_a_larger_anchor() -> None:
    features, targets = two_classes()
    moves = []
    for anchor in (0.01, 0.1, 1.0):
        head = fit_anchored(GENERIC, features, targets, anchor=anchor, steps=200)
        probabilities = head(features).softmax(1) - torch.nn.functional.one_hot(targets)
        gradient = probabilities.T @ features.double() / len(targets)
        moved = head.weight - GENERIC.weight.double()
        assert torch.allclose(gradient, -2 * anchor * moved, atol=1e-5)  # where the sum of both has no slope
        moves.append(float(moved.norm()))
    assert moves[0] > moves[1] > moves[2]


def test_it_helps_where_the_generic_head_looks_at_the_wrong_feature() -> None:
    features, targets = two_classes()
    others = two_classes(seed=1)
    head = fit_anchored(GENERIC, features, targets, anchor=0.01, steps=100)
    assert hits(GENERIC, *others) < 0.8
    assert hits(head, *others) > 0.99
    assert not no_better(head, GENERIC, *others)
    assert no_better(GENERIC, head, *others)
    assert no_better(GENERIC, GENERIC, *others)  # as good is not better


def test_lda_by_hand() -> None:
    features = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    head = fit_lda(features, torch.tensor([0, 0, 1, 1]), 2)
    # Means (+-1, 0), W = diag(0, 4 / (4 - 2)) = diag(0, 2), S = 0.9 W + 0.1 I: S^-1 m = (+-10, 0), m S^-1 m / 2 = 5.
    assert torch.allclose(head.weight, torch.tensor([[10.0, 0.0], [-10.0, 0.0]], dtype=torch.float64))
    assert torch.allclose(head.bias, torch.tensor([-5.0, -5.0], dtype=torch.float64))


def test_pooling_is_the_weighted_mean_of_log_probabilities() -> None:
    features, _ = two_classes()
    other = OwnHead(torch.zeros(2, 2), torch.tensor([0.0, math.log(3.0)]))
    mean = pooled([(0.25, GENERIC), (0.75, other)])(features)
    expected = 0.25 * GENERIC(features).double().log_softmax(1) + 0.75 * torch.tensor([0.25, 0.75]).double().log()
    assert torch.allclose(mean, expected, atol=1e-6)
    assert pooled([(1.0, GENERIC), (0.0, other)]) is GENERIC


def test_a_head_carried_along_a_rotation_scores_as_before() -> None:
    generator = torch.Generator().manual_seed(0)
    old = torch.randn(400, 6, generator=generator).double()
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=generator).double())[0]
    new = old @ rotation + 2.0
    head = OwnHead(torch.randn(3, 6, generator=generator).double(), torch.randn(3, generator=generator).double())
    matrix, offset = ridge_map(new, old)
    assert torch.allclose(new @ matrix + offset, old, atol=0.01)
    assert torch.allclose(carried(head, matrix, offset)(new), head(old), atol=0.02)
    assert not torch.allclose(head(new), head(old), atol=1.0)


def test_snapshots_follow_the_backbone_and_know_their_classes() -> None:
    turn = {"by": torch.eye(4)}
    heads = SnapshotHeads(lambda pixels: pixels.flatten(1).float() @ turn["by"])
    generator = torch.Generator().manual_seed(0)
    images = ImageSet.from_arrays(torch.rand(80, 1, 2, 2, generator=generator), torch.arange(80) % 2 * 3 + 4)
    generic = OwnHead(torch.zeros(2, 4), torch.zeros(2))
    heads.before_task(images)
    heads.after_task(images)
    heads.fit(0, (4, 7), images, generic, anchor=0.01, steps=50)
    first = heads.head(0, (4, 7))
    assert first is not None
    assert heads.head(0, (4,)) is None  # a class was removed since
    assert heads.head(1, (4, 7)) is None
    pixels = images.load()[0].flatten(1)
    scores = first(pixels)
    heads.before_task(images)
    saved = heads.state_dict()
    turn["by"] = torch.linalg.qr(torch.randn(4, 4, generator=generator))[0]
    heads.after_task(images)
    second = heads.head(0, (4, 7))
    assert second is not None
    assert torch.allclose(second(pixels @ turn["by"]), scores, atol=0.02)
    restored = SnapshotHeads(lambda pixels: pixels.flatten(1).float() @ turn["by"])
    restored.load_state_dict(saved)  # in the middle of the task
    restored.after_task(images)
    assert same_bits(restored.state_dict(), heads.state_dict())
    with pytest.raises(CheckpointError, match="not saved heads"):
        restored.load_state_dict({"heads": {"0": {"classes": [1]}}, "before": torch.empty(0)})


OWN: dict[str, Any] = {"adapt_steps": 20, "adapt_scope": "own-head"}


def learned(**overrides: Any) -> tuple[GradientLearner, Any]:
    values = {"epochs": 2, **overrides}
    config = resolve("digits", overrides=values, compute=Compute(device="cpu", precision="fp32"))
    stream = make_stream(config)
    learner = make_learner(config, stream)
    assert isinstance(learner, GradientLearner)
    for index in range(2):
        learner.learn(stream[index])
    return learner, stream


def use(learner: GradientLearner, **chosen: Any) -> None:
    learner.configure(type(learner.settings)(**{**learner.settings.model_dump(), **chosen}))
    learner.clear_caches()


def test_a_learner_adapts_its_classes_and_nothing_else() -> None:
    learner, stream = learned(snapshot_heads=True)
    plain, _ = learned()
    images = stream.test(0).load()[0]
    scores = plain.class_scores(images)
    assert torch.equal(scores, learner.class_scores(images))  # keeping snapshots changes no training
    before = learner.adapted_scores(images, scores, 0)
    for chosen in (
        {**OWN, "adapt_anchor": 1e12, "adapt_guard": False},
        {**OWN, "adapt_steps": 0},
    ):
        use(learner, **chosen)
        assert torch.allclose(learner.adapted_scores(images, scores, 0).float(), before, atol=1e-4)
    weights = {name: value.clone() for name, value in learner.model.state_dict().items()}
    views = {"adapt_views": 4, "adapt_augment": "shift", "adapt_guard": False}
    found = []
    for chosen in (views, {**views, "adapt_lda": 0.5}, {**views, "adapt_lda": 0.3, "adapt_snapshot": 0.7}):
        use(learner, **OWN, **{"adapt_lda": 0.0, "adapt_snapshot": 0.0, **chosen})
        inside = learner.adapted_scores(images, scores, 0)
        assert inside.shape == before.shape
        assert torch.equal(inside, learner.adapted_scores(images, scores, 0))
        assert evaluate(learner, stream, seen=2, continuum_sizes=[1], seed=0).task_aware > 0.9  # type: ignore[operator]
        found.append(inside)
    assert not torch.allclose(found[0].softmax(1), found[1].softmax(1))
    assert not torch.allclose(found[1].softmax(1), found[2].softmax(1))
    assert same_bits(weights, learner.model.state_dict())
    prediction = learner.predict(images)
    inside = learner.adapted_scores(images, scores, 0)
    if prediction.tasks is not None and set(prediction.tasks.tolist()) == {0}:
        assert torch.equal(prediction.classes, learner.task_map.class_tensor[inside.argmax(1)])
    with pytest.raises(SettingsError, match="heads of single tasks cannot be exported"):
        GradientScoring(learner)


def test_a_damaged_head_is_mended_by_the_exemplars() -> None:
    learner, stream = learned()
    with torch.no_grad():
        learner.model.head.bias[0] += 50  # class 0 always wins inside its task
    learner.clear_caches()
    damaged = evaluate(learner, stream, seen=2, continuum_sizes=[1], seed=0).task_aware
    use(learner, **{**OWN, "adapt_steps": 200, "adapt_anchor": 0.0})
    mended = evaluate(learner, stream, seen=2, continuum_sizes=[1], seed=0).task_aware
    assert damaged is not None
    assert mended is not None
    assert damaged < 0.8
    assert mended > 0.95


@pytest.mark.parametrize("method", ["itaml", "replay", "rpsnet", "gem", "bic"])
def test_other_methods_can_use_it(method: str) -> None:
    overrides = {**OWN, "epochs": 1, "snapshot_heads": True, "adapt_snapshot": 0.5}
    config = resolve("digits", method=method, overrides=overrides, compute=Compute(device="cpu", precision="fp32"))
    stream = make_stream(config)
    learner = make_learner(config, stream)
    for index in range(2):
        learner.learn(stream[index])
    assert evaluate(learner, stream, seen=2, continuum_sizes=[1], seed=0).task_aware > 0.5  # type: ignore[operator]


@pytest.mark.usefixtures("small_benchmarks")
def test_a_stopped_run_with_snapshots_continues_to_the_same_bits(tmp_path: Path) -> None:
    config = short(snapshot_heads=True, adapt_snapshot=0.5, momentum=0.9, **OWN)
    run_experiment(config, tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        run_experiment(config, tmp_path / "parts", stop=Stop(4))  # in the second task, which carries a head along
    run_experiment(config, tmp_path / "parts", resume=True)
    assert same_bits(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))
    assert len(checkpoint(tmp_path / "whole")["learner"]["snapshots"]["heads"]) == 2


class Stop:
    """Says yes the `number`-th time it is asked."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


def make(overrides: dict[str, Any]) -> None:
    config = resolve("digits", overrides=overrides)
    make_learner(config, make_stream(config))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"adapt_views": 8}, r"adapt_views is of adapt_scope=own-head \(got adapt_scope=head\)"),
        ({**OWN, "adapt_views": 8}, "adapt_views=8 needs adapt_augment"),
        ({**OWN, "adapt_augment": "shiftt", "adapt_views": 2}, "no augmentation 'shiftt'"),
        ({**OWN, "adapt_lda": 0.6, "adapt_snapshot": 0.6, "snapshot_heads": True}, "their sum must be at most 1"),
        ({**OWN, "adapt_snapshot": 0.5}, "adapt_snapshot needs snapshot_heads=true"),
        ({**OWN, "adapt_anchor": -1}, "adapt_anchor: must be greater than or equal to 0"),
        ({**OWN, "memory": 0}, "adapting at inference needs exemplars"),
    ],
)
def test_what_makes_no_sense_is_refused(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make(overrides)
