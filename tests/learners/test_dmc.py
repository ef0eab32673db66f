"""DMC: targets by hand, two stages, auxiliary images that are what they are said to be."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from itaml import seeding
from itaml.config import Compute, Seeds, build
from itaml.data.auxiliary import draw_strokes, open_auxiliary, read_auxiliary
from itaml.data.stream import TaskStream
from itaml.errors import DataError, SettingsError, UnknownNameError
from itaml.learners.batch import Progress
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.dmc import DMC, DMCSettings, double_targets
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from support import SHAPE


def learner_of(**settings: Any) -> Any:
    chosen: dict[str, Any] = {"epochs": 4, "batch_size": 8, "lr": 0.01, "optimizer": "adam", "auxiliary_images": 50}
    torch.manual_seed(0)
    model = Classifier(mlp(SHAPE, hidden=(8,)), shape=SHAPE)
    compute = Compute(device="cpu", precision="fp32")
    return GradientLearner(DMC, model, settings=DMCSettings(**chosen | settings), seeds=Seeds.of(0), compute=compute)


def test_double_distillation_targets_worked_by_hand() -> None:
    """Old logits 1, 2, 6 have mean 3; new logits 10, 20 have mean 15."""
    found = double_targets(torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[10.0, 20.0]]))
    assert found.tolist() == [[-2.0, -1.0, 3.0, -5.0, 5.0]]


def test_the_loss_of_consolidation_worked_by_hand(tiny_stream: TaskStream) -> None:
    learner = learner_of(student="old")
    learner.begin_task(tiny_stream[0])
    constant(learner.model, [4.0, 2.0])  # centred: 1, -1
    learner.begin_task(tiny_stream[1])
    assert learner.method.expert
    constant(learner.method.expert.model, [0.0, 6.0])  # centred: -3, 3
    constant(learner.model, [0.0, 0.0, 0.0, 1.0])
    learner.method.expert.model.eval()
    batch = learner.context.make_batch(*tiny_stream[1].train.load())
    assert learner.method.loss(batch).item() == pytest.approx((1 + 1 + 9 + 4) / 4)


def constant(model: Classifier, values: list[float]) -> None:
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.tensor(values))


def test_the_stages_train_one_network_each(tiny_stream: TaskStream) -> None:
    learner = learner_of(expert_share=0.5)
    learner.learn(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    assert learner.method.expert
    assert learner.recipe.teacher
    optimizer, batch = learner.trainer.optimizer(), learner.context.make_batch(*tiny_stream[1].train.load())
    networks = {"student": learner.model, "expert": learner.method.expert.model, "old": learner.recipe.teacher.model}
    for epoch, moving in [(0, "expert"), (1, "expert"), (2, "student"), (3, "student")]:
        before = {name: [p.clone() for p in network.parameters()] for name, network in networks.items()}
        learner.context.progress = Progress(1, epoch)
        learner.method.step(batch, optimizer)
        for name, network in networks.items():
            still = all(torch.equal(a, b) for a, b in zip(before[name], network.parameters(), strict=True))
            assert still == (name != moving), (epoch, name)


def test_consolidation_never_looks_at_the_task(tiny_stream: TaskStream) -> None:
    """In the second stage, other images in the batch give the same loss to the bit."""
    learner = learner_of()
    learner.learn(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    assert learner.method.expert
    learner.method.expert.model.eval()
    losses = []
    for images in (tiny_stream[1].train.load()[0], torch.zeros(20, *SHAPE, dtype=torch.uint8)):
        torch.manual_seed(3)
        losses.append(learner.method.loss(learner.context.make_batch(images, tiny_stream[1].train.labels)).item())
    assert losses[0] == losses[1]
    assert len(learner.memory) == 0


def test_the_student_starts_afresh_or_from_the_old_network(tiny_stream: TaskStream) -> None:
    for student, same in (("old", True), ("fresh", False)):
        learner = learner_of(student=student)
        learner.learn(tiny_stream[0])
        before = learner.model.state_dict()["backbone.1.weight"].clone()
        learner.begin_task(tiny_stream[1])
        assert torch.equal(learner.model.state_dict()["backbone.1.weight"], before) == same
        assert learner.method.expert
        assert not torch.equal(learner.method.expert.model.state_dict()["backbone.1.weight"], before)
        assert learner.method.expert.model.task_map.tasks == (tiny_stream[1].classes,)


def test_strokes_are_strokes_and_neither_noise_nor_blank() -> None:
    drawn_images = draw_strokes(200, shape=(1, 28, 28), generator=seeding.generator(0, "test")).float() / 255
    covered = (drawn_images > 0.5).float().mean((1, 2, 3))
    assert float(covered.quantile(0.05)) > 0.02
    assert float(covered.quantile(0.95)) < 0.5
    flat = drawn_images.flatten(1)
    neighbours = torch.corrcoef(torch.stack([drawn_images[..., :-1].flatten(), drawn_images[..., 1:].flatten()]))[0, 1]
    assert float(neighbours) > 0.8, "neighbouring pixels of noise are not alike"
    alike = torch.corrcoef(flat).fill_diagonal_(0)
    assert float(alike.max()) < 0.99, "no image twice"


def test_strokes_follow_their_seed_and_fit_any_shape() -> None:
    first, again, other = (
        draw_strokes(5, shape=(3, 8, 6), generator=seeding.generator(seed, "x")) for seed in (0, 0, 1)
    )
    assert first.shape == (5, 3, 8, 6)
    assert first.dtype == torch.uint8
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_data_set_can_be_named_and_is_fitted_to_the_images() -> None:
    images = open_auxiliary("digits", shape=(3, 12, 12))
    drawn_images = read_auxiliary(images, shape=(3, 12, 12), count=30, generator=seeding.generator(0, "x"))
    assert drawn_images.shape == (30, 3, 12, 12)
    assert drawn_images.dtype == torch.uint8
    assert int(drawn_images.max()) > 200


def test_impossible_sources_and_settings_are_refused_before_training() -> None:
    with pytest.raises(UnknownNameError, match="fashion-mnist-5"):
        learner_of(auxiliary="fashion-mnist")
    with pytest.raises(DataError):
        learner_of(auxiliary="folder:/nowhere/at/all")
    with pytest.raises(SettingsError, match="at least 2"):
        build(DMCSettings, {"epochs": 1})
    with pytest.raises(SettingsError, match="less than 1"):
        build(DMCSettings, {"expert_share": 1.0})
