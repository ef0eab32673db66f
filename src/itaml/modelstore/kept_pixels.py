"""The images that a model keeps, with what is known of each: to learn them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from itaml.config import Compute
from itaml.data.fitting import Fitting
from itaml.modelstore.duplicates import exemplars_of
from itaml.modelstore.exemplar_files import read_pixels
from itaml.modelstore.image_arrays import resized
from itaml.modelstore.image_reading import digests_of
from itaml.modelstore.loaded_model import Model, restored
from itaml.modelstore.manifest import Manifest, StoredImage
from itaml.modelstore.model_folder import ModelFolder, Version


@dataclass(frozen=True, eq=False)
class KeptPixels:
    """Images as pixels, by their class ids."""

    pixels: Tensor  # (n, c, h, w)
    labels: Tensor  # (n,)
    digests: Sequence[bytes]  # of the pixels that were learned
    stored: Sequence[StoredImage] = ()  # their files, where they can stay as they are

    def with_original_files(self, model: Model) -> Model:
        """Return a model that learned these images: it keeps the files that there are, not new ones of the same."""
        originals = {image.digest: image for image in self.stored}
        found = []
        for image in model.manifest.stored_images:
            old = originals.get(image.digest)
            same = None if old is None else {"sha256": old.sha256, "size": old.size}
            found.append(image if same is None else image.model_copy(update=same))
        manifest = model.manifest.model_copy(update={"stored_images": tuple(found)})
        named = {image.sha256 for image in found}
        return replace(model, manifest=manifest, files={k: data for k, data in model.files.items() if k in named})


def kept_pixels(folder: ModelFolder, version: Version, compute: Compute) -> KeptPixels:
    """Return the exemplars and validation images of a version; those in files need no learner to be read.

    Raises:
        CheckpointError: a file is missing or damaged.
        ItamlError: the images are in a learner that cannot be restored.
    """
    manifest = version.manifest
    assert manifest.shape is not None
    if manifest.stored_images:
        stored = manifest.stored_images
        pixels = read_pixels(folder, stored, manifest.shape, {})
        labels = torch.tensor([image.label for image in stored])
        return KeptPixels(pixels, labels, [bytes.fromhex(image.digest) for image in stored], stored)
    model = restored(f"{folder.path}: version {version.number}", manifest, version.state, compute)
    parts = [] if model.memory is None else list(exemplars_of(model.memory).items())
    if model.memory is not None:
        parts += list(model.validation_images.items())
    pixels = torch.cat([part for _, part in parts]) if parts else torch.empty(0, *manifest.shape)
    labels = torch.cat([torch.full((len(part),), label) for label, part in parts]) if parts else torch.empty(0)
    return KeptPixels(pixels, labels.long(), digests_of(pixels))


def resized_to(kept: KeptPixels, old: Manifest, new: Manifest) -> KeptPixels:
    """Return images in the shape of another model; what the old one cut off cannot be brought back."""
    assert old.shape is not None
    assert new.shape is not None
    crop = min(1.0, new.crop / old.crop)
    if old.shape == new.shape and crop == 1:
        return kept
    pixels = resized(kept.pixels, *new.shape[1:], Fitting(new.interpolation, crop))
    return KeptPixels(pixels, kept.labels, digests_of(pixels))
