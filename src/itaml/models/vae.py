"""Variational autoencoders (Kingma and Welling, ICLR 2014), for generative replay.

`Feedback` is the half behind the encoder: from features to a latent distribution, from latent variables to images. A
whole `VAE` is an MLP with a `Feedback`; replay through feedback puts one behind the classifier's own backbone.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from itaml.data.images import Shape
from itaml.errors import DataError
from itaml.models.backbones.mlp import mlp
from itaml.shares import Share


def kl_to_standard_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return KL(N(mean, variance) || N(0, 1)) of each row (n,), for independent coordinates."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)


def brightness(images: Tensor) -> Tensor:
    """Return pixels as floats from 0 to 1.

    Raises:
        DataError: float pixels that are not from 0 to 1, whose likelihood is not defined.
    """
    if images.dtype == torch.uint8:
        return images.float() / 255
    if len(images) and (float(images.min()) < 0 or float(images.max()) > 1):
        raise DataError("generative replay needs pixels from 0 to 255, or floats from 0 to 1")
    return images.float()


class Feedback(nn.Module):
    """A latent layer behind features, and a decoder.

    Args:
        features: how many there are.
        shape: of one image.
        hidden: widths of the decoder's layers, from the latent variables to the image.
        latent: how many latent variables there are.
    """

    def __init__(self, features: int, shape: Shape, *, hidden: tuple[int, ...], latent: int) -> None:
        super().__init__()
        self.shape = shape
        self.mean = nn.Linear(features, latent)
        self.log_variance = nn.Linear(features, latent)
        self.decoder = nn.Sequential(
            mlp((latent, 1, 1), hidden=hidden), nn.Linear((latent, *hidden)[-1], math.prod(shape))
        )

    def losses(self, features: Tensor, images: Tensor) -> Tensor:
        """Return minus the evidence lower bound of each image, per pixel (n,): reconstruction and KL."""
        mean, log_variance = self.mean(features), self.log_variance(features)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        logits, truth = self.decoder(latent), brightness(images).flatten(1)
        reconstruction = F.binary_cross_entropy_with_logits(logits, truth, reduction="none").sum(1)
        return (reconstruction + kl_to_standard_normal(mean, log_variance)) / truth.shape[1]

    @torch.no_grad()
    def sample(self, count: int, share: Share | None = None) -> Tensor:
        """Draw images (count, c, h, w) with pixels from 0 to 1, from torch's own generator; those of a share alone."""
        latent = torch.randn(count, self.mean.out_features, device=self.mean.weight.device)
        latent = latent if share is None else latent[share.own.to(latent.device)]
        images: Tensor = self.decoder(latent).sigmoid()
        return images.reshape(len(latent), *self.shape)


class VAE(nn.Module):
    """A symmetric autoencoder of images: an MLP and its feedback."""

    def __init__(self, shape: Shape, *, hidden: tuple[int, ...], latent: int) -> None:
        super().__init__()
        self.encoder = mlp(shape, hidden=hidden)
        self.feedback = Feedback(hidden[-1], shape, hidden=hidden[::-1], latent=latent)

    def losses(self, images: Tensor) -> Tensor:
        """Return the loss of each image (n,), see `Feedback.losses`."""
        return self.feedback.losses(self.encoder(brightness(images)), images)

    def sample(self, count: int, share: Share | None = None) -> Tensor:
        """Draw images, see `Feedback.sample`."""
        return self.feedback.sample(count, share)
