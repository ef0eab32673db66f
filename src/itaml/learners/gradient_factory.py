"""Make a `GradientLearner` from settings: on a network trained as a whole, or on the features of a frozen backbone."""

from __future__ import annotations

from itaml import seeding
from itaml.config import Compute, Seeds
from itaml.data.images import Shape
from itaml.errors import SettingsError
from itaml.learners.api import Learner
from itaml.learners.frozen import on_features
from itaml.learners.learner import GradientLearner
from itaml.learners.method import Method
from itaml.learners.settings import TrainingSettings
from itaml.models import backbone_traits
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier, build_classifier
from itaml.models.pretrained import trainable_backbone


def gradient_learner(
    method: type[Method], settings: TrainingSettings, *, shape: Shape, seeds: Seeds, compute: Compute | None
) -> Learner:
    """Return a learner for images of `shape`: on the frozen features of a pretrained backbone, or trained as a whole.

    Raises:
        SettingsError: a setting for pretrained backbones is given for another one, or memory_bytes for features.
    """
    pretrained = backbone_traits(settings.backbone).pretrained
    if not pretrained and (settings.tune != "none" or settings.adapter):
        raise SettingsError(f"tune and adapter are for pretrained backbones, and {settings.backbone} is not one")
    if pretrained and settings.tune == "none":
        _check_frozen(settings)

    def make(inner: Shape) -> GradientLearner:
        model = _classifier(settings, inner, seeds.init, frozen=pretrained and settings.tune == "none")
        return GradientLearner(method, model, settings=settings, seeds=seeds, compute=compute)

    if settings.tune != "none":
        return make(shape)
    return on_features(settings, make, shape=shape, compute=compute)


def _check_frozen(settings: TrainingSettings) -> None:
    if settings.memory_bytes:
        raise SettingsError("a frozen backbone keeps features, which are no images: set memory instead of memory_bytes")
    if settings.task_distance != "none":
        raise SettingsError("task_distance is for networks that are trained: set task_distance=none, or use lda")


def _classifier(settings: TrainingSettings, shape: Shape, seed: int, *, frozen: bool) -> Classifier:
    if frozen:
        with seeding.seeded(seed, "init", "backbone"):
            return Classifier(mlp(shape, hidden=(settings.adapter,) if settings.adapter else ()), shape=shape)
    if settings.tune == "none":
        return build_classifier(settings.backbone, shape=shape, seed=seed)
    backbone = trainable_backbone(settings.backbone, tune=settings.tune)
    preprocessing = backbone.spec.preprocessing
    model = Classifier(backbone.network, shape=shape)
    model.fix_normalization(preprocessing.mean, preprocessing.std)
    return model
