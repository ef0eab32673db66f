"""The model's folder: versions, locks, damage, formats; whatever happens, the old model or the new one is there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from itaml import storage
from itaml.errors import CheckpointError, ItamlError, UsageError
from itaml.modelstore import version_writer as writer
from itaml.modelstore.checksummed_json import FORMAT, add_checksum, verify_checksum
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.lock import LockedError, locked
from itaml.modelstore.manifest import manifest_from
from itaml.modelstore.model_folder import KIND, ModelFolder
from itaml.modelstore.repair import rollback, verify
from itaml.modelstore.verification import problems


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "model")
    return tmp_path / "model"


def files_of(model: Path) -> list[Path]:
    return sorted(file for file in model.rglob("*") if file.is_file() and file.stat().st_size)


def test_a_new_model_is_empty_and_says_so(tmp_path: Path) -> None:
    classifier = ImageClassifier.create(tmp_path / "new")
    assert classifier.classes == ()
    assert classifier.verify() == []
    assert ImageClassifier.open(tmp_path / "new").info()["learns"] == []
    ImageClassifier.create(tmp_path / "new", memory=50)  # nothing is lost by making it again


def test_the_last_two_versions_are_kept(model: Path, digits: Path) -> None:
    assert ModelFolder(model).numbers() == [1, 2]
    classifier = ImageClassifier.open(model)
    classifier.learn(digits / "third", epochs=1)
    assert ModelFolder(model).numbers() == [2, 3]
    assert classifier.version == 3


def test_rollback_returns_to_the_state_before_the_last_learn(model: Path, digits: Path) -> None:
    classifier = ImageClassifier.open(model)
    file = next((digits / "test" / "digit 2").iterdir())
    before = classifier.predict(file)
    classifier.learn(digits / "third", epochs=1)
    assert classifier.rollback() == 2
    assert classifier.predict(file) == before
    assert classifier.verify() == []
    assert "digit 7" not in ImageClassifier.open(model).classes
    with pytest.raises(UsageError, match="no earlier version"):
        classifier.rollback()


def test_a_copy_is_a_model_of_its_own(model: Path, digits: Path, tmp_path: Path) -> None:
    classifier = ImageClassifier.open(model)
    classifier.save(tmp_path / "copy")
    copy = ImageClassifier.open(tmp_path / "copy")
    file = next((digits / "test" / "digit 2").iterdir())
    assert copy.predict(file) == classifier.predict(file)
    assert copy.tasks == classifier.tasks
    with pytest.raises(UsageError, match="holds a model already"):
        classifier.save(tmp_path / "copy")


def test_a_reader_is_not_disturbed_by_writers(model: Path, digits: Path) -> None:
    reader = ImageClassifier.open(model)
    file = next((digits / "test" / "digit 2").iterdir())
    before = reader.predict(file)
    writer = ImageClassifier.open(model)
    for _ in range(3):  # the reader's version is gone from the disk after two
        writer.learn(digits / "third", epochs=1)
    assert reader.predict(file) == before
    with locked(model / "lock"):
        assert ImageClassifier.open(model).predict(file)  # also while somebody learns


def test_the_second_learner_is_told_who_holds_the_lock(model: Path, digits: Path) -> None:
    with locked(model / "lock"):
        with pytest.raises(LockedError, match=rf"process {os.getpid()} on .* since 20\d\d-") as caught:
            ImageClassifier.open(model).learn(digits / "third")
        assert caught.value.exit_code == 1
    assert (model / "lock").read_text() == ""


def test_the_lock_of_a_dead_process_is_taken_over(model: Path, digits: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    (model / "lock").write_text(json.dumps({"pid": dead.pid, "host": socket.gethostname(), "since": "2020-01-01"}))
    ImageClassifier.open(model).learn(digits / "third", epochs=1)
    (model / "lock").write_text(json.dumps({"pid": 1, "host": "another-machine", "since": "2020-01-01"}))
    with pytest.raises(LockedError, match=r"process 1 on another-machine .* on another machine; .* delete"):
        ImageClassifier.open(model).learn(digits / "third", epochs=1)


def test_a_flipped_byte_anywhere_is_found_and_never_answers_in_silence(model: Path, digits: Path) -> None:
    draw = random.Random(0)
    image = next((digits / "test" / "digit 2").iterdir())
    right = ImageClassifier.open(model).predict(image)
    for attempt in range(200):
        file = draw.choice(files_of(model))
        data = bytearray(file.read_bytes())
        place, bit = draw.randrange(len(data)), 1 << draw.randrange(8)
        data[place] ^= bit
        file.write_bytes(data)
        assert verify(model)[1], f"{file.name}, byte {place}, bit {bit} (attempt {attempt})"
        with contextlib.suppress(CheckpointError):
            assert ImageClassifier.open(model).predict(image) == right  # damage in the version before the one in use
        data[place] ^= bit
        file.write_bytes(data)
    assert verify(model)[1] == []


def test_a_truncated_file_is_found_and_rollback_mends_it(model: Path) -> None:
    tensors = model / "versions" / "000002" / "state.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"state\.safetensors is damaged: .* bytes instead of .*rollback"):
        ImageClassifier.open(model)
    assert rollback(model) == (2, 1)
    assert ImageClassifier.open(model).classes == tuple(f"digit {label}" for label in range(4))


def test_a_damaged_pointer_is_mended_by_rollback_without_losing_a_version(model: Path) -> None:
    (model / "current.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match="damaged"):
        ImageClassifier.open(model)
    assert rollback(model) == (None, 2)
    assert len(ImageClassifier.open(model).classes) == 7


def test_a_missing_file_is_named(model: Path) -> None:
    (model / "versions" / "000002" / "state.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"state\.safetensors is missing"):
        ImageClassifier.open(model)
    shutil.rmtree(model / "versions" / "000002")
    with pytest.raises(CheckpointError, match="points to a version that is not there"):
        ImageClassifier.open(model)


def test_a_foreign_file_among_a_version_is_found(model: Path) -> None:
    (model / "versions" / "000002" / "notes.txt").write_text("mine")
    assert "does not belong to the model" in verify(model)[1][0]


def test_what_an_interrupted_learn_left_is_swept_by_the_next(model: Path, digits: Path) -> None:
    versions = model / "versions"
    shutil.copytree(versions / "000002", versions / ".000003.abc")  # killed before the rename
    pointer = (model / "current.json").read_bytes()
    ImageClassifier.open(model).learn(digits / "third", epochs=1)
    (model / "current.json").write_bytes(pointer)  # killed before the pointer was switched
    (model / ".current.json.xyz.partial").write_text("")
    assert ImageClassifier.open(model).version == 2
    assert verify(model)[1] == []
    ImageClassifier.open(model).learn(digits / "third", epochs=1)
    assert sorted(path.name for path in versions.iterdir()) == ["000002", "000003"]
    assert sorted(path.name for path in model.iterdir()) == ["current.json", "lock", "tables", "versions"]


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "no space left.*make room"), (errno.EROFS, "read-only.*copy the model")]
)
def test_a_disk_that_refuses_leaves_the_old_model(
    model: Path, digits: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    classifier = ImageClassifier.open(model)
    before = classifier.predict(next((digits / "test" / "digit 2").iterdir()))

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(writer, "write_atomically", refuse)
    with pytest.raises(ItamlError, match=rf"(?i)cannot write to .*: {words}"):
        classifier.learn(digits / "third", epochs=1)
    assert ImageClassifier.open(model).version == 2
    assert classifier.predict(next((digits / "test" / "digit 2").iterdir())) == before
    assert verify(model)[1] == []


def test_a_path_that_is_something_else_is_refused_and_left_alone(tmp_path: Path, digits: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is a file, not a model's folder"):
        ImageClassifier.create(tmp_path / "file")
    with pytest.raises(UsageError, match=r"other things in it \(thesis.txt\)"):
        ImageClassifier.create(tmp_path / "folder")
    with pytest.raises(UsageError, match="there is no model in"):
        ImageClassifier.open(tmp_path / "nothing")
    assert os.listdir(tmp_path / "folder") == ["thesis.txt"]


def test_a_model_is_not_made_over_another(model: Path) -> None:
    with pytest.raises(UsageError, match=r"there is a model in .* already"):
        ImageClassifier.create(model)


def test_a_newer_format_is_refused_with_a_sentence(model: Path) -> None:
    (model / "current.json").write_bytes(add_checksum("pointer", {"version": 2}, number=FORMAT + 1))
    with pytest.raises(CheckpointError, match=f"format {FORMAT + 1}, .* reads up to format {FORMAT}: update itaml"):
        ImageClassifier.open(model)


def test_an_older_format_is_migrated(model: Path, digits: Path) -> None:
    """A model as format 0 wrote it: no history, no validation images, the options among the settings."""
    file = next((digits / "test" / "digit 2").iterdir())
    expected = ImageClassifier.open(model).predict(file)
    folder = model / "versions" / "000002"
    now = manifest_from(folder, verify_checksum(folder, (folder / "model.json").read_bytes(), kind="model").body)
    state = ModelFolder(model).read().state
    assert state is not None
    del state["validation"]
    storage.save_state(folder / "state.safetensors", state, kind=KIND)
    data = (folder / "state.safetensors").read_bytes()
    body = {
        "created": "2020-02-02T02:02:02+00:00",
        "seed": 0,
        "shape": list(now.shape or ()),
        "settings": now.settings,
        "tasks": [list(task.classes) for task in now.tasks],
        "files": {"state.safetensors": {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}},
    }
    (folder / "model.json").write_bytes(add_checksum("model", body, number=0))
    (model / "current.json").write_bytes(add_checksum("pointer", {"version": 2}, number=0))
    assert problems(ModelFolder(model))[1] == []
    classifier = ImageClassifier.open(model)
    assert classifier.predict(file) == expected
    assert [task.learned for task in classifier.tasks] == ["2020-02-02T02:02:02+00:00"] * 2
    classifier.learn(digits / "third", epochs=1)
    assert json.loads((model / "current.json").read_bytes())["format"] == FORMAT
    assert len(ImageClassifier.open(model).classes) == 8


def test_an_older_format_that_lacks_something_is_refused(model: Path) -> None:
    (model / "versions" / "000002" / "model.json").write_bytes(add_checksum("model", {"tasks": []}, number=0))
    with pytest.raises(CheckpointError, match="cannot be brought up to date"):
        ImageClassifier.open(model)


def test_nothing_executable_is_loaded(model: Path) -> None:
    """A record that names a file we do not write is refused before the file is touched."""
    record = model / "versions" / "000002" / "model.json"
    body = verify_checksum(record, record.read_bytes(), kind="model").body
    body["files"]["../../../evil.pickle"] = {"size": 1, "sha256": "0"}
    record.write_bytes(add_checksum("model", body))
    with pytest.raises(CheckpointError, match=r"is not the record that .*current.json names"):
        ImageClassifier.open(model)
    (model / "current.json").write_bytes(add_checksum("pointer", {"version": 2}))
    with pytest.raises(CheckpointError, match="names a file that no version has"):
        ImageClassifier.open(model)
    body["files"] = {}
    body["settings"]["backbone"] = "os:system"
    record.write_bytes(add_checksum("model", body))
    (model / "current.json").write_bytes(add_checksum("pointer", {"version": 2}))
    assert ImageClassifier.open(model).info()["parameters"] == 0  # no tensors: nothing is built


def test_a_record_that_describes_no_model_is_refused(model: Path) -> None:
    record = model / "versions" / "000002" / "model.json"
    record.write_bytes(add_checksum("model", {"options": {}, "shape": "square"}))
    with pytest.raises(CheckpointError, match="does not describe a model"):
        ImageClassifier.open(model)
    (model / "current.json").write_text('{"hello": 1}')
    with pytest.raises(CheckpointError, match="not written by itaml"):
        ImageClassifier.open(model)
