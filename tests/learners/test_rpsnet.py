"""RPS-net: who trains, who is frozen, how many weights, and when paths run out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from itaml.config import Compute, Seeds, build
from itaml.data.stream import TaskStream
from itaml.errors import SettingsError
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.rpsnet import RPSNet, RPSNetSettings
from itaml.models.backbones.mlp import mlp
from itaml.models.backbones.resnet import BasicBlock, resnet18_small
from itaml.models.classifier import Classifier
from itaml.models.path_network import PathNetwork
from support import SHAPE, synthetic_stream


def learner_of(backbone: nn.Module | None = None, **settings: Any) -> Any:
    chosen: dict[str, Any] = {
        "epochs": 1,
        "batch_size": 8,
        "lr": 0.05,
        "momentum": 0.9,
        "weight_decay": 0.01,
        "memory": 40,
    }
    torch.manual_seed(0)
    model = Classifier(backbone or mlp(SHAPE, hidden=(7, 5)), shape=SHAPE)
    compute = Compute(device="cpu", precision="fp32")
    return GradientLearner(
        RPSNet, model, settings=RPSNetSettings(**chosen | settings), seeds=Seeds.of(0), compute=compute
    )


def modules_of(learner: Any) -> dict[tuple[int, int], dict[str, torch.Tensor]]:
    return {
        (row, column): {name: value.clone() for name, value in module.state_dict().items()}
        for row, layer in enumerate(learner.method.paths.layers)
        for column, module in enumerate(layer.children())
    }


def convolving() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 2), nn.ReLU(), nn.Flatten())


@pytest.mark.parametrize("make", [lambda: mlp(SHAPE, hidden=(7, 5)), convolving])
def test_only_new_modules_train_and_all_others_stay_to_the_bit(make: Any, tiny_stream: TaskStream) -> None:
    learner = learner_of(make(), modules=3)
    for task in tiny_stream:
        before, used = modules_of(learner), learner.method.paths.used.clone()
        learner.learn(task)
        after = modules_of(learner)
        new = learner.method.paths.used & ~used
        assert bool(new.any())
        assert torch.equal(new, learner.method.paths.open)
        for place, values in after.items():
            same = all(torch.equal(values[name], before[place][name]) for name in values)
            assert same == (not bool(new[place])), place


def test_the_number_of_trained_weights_is_that_of_the_new_modules_and_the_head(tiny_stream: TaskStream) -> None:
    learner = learner_of(modules=3)
    sizes = torch.tensor([16 * 7 + 7, 7 * 5 + 5])  # of a module of each layer
    for task in tiny_stream:
        used = learner.method.paths.used.clone()
        learner.begin_task(task)
        new = (learner.method.paths.used & ~used).sum(1)
        head = len(learner.task_map.classes) * (5 + 1)
        assert sum(p.numel() for p in learner.method.param_groups()) == int((new * sizes).sum()) + head
        assert sum(p.requires_grad for p in learner.method.paths.parameters()) == 2 * int(new.sum())
    total = sum(p.numel() for p in learner.method.paths.parameters())
    assert total == 3 * int(sizes.sum()), "all modules are there from the start"


def test_the_first_path_is_the_backbone_itself(tiny_stream: TaskStream) -> None:
    backbone = mlp(SHAPE, hidden=(7, 5))
    images = torch.randn(3, *SHAPE)
    expected = backbone(images)
    learner = learner_of(backbone, modules=4)
    learner.begin_task(tiny_stream[0])
    assert torch.equal(learner.method.paths(images), expected)
    assert learner.method.paths.used[:, 0].all()
    assert int(learner.method.paths.used.sum()) == 2


def test_modules_of_all_paths_add_up() -> None:
    torch.manual_seed(0)
    network = PathNetwork(nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.ReLU()), modules=3)
    network.take([0])
    network.take([2])
    images = torch.randn(4, *SHAPE)
    first, _, third = network.layers[0].children()
    torch.testing.assert_close(network(images), first(images.flatten(1)) + third(images.flatten(1)))
    assert network.open.tolist() == [[False, False, True]]


def test_residuals_of_all_paths_add_up_to_one_shortcut() -> None:
    torch.manual_seed(0)
    backbone = nn.Sequential(BasicBlock(1, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    images = torch.randn(4, *SHAPE)
    alone = backbone(images)
    network = PathNetwork(backbone, modules=3).eval()
    network.take([0])
    torch.testing.assert_close(network(images), alone)
    network.take([2])
    blocks = [block for block in network.modules() if isinstance(block, BasicBlock)]
    summed = blocks[0].shortcut(images) + blocks[0].residual(images) + blocks[2].residual(images)
    torch.testing.assert_close(network(images), summed.relu().mean((2, 3)))
    assert [len(list(block.shortcut.parameters())) for block in blocks] == [3, 0, 0]


def test_a_new_path_changes_the_features_of_a_resnet_little() -> None:
    """With a shortcut in every module they grow to 40 times their length, and old classes are lost."""
    torch.manual_seed(0)
    network = PathNetwork(resnet18_small((3, 16, 16)), modules=2)
    network.take([0] * len(network.layers))
    images = torch.randn(64, 3, 16, 16)
    network(images)  # sets batch-norm statistics
    before = network.eval()(images).norm()
    network.take([1] * len(network.layers))
    assert network.eval()(images).norm() < 4 * before


def test_a_path_lasts_for_j_tasks_and_after_m_paths_the_last_goes_on_training() -> None:
    """J = 2, M = 2: new paths at tasks 0 and 2, and none at 4, where the path of task 2 is still open."""
    learner = learner_of(path_tasks=2, modules=2, memory=60)
    opened = []
    for task in synthetic_stream((1,) * 6):
        learner.learn(task)
        opened.append(learner.method.paths.open.clone())
    assert torch.equal(opened[0], opened[1])
    assert not torch.equal(opened[1], opened[2])
    assert all(torch.equal(opened[2], later) for later in opened[3:])
    assert bool(opened[2].any())


def test_paths_follow_the_seed_and_have_a_new_module() -> None:
    network = PathNetwork(mlp(SHAPE, hidden=(3, 3)), modules=2)
    network.take([0, 0])
    for seed in range(20):
        path = network.draw(torch.Generator().manual_seed(seed))
        assert path == network.draw(torch.Generator().manual_seed(seed))
        assert path != [0, 0]


def test_phi_is_as_stated(tiny_stream: TaskStream) -> None:
    learner = learner_of(path_tasks=1, rigidness=2.5)
    weights = []
    for task in tiny_stream:
        learner.begin_task(task)
        weights.append(learner.method.phi())
    assert weights == [1.0, 1.0, 2.5]


def test_the_teacher_answers_by_the_paths_that_it_had(tiny_stream: TaskStream) -> None:
    learner = learner_of(modules=4)
    learner.learn(tiny_stream[0])
    images = tiny_stream[1].train.load()[0]
    before = learner.class_scores(images)
    learner.begin_task(tiny_stream[1])
    assert torch.equal(learner.recipe.teacher.logits(images), before)


def test_impossible_networks_and_settings_are_refused() -> None:
    class Own(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1)

    with pytest.raises(SettingsError, match="sequence of layers, not a Own"):
        learner_of(Own())
    for name, value in (("modules", 0), ("path_tasks", 0), ("rigidness", -1)):
        with pytest.raises(SettingsError, match=name):
            build(RPSNetSettings, {name: value})
