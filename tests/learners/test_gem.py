"""GEM's projection against scipy's solution of the primal programme."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from itaml.config import Compute, Seeds
from itaml.data.stream import TaskStream
from itaml.learners.batch import Batch
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.gem import GEM, GEMSettings, project
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from support import SHAPE


def draw(memories: int, size: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(memories, size, generator=generator, dtype=torch.float64)
    return torch.randn(size, generator=generator, dtype=torch.float64), rows


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("memories", [1, 2, 4])
def test_projection_is_scipys_optimum(memories: int, seed: int) -> None:
    gradient, rows = draw(memories, 6, seed)
    g, big_g = gradient.numpy(), rows.numpy()
    programme: Any = minimize  # its stubs know no constraints made of functions
    prediction = programme(
        lambda z: 0.5 * np.square(z - g).sum(),
        g,
        jac=lambda z: z - g,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda z: big_g @ z, "jac": lambda z: big_g},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(project(gradient, rows).numpy(), prediction.x, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("seed", range(5))
def test_projection_never_has_a_negative_product(seed: int, scale: float) -> None:
    gradient, rows = draw(5, 40, seed)
    rows = rows * scale
    rows[4] = rows[0] * 2  # two memories that ask for the same
    found = project(gradient.float(), rows.float())
    products = rows.float() @ found / (rows.float().norm(dim=1) * gradient.float().norm())
    assert float(products.min()) > -1e-5
    assert float((rows @ gradient).min()) < 0, "this case needs a projection"


def test_gradient_without_conflict_is_left_alone() -> None:
    gradient = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(project(gradient, torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), margin=0.5), gradient)


def test_margin_leans_towards_the_memories() -> None:
    # One memory along x and g = (-1, 1): v* = 1 gives (0, 1); a margin of 0.5 gives v = 1.5.
    gradient, memory = torch.tensor([-1.0, 1.0]), torch.tensor([[1.0, 0.0]])
    torch.testing.assert_close(project(gradient, memory), torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(project(gradient, memory, margin=0.5), torch.tensor([0.5, 1.0]))


def test_steps_do_not_raise_the_loss_of_a_memory(tiny_stream: TaskStream) -> None:
    torch.manual_seed(0)
    model = Classifier(mlp(SHAPE, hidden=(8,)), shape=SHAPE)
    settings = GEMSettings(memory=12, epochs=4, batch_size=5, lr=1e-3, margin=0.0)
    learner = GradientLearner(
        GEM, model, settings=settings, seeds=Seeds.of(0), compute=Compute(device="cpu", precision="fp32")
    )
    learner.learn(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    method = learner.method
    assert isinstance(method, GEM)
    assert not method.traits.rehearses, "memories are no training data"
    kept = method._memories()[0]
    memory = Batch(kept.images, kept.targets, kept.tasks)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = learner.context.make_batch(*tiny_stream[1].train.load())
    losses = [loss_of(learner, memory)]
    for _ in range(20):
        learner.method.step(dataclasses.replace(batch), optimizer)
        losses.append(loss_of(learner, memory))
    assert max(after - before for before, after in itertools.pairwise(losses)) < 1e-4
    assert loss_of(learner, batch) < 10


def loss_of(learner: GradientLearner, batch: Batch) -> float:
    return learner.method.loss(dataclasses.replace(batch, logits=None)).item()


def test_a_projected_gradient_has_the_layout_of_its_weights() -> None:
    """Fused optimizers pair gradients and weights by their place in memory."""
    model = Classifier(nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), shape=SHAPE)
    learner = GradientLearner(GEM, model, settings=GEMSettings(), seeds=Seeds.of(0), compute=Compute(device="cpu"))
    parameters = list(learner.model.parameters())
    gradient = torch.arange(float(sum(p.numel() for p in parameters)))
    learner.method._write(gradient)  # type: ignore[attr-defined]
    written = [p.grad for p in parameters if p.grad is not None]
    assert torch.equal(torch.cat([g.flatten() for g in written]), gradient)
    assert [g.stride() for g in written] == [p.stride() for p in parameters]
