"""Train the learner of a model on images that arrive, and measure it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from itaml.config import Compute
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.errors import DataError
from itaml.events import Callback
from itaml.learners.left_out import can_leave_out
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.memory.buffer import Memory
from itaml.models.task_map import TaskMap
from itaml.modelstore import stored_images, validation
from itaml.modelstore.accuracy import (
    accuracy,
    left_out,
    left_out_accuracy,
    right_by_class,
    task_accuracies,
    task_scores,
)
from itaml.modelstore.confidence import fit_confidence
from itaml.modelstore.defaults import default_epochs
from itaml.modelstore.duplicates import Known, remove_exemplars, without
from itaml.modelstore.learn_checkpoint import LearnCheckpoint, learn_key
from itaml.modelstore.learned_images import LearnedImages
from itaml.modelstore.loaded_model import Model, build_settings, image_memory, make_learner
from itaml.modelstore.manifest import TaskScore
from itaml.modelstore.network_memory import check_memory
from itaml.modelstore.pixels import BYTES
from itaml.modelstore.stored_images import ArrivingImages


@dataclass(frozen=True, eq=False)
class Arriving:
    """The images of a learn under the model's class ids, without duplicates."""

    classes: tuple[str, ...]  # all classes after the learn, by class id
    present: frozenset[str]  # classes of which an image could be read
    images: ImageSet
    digests: Sequence[bytes]  # of `images`
    known: Known

    @property
    def keys(self) -> Tensor:
        """Numbers (n,) by which the validation split is made and exemplars of statistics learners are chosen."""
        return torch.tensor([int.from_bytes(digest[:7], "big") for digest in self.digests], dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model after training, and what was measured."""

    model: Model
    labels: Tensor  # (n,) of the images that were learned
    validation_images: int
    validation: float | None  # accuracy on the new data
    scores: tuple[TaskScore, ...]


def train(
    model: Model,
    arriving: Arriving,
    *,
    epochs: int | None,
    compute: Compute,
    callback: Callback,
    checkpoint: LearnCheckpoint | None = None,
) -> Trained:
    """Learn the images that arrive; the model given is used up. `epochs` of None is what the model was made with.

    Raises:
        ItamlError: the images cannot be learned.
    """
    model = _configured(model, arriving, epochs=epochs, compute=compute)
    images, rows = model.sample_set(arriving.images, callback)
    keys, digests = arriving.keys[rows], [arriving.digests[row] for row in rows.tolist()]
    exact = can_leave_out(model.core)
    least = validation.MIN_IMAGES_WITH_LEAVE_ONE_OUT if exact else validation.MIN_IMAGES_TO_SPLIT
    held = validation.for_validation(images.labels, keys, least=least)
    samples = ArrivingImages(arriving.images.select(rows), images, digests, held)
    model = _without_stale(model, samples, arriving.known)
    old_map, manifest = model.task_map, model.manifest
    new = tuple(range(len(manifest.classes), len(arriving.classes)))
    task_map = old_map.grown(new) if new else old_map
    share = validation.validation_share(manifest.options.memory, len(arriving.classes))
    if exact and not (bool(held.any()) or model.validation_images):
        share = 0
    before = task_accuracies(model.core, model.validation_images, old_map)
    _set_budget(model, manifest.options.memory - share * len(arriving.classes))
    key = learn_key(model.manifest, arriving.classes, digests, precision=_precision(model))
    with (checkpoint or LearnCheckpoint(None)).resuming(model.core, key, callback):
        model.core.learn(Task(len(old_map), new, images.select((~held).nonzero().flatten()), keys[~held]))
    model = replace(model, learned=_learned(model, samples))
    done = _keep(model, samples, share=share, classes=len(arriving.classes))
    done = replace(done, confidence=fit_confidence(done.core, done.validation_images))
    return _measured(model, done, samples, task_map, before)


def _configured(model: Model, arriving: Arriving, *, epochs: int | None, compute: Compute) -> Model:
    """Return the model with a learner of the settings for this learn."""
    manifest, changes = model.manifest, {}
    if "epochs" in manifest.settings:
        changes["epochs"] = _epochs(model, len(arriving.images)) if epochs is None else epochs
    settings = build_settings(manifest, **changes)
    if model.learner is None:
        check_memory(manifest, settings)
    learner = model.learner or make_learner(manifest, settings, compute)
    model = replace(
        model, learner=learner, manifest=manifest.model_copy(update={"settings": settings.model_dump(mode="json")})
    )
    configure = getattr(model.core, "configure", None)
    if configure is not None:
        configure(settings)
    return model


def _epochs(model: Model, images: int) -> int:
    options = model.manifest.options
    if "epochs" in options.settings:
        return int(options.settings["epochs"])
    train = images - round(validation.VALIDATION_SHARE * images)
    return default_epochs(options, train + sum(model.exemplar_counts.values()))


def _set_budget(model: Model, budget: int) -> None:
    memory = getattr(model.core, "memory", None)
    if isinstance(memory, Memory) and memory.budget:
        memory.budget = budget


def _precision(model: Model) -> str:
    context = getattr(model.core, "context", None)
    return "bf16" if getattr(context, "bf16", False) else "fp32"


def _without_stale(model: Model, samples: ArrivingImages, known: Known) -> Model:
    """Remove what was stored of images that came again under another class."""
    if not known.stale:
        return model
    memory, learned = image_memory(model.ready), model.learned.without(known.stale)
    if memory is None or isinstance(model.core, StatisticsLearner):
        _unlearn(model, samples, known)
    if memory is not None:
        remove_exemplars(memory, known.stale)
        kept = without(model.validation_images, known.stale)
        return replace(model, validation_images=kept, learned=learned)
    stored, validation_images = stored_images.without_stale(
        model.manifest.stored_images, model.validation_images, known.stale
    )
    manifest = model.manifest.model_copy(update={"stored_images": stored})
    return replace(model, manifest=manifest, validation_images=validation_images, learned=learned)


def _unlearn(model: Model, samples: ArrivingImages, known: Known) -> None:
    """Have a learner that can do so undo the learning of images that came again under another class."""
    remove_images = getattr(model.core, "remove_images", None)
    if remove_images is None:
        return
    stored = model.manifest.stored_images
    learned = {(image.label, bytes.fromhex(image.digest)) for image in stored if image.kind == "exemplar"}
    learned |= set(model.learned.pairs())
    rows = {digest: row for row, digest in enumerate(samples.digests)}
    for label in sorted({label for label, _ in known.stale}):
        own = [rows[d] for old, d in known.stale if old == label and d in rows and (old, d) in learned]
        if own:
            try:
                remove_images(samples.samples.batch(torch.tensor(own))[0], torch.full((len(own),), label))
            except DataError:  # all that is known of a class: it stays, because others may still ask for it
                continue


def _learned(model: Model, samples: ArrivingImages) -> LearnedImages:
    """Return the images that a learner of sums has learned, which must not be learned twice."""
    if not isinstance(model.core, StatisticsLearner):
        return model.learned
    rows = (~samples.validation).nonzero().flatten()
    return model.learned.with_images([samples.digests[row] for row in rows.tolist()], samples.samples.labels[rows])


def _keep(model: Model, samples: ArrivingImages, *, share: int, classes: int) -> Model:
    """Return the model with the images that it keeps after a learn."""
    manifest = model.manifest
    if image_memory(model.ready) is not None or manifest.pixels != BYTES:
        fresh = samples.samples.select(samples.validation.nonzero().flatten())
        kept = validation.refresh(
            model.validation_images, fresh, share=share, seed=manifest.options.seed, learn=len(manifest.learns)
        )
        return replace(model, validation_images=kept)
    found = stored_images.refresh(
        manifest.stored_images,
        model.validation_images,
        samples,
        classes=classes,
        budget=manifest.options.memory,
        share=share,
    )
    manifest = manifest.model_copy(update={"stored_images": found.stored})
    return replace(model, manifest=manifest, validation_images=found.validation, files=found.files)


def _measured(
    before: Model, done: Model, samples: ArrivingImages, task_map: TaskMap, accuracies: list[float | None]
) -> Trained:
    held = samples.samples.select(samples.validation.nonzero().flatten())
    labels = samples.samples.labels[~samples.validation]
    exemplars = left_out(done.core)
    learns = done.manifest.learns
    scores = task_scores(
        done.core,
        task_map,
        before.validation_images,
        done.validation_images,
        accuracies,
        exemplars,
        learns[-1].tasks if learns else (),
    )
    found = accuracy(done.core, held)
    if found is None:
        found = left_out_accuracy(right_by_class(exemplars), torch.unique(labels).tolist())[1]
    return Trained(done, labels, len(held), found, scores)
