"""Finetune, FixedRep, joint and replay."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from itaml.config import Compute, Seeds
from itaml.data.stream import TaskStream
from itaml.events import EpochDone
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.finetune import Finetune
from itaml.learners.methods.fixedrep import FixedRep
from itaml.learners.methods.joint import Joint
from itaml.learners.methods.replay import Replay
from itaml.learners.settings import MemorySettings, NoMemorySettings
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from support import SHAPE, same_bits


def learner_of(kind: Any, settings: Any, *, backbone: nn.Module | None = None) -> Any:
    torch.manual_seed(0)
    model = Classifier(backbone or mlp(SHAPE, hidden=(8,)), shape=SHAPE)
    return GradientLearner(
        kind, model, settings=settings, seeds=Seeds.of(0), compute=Compute(device="cpu", precision="fp32")
    )


def test_joint_on_one_task_equals_finetune(tiny_stream: TaskStream) -> None:
    joint, finetune = (learner_of(kind, NoMemorySettings(epochs=3)) for kind in (Joint, Finetune))
    joint.learn(tiny_stream[0])
    finetune.learn(tiny_stream[0])
    assert same_bits(dict(joint.model.state_dict()), dict(finetune.model.state_dict()))


def test_the_first_task_may_have_epochs_of_its_own(tiny_stream: TaskStream) -> None:
    """And the learning rate falls to the end of each task's own epochs."""
    done: list[EpochDone] = []
    learner = learner_of(Finetune, NoMemorySettings(epochs=2, first_epochs=4, schedule="cosine", lr=0.1))
    learner.callback = lambda event: done.append(event) if isinstance(event, EpochDone) else None
    for task in tiny_stream[:2]:
        learner.learn(task)
    assert [(event.task, event.epoch, event.epochs) for event in done] == [
        *((0, epoch, 4) for epoch in (1, 2, 3, 4)),
        *((1, epoch, 2) for epoch in (1, 2)),
    ]
    assert [round(event.lr, 4) for event in done] == [0.1, 0.0854, 0.05, 0.0146, 0.1, 0.05]  # of one batch an epoch


def test_joint_trains_on_everything_seen(tiny_stream: TaskStream) -> None:
    joint = learner_of(Joint, NoMemorySettings(epochs=1))
    for task in tiny_stream[:2]:
        joint.learn(task)
    seen = joint.with_exemplars(tiny_stream[2].train)
    assert torch.bincount(seen.labels).tolist() == [10] * 6
    images = {image.numpy().tobytes() for image in seen.load()[0]}
    assert images == {image.numpy().tobytes() for image in tiny_stream.dataset.train.load()[0]}


def test_fixedrep_leaves_features_and_old_rows_to_the_bit(tiny_stream: TaskStream) -> None:
    torch.manual_seed(1)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU())
    settings = NoMemorySettings(epochs=3, momentum=0.9, weight_decay=0.01, lr=0.05, clip=1.0)
    learner = learner_of(FixedRep, settings, backbone=backbone)
    learner.learn(tiny_stream[0])
    images = tiny_stream.test(0).load()[0]
    features, state = learner.predictor.features(images), {k: v.clone() for k, v in learner.model.state_dict().items()}
    learner.learn(tiny_stream[1])
    assert torch.equal(learner.predictor.features(images), features)
    after = learner.model.state_dict()
    assert all(torch.equal(after[name], state[name]) for name in state if "backbone" in name)
    assert torch.equal(after["head.weight"][:2], state["head.weight"])
    assert torch.equal(after["head.bias"][:2], state["head.bias"])
    assert not torch.equal(after["head.bias"][2:], torch.zeros(2))


def test_fixedrep_trains_features_in_the_first_task(tiny_stream: TaskStream) -> None:
    learner = learner_of(FixedRep, NoMemorySettings(epochs=1))
    before = learner.model.state_dict()["backbone.1.weight"].clone()
    learner.learn(tiny_stream[0])
    assert not torch.equal(learner.model.state_dict()["backbone.1.weight"], before)


def test_replay_trains_on_the_union_and_keeps_the_budget(tiny_stream: TaskStream) -> None:
    learner = learner_of(Replay, MemorySettings(epochs=1, memory=6))
    learner.learn(tiny_stream[0])
    assert torch.bincount(learner.with_exemplars(tiny_stream[1].train).labels).tolist() == [3, 3, 10, 10]
    learner.learn(tiny_stream[1])
    assert len(learner.memory) == 6


def test_balanced_replay_shows_old_tasks_as_often(tiny_stream: TaskStream) -> None:
    learner = learner_of(Replay, MemorySettings(epochs=1, memory=6, sampling="balanced"))
    learner.learn(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    images = learner.with_exemplars(tiny_stream[1].train)
    order = learner.trainer._order(images, torch.Generator().manual_seed(0))
    assert torch.bincount(learner.task_map.task_of(images.labels[order])).tolist() == [13, 13]


def test_learners_without_memory_keep_no_images(tiny_stream: TaskStream) -> None:
    learner = learner_of(Finetune, NoMemorySettings(epochs=1, memory=50))
    learner.learn(tiny_stream[0])
    assert len(learner.memory) == 0
    assert learner.state_dict()["memory"]["images"] == {}
