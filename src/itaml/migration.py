"""Names of version 0.1 in files, and what they are called now.

Old files stay readable: the settings in a preset, in a run's `config.json` and `result.json` and in a model's
`model.json`, and the keys of a saved state are translated when they are read. A setting that a user types (`--set`) is
not translated; the error says what it is called now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SETTINGS = {
    "balance": "class_balancing",
    "distill_once": "cache_teacher_logits",
    "grow_from": "progressive_resize_from",
    "grow_until": "progressive_resize_until",
    "grow_in": "progressive_resize_in",
    "held_share": "validation_share",
    "mirror": "flip_tta",
}
STATE_KEYS = {"pictures": "images", "held": "validation"}
RECORD_KEYS = {"pictures": "images", "validation_pictures": "validation_images"}
WORDS = {**SETTINGS, "picture": "image", "pictures": "images", "perceptron": "MLP", "answer": "prediction"}


def migrate_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings under their present names; a value under the present name wins."""
    old = {SETTINGS[key]: value for key, value in values.items() if key in SETTINGS}
    return old | {key: value for key, value in values.items() if key not in SETTINGS}


def migrate_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dumped run configuration under the present names."""
    settings = config.get("settings")
    if not isinstance(settings, Mapping):
        return dict(config)
    return {**config, "settings": migrate_settings(settings)}


def migrate_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of a `result.json` with its configuration under the present names."""
    config = result.get("config")
    return {**result, "config": migrate_config(config)} if isinstance(config, Mapping) else dict(result)


def migrate_manifest(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a `model.json` of format 1 in format 2."""
    options = {**body["options"], "settings": migrate_settings(body["options"].get("settings", {}))}
    return {
        **body,
        "options": options,
        "settings": migrate_settings(body.get("settings", {})),
        "learns": [_learn_record(entry) for entry in body.get("learns", ())],
    }


def _learn_record(entry: Mapping[str, Any]) -> dict[str, Any]:
    record = _renamed(entry, RECORD_KEYS)
    return {**record, "tasks": [_renamed(score, RECORD_KEYS) for score in record.get("tasks", ())]}


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}


def migrate_state(state: Any) -> Any:
    """Return a saved state of format 1 with the keys of format 2, at every depth."""
    if isinstance(state, Mapping):
        return {STATE_KEYS.get(key, key): migrate_state(value) for key, value in state.items()}
    return [migrate_state(value) for value in state] if isinstance(state, list) else state


def migrate_learner_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a learner in its present form: DGR and RtF kept a generator and its copy side by side."""
    extra = dict(state["extra"])
    if "generator" in extra:
        extra["replayer"] = {name: extra.pop(name) for name in ("generator", "former")}
    return {**state, "extra": extra}


def renamed_hint(what: str, name: str) -> str | None:
    """Return the error for a setting that is typed under a former name, or None if it never had that name."""
    return f"{what} {name!r} was renamed: use {SETTINGS[name]!r}" if name in SETTINGS else None


def current_text(text: str) -> str:
    """Return text that an older version wrote, such as the head of a table, with the present names."""
    return re.sub(r"[a-z_]+", lambda match: WORDS.get(match[0], match[0]), text)
