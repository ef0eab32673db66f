"""What a model becomes when it is learned again with another backbone or method: options, shape and settings."""

from __future__ import annotations

from itaml.config import Compute
from itaml.errors import DataError, SettingsError, UsageError
from itaml.learners.compute import pick_device
from itaml.modelstore.defaults import ImageStatistics, are_photos, choose, default_settings
from itaml.modelstore.inputs import KEPT_SIDE
from itaml.modelstore.loaded_model import factory
from itaml.modelstore.manifest import Manifest, Options
from itaml.modelstore.pixels import BYTES


def rebased_manifest(
    manifest: Manifest, *, backbone: str | None, method: str | None, compute: Compute
) -> tuple[Manifest, tuple[str, ...]]:
    """Return the record of a model that has yet to learn its classes again, and notes.

    Raises:
        UsageError: there is nothing to change.
        DataError: nothing was learned, or the pixels are not what the backbone takes.
        UnknownNameError: there is no such backbone or method.
        SettingsError: the two do not go together.
    """
    if backbone is None and method is None:
        raise UsageError("name a backbone or a method to learn the model again with")
    if manifest.shape is None or manifest.pixels is None or not manifest.classes:
        raise DataError("the model has not learned anything yet; give the backbone to its first `itaml learn`")
    options, notes = _options(manifest, backbone, method)
    height, width = manifest.shape[1:]
    images = len(manifest.stored_images) or options.memory
    photos = are_photos(min(height, width), grey=manifest.shape[0] == 1, pixels=manifest.pixels)
    statistics = ImageStatistics(images, min(height, width), manifest.shape[0] == 1, photos)
    choice = choose(options, statistics, gpu=pick_device(compute).type != "cpu")
    if choice.pretrained and manifest.pixels != BYTES:
        raise DataError(f"{choice.backbone} takes images of 8-bit pixels, and this model was made with floats")
    same = choice.backbone == manifest.settings.get("backbone")
    small = not choice.pretrained and options.image_size is None and max(height, width) <= KEPT_SIDE
    shape = manifest.shape if same or small else (manifest.shape[0], choice.image_size, choice.image_size)
    fitting = manifest.fitting if same else choice.fitting
    settings = default_settings(options, choice, statistics, shape).model_dump(mode="json")
    if same and choice.method == manifest.method:
        raise UsageError(f"the model is {choice.method} on {choice.backbone} already; nothing would change")
    fresh = {
        "options": options, "method": choice.method, "settings": settings, "shape": shape,
        "interpolation": fitting.interpolation, "crop": fitting.crop,
        "classes": (), "tasks": (), "stored_images": (), "files": {},
    }  # fmt: skip
    return manifest.model_copy(update=fresh), notes


def _options(manifest: Manifest, backbone: str | None, method: str | None) -> tuple[Options, tuple[str, ...]]:
    """Return the options of the new model; overrides of settings that it does not have are left out."""
    method = method or manifest.method
    fields = factory(method).Settings.model_fields
    backbone = backbone or manifest.settings.get("backbone")
    if "backbone" not in fields:
        if backbone is not None and backbone != manifest.settings.get("backbone"):
            raise SettingsError(f"{method} has no backbone to choose: leave out {backbone}")
        backbone = None
    own = {name: value for name, value in manifest.options.settings.items() if name != "backbone"}
    kept = {name: value for name, value in own.items() if name in fields}
    gone = sorted(set(own) - set(kept))
    notes = (f"{method} has no setting {', '.join(gone)}, which the model was made with",) if gone else ()
    changes = {"method": method, "backbone": backbone, "settings": kept}
    return manifest.options.model_copy(update=changes), notes
