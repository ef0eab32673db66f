"""More images of classes that are known already, with and without batch normalisation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from itaml.config import Compute, Seeds, build
from itaml.data.stream import Task, TaskStream
from itaml.learners import LEARNERS
from itaml.learners.learner import GradientLearner
from itaml.models.classifier import Classifier
from support import SHAPE


def learner_of(name: str) -> Any:
    kind = LEARNERS.load(name)
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten()]
    model = Classifier(nn.Sequential(*layers), shape=SHAPE)
    if not kind.traits.trains_gradients:
        settings = build(kind.Settings, {"memory": 60})
        return kind.from_settings(settings, shape=SHAPE, seeds=Seeds.of(0))
    values = {"memory": 60, "epochs": 2, "batch_size": 8, "lr": 0.01, "optimizer": "adam"}
    if "horizon" in kind.Settings.model_fields:
        values["horizon"] = 10
    compute = Compute(device="cpu", precision="fp32")
    return GradientLearner(kind, model, settings=build(kind.Settings, values), seeds=Seeds.of(0), compute=compute)


@pytest.mark.parametrize("name", LEARNERS.names())
def test_more_images_of_known_classes_are_learned(name: str, tiny_stream: TaskStream) -> None:
    """A class that had two images gets the rest of them, and is then named at least as often."""
    learner = learner_of(name)
    first = tiny_stream[0]
    few = torch.cat([(first.train.labels == c).nonzero().flatten()[:2] for c in first.classes])
    learner.learn(Task(0, first.classes, first.train.select(few)))
    learner.learn(tiny_stream[1])
    tested = tiny_stream.test(0).load()

    def right() -> float:
        return float(
            (learner.class_scores(tested[0]).argmax(1) == learner.task_map.column_of(tested[1])).float().mean()
        )

    before, task_map = right(), learner.task_map
    learner.learn(Task(2, (), first.train))
    assert learner.task_map == task_map
    assert right() >= before
    learner.learn(Task(3, tiny_stream[2].classes, tiny_stream[2].train))
    assert len(learner.task_map) == 3
