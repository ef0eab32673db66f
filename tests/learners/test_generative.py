"""DGR and RtF: the autoencoder's loss against torch.distributions, eq. 1 by hand, who moves and who does not."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Bernoulli, Normal, kl_divergence

from itaml.config import Compute, Seeds
from itaml.data.stream import TaskStream
from itaml.errors import DataError
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.dgr import DGR, DGRSettings
from itaml.learners.methods.rtf import RtF, RtFSettings
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from itaml.models.vae import VAE, brightness, kl_to_standard_normal
from support import SHAPE


def learner_of(kind: Any, **settings: Any) -> Any:
    chosen = {"generator_hidden": (12, 8), "latent": 3, "epochs": 2, "batch_size": 8, "lr": 0.01, "optimizer": "adam"}
    torch.manual_seed(0)
    model = Classifier(mlp(SHAPE, hidden=(8,)), shape=SHAPE)
    compute = Compute(device="cpu", precision="fp32")
    return GradientLearner(kind, model, settings=kind.Settings(**chosen | settings), seeds=Seeds.of(0), compute=compute)


def test_kl_is_that_of_torch_distributions() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = (torch.randn(50, 7, generator=generator, dtype=torch.float64) for _ in range(2))
    expected = kl_divergence(Normal(mean, (0.5 * log_variance).exp()), Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(kl_to_standard_normal(mean, log_variance), expected, rtol=1e-12, atol=1e-12)
    assert kl_to_standard_normal(torch.zeros(1, 7), torch.zeros(1, 7)).item() == 0


def test_the_loss_is_minus_the_evidence_lower_bound_a_pixel() -> None:
    torch.manual_seed(0)
    vae, images = VAE(SHAPE, hidden=(6, 5), latent=3), torch.randint(0, 256, (4, *SHAPE)).to(torch.uint8)
    torch.manual_seed(1)
    found = vae.losses(images)
    torch.manual_seed(1)
    features = vae.encoder(images.float() / 255)
    posterior = Normal(vae.feedback.mean(features), (0.5 * vae.feedback.log_variance(features)).exp())
    image = Bernoulli(logits=vae.feedback.decoder(posterior.rsample()), validate_args=False)
    evidence = image.log_prob((images.float() / 255).flatten(1)).sum(1) - kl_divergence(
        posterior, Normal(0.0, 1.0)
    ).sum(1)
    torch.testing.assert_close(found, -evidence / 16, rtol=1e-5, atol=1e-6)


def test_an_autoencoder_learns_to_draw() -> None:
    """Images that are white on one half: after training, samples are white there and black on the other half."""
    torch.manual_seed(0)
    images = torch.zeros(32, *SHAPE)
    images[:, :, :2] = 1
    vae = VAE(SHAPE, hidden=(16,), latent=2)
    optimizer = torch.optim.Adam(vae.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        vae.losses(images).mean().backward()
        optimizer.step()
    drawn = vae.sample(20)
    assert drawn.shape == (20, *SHAPE)
    assert float(drawn[:, :, :2].min()) > 0.9
    assert float(drawn[:, :, 2:].max()) < 0.1


def test_float_pixels_outside_0_and_1_are_refused() -> None:
    with pytest.raises(DataError, match="floats from 0 to 1"):
        brightness(torch.full((1, *SHAPE), 1.5))


def constant_logits(learner: Any, values: list[float]) -> None:
    with torch.no_grad():
        learner.model.head.weight.zero_()
        learner.model.head.bias.copy_(torch.tensor(values))


@pytest.mark.parametrize("kind", [DGR, RtF])
def test_eq_1_worked_by_hand(kind: Any, tiny_stream: TaskStream) -> None:
    """Third task, constant logits: r = 1/3 of the new loss, 2/3 of the replayed one; the generator's loss is apart."""
    learner = learner_of(kind)
    learner.begin_task(tiny_stream[0])
    learner.begin_task(tiny_stream[1])
    constant_logits(learner, [2 * math.log(3), 0.0, -100.0, -100.0])  # at T = 2: 3/4, 1/4, 0, 0
    learner.begin_task(tiny_stream[2])
    constant_logits(learner, [0.0] * 6)
    batch = learner.context.make_batch(*tiny_stream[2].train.load())
    generative: list[float] = []
    original = learner.method.replayer.generator.losses

    def watched(*arguments: Any) -> torch.Tensor:
        losses: torch.Tensor = original(*arguments)
        generative.append(float(losses.detach().mean()))
        return losses

    learner.method.replayer.generator.losses = watched
    found = learner.method.loss(batch).item()
    factor = 4 if kind is RtF else 1  # T squared; uniform answers cost log 6 with any labels
    new, replayed = math.log(6) + generative[0], factor * math.log(6) + generative[1]
    assert found == pytest.approx(new / 3 + 2 * replayed / 3, rel=1e-5)


def test_hard_and_soft_labels_of_replayed_images(tiny_stream: TaskStream) -> None:
    """The former solver says 3/4 and 1/4 at T = 2; the solver says 1/2, 1/4, 1/8, 1/8 at T = 1."""
    predictions = [math.log(4), math.log(2), 0.0, 0.0]
    losses = {}
    for labels in ("hard", "soft"):
        learner = learner_of(DGR, labels=labels)
        learner.begin_task(tiny_stream[0])
        constant_logits(learner, [2 * math.log(3), 0.0])
        learner.begin_task(tiny_stream[1])
        constant_logits(learner, predictions)
        learner.method.replayer.generator.losses = lambda images: torch.zeros(len(images))
        losses[labels] = learner.method._replay_loss(learner.method.replayer.former.sample(5)).item()
    softened = F.log_softmax(torch.tensor(predictions) / 2, dim=0)
    assert losses["hard"] == pytest.approx(math.log(2), rel=1e-6)
    by_hand = -4 * float(0.75 * softened[0] + 0.25 * softened[1])  # 4 is T squared
    assert losses["soft"] == pytest.approx(by_hand, rel=1e-6)


def test_solver_and_generator_of_dgr_do_not_move_each_other(tiny_stream: TaskStream) -> None:
    learner = learner_of(DGR)
    learner.begin_task(tiny_stream[0])
    batch = learner.context.make_batch(*tiny_stream[0].train.load())
    alone = torch.autograd.grad(
        F.cross_entropy(learner.context.forward(batch.images), batch.targets), learner.model.parameters()
    )
    both = torch.autograd.grad(learner.method.loss(batch), learner.model.parameters())
    assert all(torch.equal(left, right) for left, right in zip(alone, both, strict=True))


def test_the_backbone_of_rtf_learns_to_reconstruct(tiny_stream: TaskStream) -> None:
    learner = learner_of(RtF)
    learner.begin_task(tiny_stream[0])
    batch = learner.context.make_batch(*tiny_stream[0].train.load())
    generative = learner.method._both(batch.images)[1]
    gradients = torch.autograd.grad(generative, list(learner.model.backbone.parameters()))
    assert all(float(gradient.abs().max()) > 0 for gradient in gradients)


@pytest.mark.parametrize("kind", [DGR, RtF])
def test_the_former_self_stays_as_it_was_to_the_bit(kind: Any, tiny_stream: TaskStream) -> None:
    learner = learner_of(kind)
    learner.learn(tiny_stream[0])
    before = {name: value.clone() for name, value in learner.method.replayer.generator.state_dict().items()}
    learner.begin_task(tiny_stream[1])
    batch = learner.context.make_batch(*tiny_stream[1].train.load())
    learner.method.step(batch, learner.trainer.optimizer())
    assert all(torch.equal(value, before[name]) for name, value in learner.method.replayer.former.state_dict().items())
    assert any(
        not torch.equal(value, before[name]) for name, value in learner.method.replayer.generator.state_dict().items()
    )
    learner.method.end_task(tiny_stream[1])
    assert learner.method.replayer.former is None
    assert len(learner.memory) == 0


def test_settings_have_the_published_sizes() -> None:
    for settings in (DGRSettings(), RtFSettings()):
        assert settings.generator_hidden == (400, 400)
        assert (settings.latent, settings.temperature) == (100, 2.0)
