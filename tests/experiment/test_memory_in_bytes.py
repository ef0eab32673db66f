"""Runs whose memory is counted in bytes: how it is asked for, what is refused, and what a run keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from experiment_support import checkpoint, short
from itaml.config import Compute, Seeds
from itaml.errors import ItamlError, SettingsError
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.experiment.runner import run_experiment
from itaml.experiment.stored_exemplars import read_exemplars
from itaml.experiment.sweep.ablate import plan
from itaml.learners import LEARNERS
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.memory.byte_memory import ByteMemory
from itaml.memory.webp_files import decoded, saved_files
from itaml.modelstore.image_classifier import ImageClassifier
from support import same_bits

pytestmark = pytest.mark.usefixtures("small_benchmarks")

WITH_MEMORY = [
    name
    for name in LEARNERS.names()
    if LEARNERS.load(name).traits.uses_memory and LEARNERS.load(name).traits.trains_gradients and name != "bic"
]


def test_bytes_replace_the_number_of_images() -> None:
    settings = resolve("small", overrides={"memory_bytes": 2500}).settings
    assert (settings["memory"], settings["memory_bytes"]) == (0, 2500)
    assert resolve("cifar100-10", preset="best-bytes").settings["memory_bytes"] == 6_144_000
    assert resolve("cifar100-10", preset="best-bytes").settings["memory"] == 0
    back = resolve("cifar100-10", preset="best-bytes", overrides={"memory_bytes": 0}).settings
    assert (back["memory"], back["memory_bytes"]) == (2000, 0)
    assert ITAMLSettings(memory_bytes=100).memory == 0
    assert ITAMLSettings().memory == 2000


@pytest.mark.parametrize(
    ("method", "overrides", "message"),
    [
        ("itaml", {"memory": 8, "memory_bytes": 2500}, r"set one of them to 0 \(got memory=8 and memory_bytes=2500\)"),
        ("itaml", {"memory_bytes": -1}, "setting memory_bytes: must be greater than or equal to 0"),
        ("bic", {"memory_bytes": 2500}, "bic divides its memory by images"),
        ("finetune", {"memory_bytes": 2500}, "finetune keeps no exemplars: memory_bytes must be 0 or left out"),
        ("joint", {"memory_bytes": 2500}, "joint keeps no exemplars: memory_bytes must be 0 or left out"),
    ],
)
def test_contradictions_are_refused(method: str, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        resolve("small", method=method, overrides=overrides)


def test_too_few_bytes_are_refused_before_any_training(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a memory of 100 bytes has 25 for each of 4 classes, and an image takes"):
        run_experiment(short(memory_bytes=100), tmp_path)


def test_frozen_features_are_no_images() -> None:
    kind = LEARNERS.load("itaml")
    settings = kind.Settings(backbone="efficientnet-lite0", memory_bytes=2500)
    with pytest.raises(SettingsError, match="a frozen backbone keeps features"):
        kind.from_settings(settings, shape=(3, 32, 32), seeds=Seeds.of(0), compute=Compute(device="cpu"))


def test_a_model_on_disk_counts_images(tmp_path: Path) -> None:
    images = torch.randint(0, 255, (8, 3, 16, 16), dtype=torch.uint8)
    model = ImageClassifier.create(tmp_path / "model", settings={"memory_bytes": 2500}, method="itaml", backbone="mlp")
    with pytest.raises(ItamlError, match="a model on disk counts its exemplars in images: use --memory"):
        model.learn(images.permute(0, 2, 3, 1).numpy(), labels=["a"] * 4 + ["b"] * 4)


@pytest.mark.parametrize("method", WITH_MEMORY)
def test_every_method_with_a_memory_repeats_and_keeps_its_budget(tmp_path: Path, method: str) -> None:
    config = resolve(
        "small", method=method, overrides={"memory_bytes": 1500, "epochs": 1}, compute=Compute(device="cpu")
    )
    for name in ("one", "two"):
        run_experiment(config, tmp_path / name)
    states = [checkpoint(tmp_path / name)["learner"]["memory"] for name in ("one", "two")]
    assert same_bits(*states)
    files = saved_files(states[0])
    assert len(files) == 4
    assert all(0 < sum(map(len, one)) <= 1500 // 4 for one in files.values())


def test_the_report_shows_the_decoded_exemplars_of_a_run(tmp_path: Path) -> None:
    result = run_experiment(short(memory_bytes=2500), tmp_path)
    assert result.memory_unit == "bytes"
    memory = checkpoint(tmp_path)["learner"]["memory"]
    shown = read_exemplars(tmp_path, [row.classes for row in result.tasks])
    assert len(shown) == 4
    for images, files in zip(shown.values(), saved_files(memory).values(), strict=True):
        assert torch.equal(images, decoded(files, tuple(memory["shape"])))


def test_a_learner_keeps_more_compressed_images_than_raw_ones_would_fit() -> None:
    config = resolve("digits", preset="best-bytes", overrides={"epochs": 1, "memory_bytes": 12_800})
    stream = make_stream(config)
    learner = make_learner(config, stream)
    assert isinstance(learner, GradientLearner)
    assert isinstance(learner.memory, ByteMemory)
    learner.learn(stream[0])
    assert 0 < learner.memory.bytes_used <= 12_800


def test_an_ablation_counts_in_the_unit_of_its_preset(tmp_path: Path) -> None:
    common: dict[str, Any] = {"method": "itaml", "seeds": [0], "runs": tmp_path}
    made = plan("digits", over="memory_bytes", preset="best-bytes", **common)
    assert [variant.value for variant in made.variants] == [6_400, 12_800, 25_600]
    assert {variant.configs[0].settings["memory"] for variant in made.variants} == {0}
    with pytest.raises(ItamlError, match="the preset has memory=0: use --over memory_bytes"):
        plan("digits", over="memory", preset="best-bytes", **common)
    with pytest.raises(ItamlError, match="the preset has memory_bytes=0: use --over memory, or name a number"):
        plan("digits", over="memory_bytes", preset="best", **common)
    named = plan("digits", over="memory_bytes", values=["9000"], preset="best", **common)
    assert (named.variants[0].configs[0].settings["memory"], named.variants[0].value) == (0, 9000)
