"""Remove classes for good: from the version in use, from the one before it, and from the history of both."""

from __future__ import annotations

import logging
from dataclasses import replace

from itaml.errors import CheckpointError, UsageError
from itaml.modelstore.class_editing import forget
from itaml.modelstore.file_checks import UnreadableError
from itaml.modelstore.history import without_mention
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.manifest import EditRecord, Manifest
from itaml.modelstore.model_folder import ModelFolder, Version
from itaml.modelstore.version_writer import rollback_target

logger = logging.getLogger(__name__)


def earlier_version(folder: ModelFolder) -> Version | None:
    """Return the version that `rollback` would return to, None if there is none.

    Raises:
        CheckpointError: the disk does not let it be read.
    """
    try:
        return rollback_target(folder)[1]
    except UnreadableError:
        raise
    except (UsageError, CheckpointError) as error:
        logger.info("there is no earlier version: %s", error)
        return None


def known_classes(manifest: Manifest, earlier: Version | None) -> tuple[str, ...]:
    """Return the classes that can be purged: those of a model, and those that the last change has made it forget."""
    edits = _edits_since(manifest, earlier)
    forgotten = earlier is not None and any(edit.action == "forget" for edit in edits)
    return tuple(dict.fromkeys([*manifest.classes, *(earlier.manifest.classes if earlier and forgotten else ())]))


def under_same_names(manifest: Manifest, earlier: Version, names: frozenset[str]) -> bool:
    """Whether an earlier version has the images of some classes under the same names: not if they were corrected."""
    edits = _edits_since(manifest, earlier)
    return not any(edit.action != "forget" and names.intersection(edit.classes) for edit in edits)


def _edits_since(manifest: Manifest, earlier: Version | None) -> tuple[EditRecord, ...]:
    return manifest.edits[len(earlier.manifest.edits) :] if earlier is not None else manifest.edits


def purged(model: Model, names: frozenset[str]) -> Model:
    """Return a model without some classes, of which it may not know all, and without a mention of them."""
    known = [name for name in model.manifest.classes if name in names]
    done = forget(model, known) if known else model
    return replace(done, manifest=without_mention(done.manifest, names))
