"""Things in a model's folder that a kill or a stranger left there: no learn is blocked for good, nothing is lost."""

from __future__ import annotations

import base64
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from itaml.errors import CheckpointError, DataError, UsageError
from itaml.modelstore.checksummed_json import MAX_VERSIONS, add_checksum, checksum_of
from itaml.modelstore.exemplar_files import decode
from itaml.modelstore.exemplar_images import exemplar_images
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.learn_checkpoint import KIND, LearnCheckpoint, learn_key
from itaml.modelstore.model_folder import CHECKPOINT, ModelFolder
from itaml.modelstore.repair import verify
from itaml.storage import save_state
from modelstore_support import TINY, digits_of, tiny_model

PARTIAL = f".{CHECKPOINT}.abc.partial"
UNIX = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and links")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("leftovers") / "model"
    tiny_model(path).learn(*digits_of((0, 1)))
    return path


@pytest.fixture
def model(learned: Path, tmp_path: Path) -> Path:
    return shutil.copytree(learned, tmp_path / "model")


def test_a_kill_while_the_first_checkpoint_is_written_does_not_block_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "new"
    path.mkdir()
    for name in ("lock", PARTIAL):
        (path / name).touch()
    classifier = ImageClassifier.unsaved(path, backbone=TINY, epochs=1)
    classifier.learn(*digits_of((0, 1)))
    assert sorted(os.listdir(path)) == ["current.json", "lock", "versions"]


def test_half_a_checkpoint_is_removed_by_the_next_learn(model: Path) -> None:
    (model / PARTIAL).write_bytes(b"half")
    ImageClassifier.open(model).learn(*digits_of((2,)))
    assert sorted(os.listdir(model)) == ["current.json", "lock", "versions"]


@UNIX
@pytest.mark.parametrize("what", ["link", "pipe", "file"])
def test_something_in_the_place_of_the_next_version_is_named_and_left(model: Path, tmp_path: Path, what: str) -> None:
    place, outside = model / "versions" / "000002", tmp_path / "outside"
    outside.mkdir()
    if what == "link":
        place.symlink_to(outside)
    elif what == "pipe":
        os.mkfifo(place)
    else:
        place.write_text("mine")
    with pytest.raises(CheckpointError, match="000002 is in the way and is not a version"):
        ImageClassifier.open(model).learn(*digits_of((2,)))
    assert os.path.lexists(place)
    assert outside.is_dir()
    assert ImageClassifier.open(model).classes == ("0", "1")


def test_there_is_no_version_after_the_last_number(model: Path) -> None:
    (model / "versions/000001").rename(model / f"versions/{MAX_VERSIONS}")
    path = model / f"versions/{MAX_VERSIONS}/model.json"
    body = json.loads(path.read_text())
    body = {key: value for key, value in body.items() if key not in ("itaml", "format", "checksum")}
    path.write_bytes(add_checksum("model", body | {"version": MAX_VERSIONS}))
    pointer = {"version": MAX_VERSIONS, "record": checksum_of(path.read_bytes())}
    (model / "current.json").write_bytes(add_checksum("pointer", pointer))
    with pytest.raises(CheckpointError, match="has no room for a version after 999999999"):
        ImageClassifier.open(model).learn(*digits_of((2,)))
    assert ImageClassifier.open(model).version == MAX_VERSIONS
    assert verify(model)[1] == []


class FakeLearner:
    """A learner whose state can be anything, and that refuses what is not its own."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"weights": 1}
        self.callback: Any = None

    def state_dict(self) -> dict[str, Any]:
        return dict(self.state)

    def load_state_dict(self, state: Any) -> None:
        if "weights" not in state:
            raise RuntimeError("size mismatch for weights")
        self.state = dict(state)


def test_a_checkpoint_with_the_right_key_and_a_wrong_state_is_ignored(model: Path) -> None:
    folder, learner = ModelFolder(model), FakeLearner()
    key = learn_key(folder.read().manifest, ("0",), [b"x"], precision="fp32")
    save_state(model / CHECKPOINT, {"key": key, "learner": {"evil": 1}}, kind=KIND)
    with LearnCheckpoint(folder).resuming(learner, key, lambda event: None):
        assert learner.state == {"weights": 1}


@pytest.mark.parametrize("path", ["x" * 300, "a\0b", "x/" * 3000])
def test_a_path_that_cannot_exist_is_a_mistake_of_the_caller(path: str) -> None:
    with pytest.raises(UsageError, match="cannot be a model's folder"):
        ImageClassifier.open(path)
    with pytest.raises(UsageError, match="cannot be a model's folder"):
        ImageClassifier.create(path)


def test_a_folder_of_images_whose_path_cannot_exist_is_one_sentence(model: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        ImageClassifier.open(model).learn("x" * 300)


def test_a_file_of_an_exemplar_that_claims_to_be_huge_is_refused() -> None:
    data = base64.b64decode("UklGRhoAAABXRUJQVlA4TA4AAAAvByz3/wYQEf0PRET/Aw==")  # 180 million pixels, found by a fuzzer
    with pytest.raises(CheckpointError, match="is not an image"):
        decode(Path("x.webp"), data, (3, 8, 8))


def test_images_that_a_small_file_names_many_times_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = ImageClassifier.create(tmp_path / "model", method="lda", backbone="efficientnet-lite0", image_size=32)
    classifier.learn(*digits_of((0, 1), limit=3))
    model = classifier._model
    monkeypatch.setattr("itaml.modelstore.exemplar_images.LIMIT", 6 * 32 * 32 - 1)
    with pytest.raises(CheckpointError, match="keeps 6 images of 32 x 32 pixels, more than fit into"):
        exemplar_images(model, ModelFolder(tmp_path / "model"))
    assert len(exemplar_images(model, ModelFolder(tmp_path / "model"), limit=2)) == 2
