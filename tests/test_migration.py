"""Files of version 0.1 are read under the present names; old names that are typed are refused with the new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from handmade import write_run
from itaml import storage
from itaml.config import Compute, Seeds, build, parse_preset
from itaml.data.images import ImageSet
from itaml.errors import UnknownNameError
from itaml.experiment.result import load_result
from itaml.experiment.run_config import resolve
from itaml.experiment.run_folder import inspect_folder
from itaml.learners import LEARNERS
from itaml.learners.learner import GradientLearner
from itaml.memory.buffer import Memory
from itaml.migration import (
    SETTINGS,
    current_text,
    migrate_learner_state,
    migrate_manifest,
    migrate_settings,
    migrate_state,
)
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from itaml.seeding import generator, seeded
from support import SHAPE, same_bits, synthetic_stream

EXTRA_OF_0_1 = {  # keys of `extra` in a checkpoint of version 0.1 of each method, in its second task
    "bic": ["bias", "held", "teacher"],
    "dgr": ["former", "generator", "teacher"],
    "dmc": ["expert", "teacher"],
    "ewc": ["anchors"],
    "finetune": [],
    "fixedrep": ["fixed"],
    "fomaml": [],
    "gem": [],
    "icarl": ["teacher"],
    "itaml": ["inner", "teacher"],
    "joint": [],
    "lwf": ["teacher"],
    "mas": ["anchors"],
    "online-ewc": ["anchors"],
    "replay": [],
    "reptile": [],
    "rpsnet": ["teacher"],
    "rtf": ["former", "generator", "teacher"],
    "rwalk": ["anchors", "steps", "walk"],
    "si": ["anchors", "path", "start"],
}
SMALL: dict[str, dict[str, Any]] = {
    "dgr": {"generator_hidden": (8,), "latent": 2},
    "rtf": {"generator_hidden": (8,), "latent": 2},
    "dmc": {"auxiliary_images": 100, "epochs": 2},
    "itaml": {"horizon": 2, "distill": 1.0},
}
CPU = Compute(device="cpu", precision="fp32")


def former(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings under the names of version 0.1."""
    names = {new: old for old, new in SETTINGS.items()}
    return {names.get(key, key): value for key, value in settings.items()}


def test_old_settings_get_their_present_names_and_a_present_name_wins() -> None:
    assert migrate_settings({"mirror": True, "lr": 0.1}) == {"flip_tta": True, "lr": 0.1}
    assert migrate_settings({"flip_tta": False, "mirror": True}) == {"flip_tta": False}
    assert migrate_settings({"mirror": True, "flip_tta": False}) == {"flip_tta": False}


def test_every_present_name_is_a_setting_of_a_method_and_no_old_name_is() -> None:
    fields = {name for entry in LEARNERS for name in entry.load().Settings.model_fields}
    assert set(SETTINGS.values()) <= fields
    assert not set(SETTINGS) & fields


@pytest.mark.parametrize("old", SETTINGS)
def test_an_old_name_that_is_typed_is_refused_with_the_present_one(old: str) -> None:
    method = "bic" if old == "held_share" else "itaml"
    with pytest.raises(UnknownNameError, match=f"setting '{old}' was renamed: use '{SETTINGS[old]}'"):
        resolve("digits", method=method, overrides={old: 1})


def test_a_preset_with_old_names_is_read() -> None:
    preset = b'mirror = true\n[digits]\nbalance = "logits"\n'
    expected = {"flip_tta": True, "class_balancing": "logits"}
    assert parse_preset(preset, source="an old preset", benchmark="digits") == expected


def test_a_run_with_an_old_config_can_be_resumed(tmp_path: Path) -> None:
    config = resolve("digits", overrides={"flip_tta": True})
    dumped = config.model_dump(mode="json")
    (tmp_path / "config.json").write_text(json.dumps({**dumped, "settings": former(dumped["settings"])}))
    assert not inspect_folder(config, tmp_path, resume=True, force=False)


def test_an_old_result_has_present_names_in_its_config(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", settings={"mirror": True, "grow_in": "first", "lr": 0.1})
    settings = load_result(folder).config["settings"]
    assert settings == {"flip_tta": True, "progressive_resize_in": "first", "lr": 0.1}


def test_a_state_of_format_1_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(budget=4, selection="first")
    images = torch.arange(16, dtype=torch.uint8).reshape(4, 1, 2, 2)
    memory.add(ImageSet.from_arrays(images, [0, 0, 1, 1]), [0, 1], generator=generator(0))
    state = memory.state_dict()
    monkeypatch.setattr(storage, "FORMAT", 1)
    storage.save_state(tmp_path / "old", {"memory": {**state, "pictures": state["images"]}}, kind="test")
    monkeypatch.undo()
    restored = Memory(budget=1)
    restored.load_state_dict(storage.load_state(tmp_path / "old", kind="test")["memory"])
    exemplars = restored.exemplars()
    assert exemplars is not None
    assert torch.equal(exemplars.load()[0], images)


def test_keys_of_a_state_are_renamed_at_every_depth() -> None:
    old = {"held": {"3": 1}, "learner": {"memory": {"pictures": {}}, "list": [{"held": 2}]}}
    assert migrate_state(old) == {
        "validation": {"3": 1},
        "learner": {"memory": {"images": {}}, "list": [{"validation": 2}]},
    }


def in_its_second_task(method: str) -> GradientLearner:
    """Return a small learner that has learned a task and begun another."""
    kind = LEARNERS.load(method)
    settings = build(kind.Settings, {"epochs": 1, "batch_size": 8, "memory": 40, **SMALL.get(method, {})})
    with seeded(0, "migration"):
        model = Classifier(mlp(SHAPE, hidden=(6,)), shape=SHAPE)
    learner = GradientLearner(kind, model, settings=settings, seeds=Seeds.of(0), compute=CPU)
    stream = synthetic_stream((2, 2))
    learner.learn(stream[0])
    learner.begin_task(stream[1])
    return learner


@pytest.mark.parametrize("method", EXTRA_OF_0_1)
def test_a_checkpoint_of_every_method_of_version_0_1_has_what_is_read_now(method: str) -> None:
    old: dict[str, Any] = {"extra": {key: {} for key in EXTRA_OF_0_1[method]}}
    migrated = migrate_learner_state(migrate_state(old))["extra"]
    extra = in_its_second_task(method).state_dict()["extra"]
    assert {name for name, value in extra.items() if value is not None} == set(migrated)


@pytest.mark.parametrize("method", ["dgr", "rtf"])
def test_a_generator_is_read_from_a_checkpoint_of_version_0_1(method: str) -> None:
    learner, restored = in_its_second_task(method), in_its_second_task(method)
    state = learner.state_dict()
    for tensor in state["extra"]["replayer"]["former"].values():
        tensor.add_(1)
    old = {**state, "extra": {**state["extra"]["replayer"], "teacher": state["extra"]["teacher"]}}
    restored.load_state_dict(old)
    assert same_bits(restored.state_dict(), state)
    assert not same_bits(in_its_second_task(method).state_dict(), state)


def test_the_record_of_a_model_of_format_1_is_translated() -> None:
    learn = {"pictures": {"cat": 3}, "validation_pictures": 1, "tasks": [{"task": 0, "pictures": 2}]}
    body = {"options": {"settings": {"mirror": True}}, "settings": {"balance": "tasks"}, "learns": [learn]}
    assert migrate_manifest(body) == {
        "options": {"settings": {"flip_tta": True}},
        "settings": {"class_balancing": "tasks"},
        "learns": [{"images": {"cat": 3}, "validation_images": 1, "tasks": [{"task": 0, "images": 2}]}],
    }


def test_text_of_old_results_is_shown_in_present_words() -> None:
    assert current_text("| mirror | each picture alone |") == "| flip_tta | each image alone |"
