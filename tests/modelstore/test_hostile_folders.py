"""Model folders from strangers: links, pipes, devices and hostile text give one sentence, at once, and harm nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attacks.harness import isolated
from itaml.errors import CheckpointError, ItamlError
from itaml.modelstore.checksummed_json import FORMAT, add_checksum, checksum_of
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.lock import locked
from itaml.modelstore.model_folder import KIND, ModelFolder
from itaml.modelstore.repair import rollback, verify
from itaml.storage import dump_state, parse_state
from modelstore_support import Ran, digits_of, tiny_model

UNIX = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and links")
Itaml = Callable[..., Ran]
FILES = {
    "pointer": "current.json",
    "record": "versions/000002/model.json",
    "state": "versions/000002/state.safetensors",
}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of two tasks, versions 1 and 2."""
    path = tmp_path_factory.mktemp("hostile") / "model"
    classifier = tiny_model(path)
    classifier.learn(*digits_of((0, 1)))
    classifier.learn(*digits_of((2,)))
    return path


@pytest.fixture
def model(learned: Path, tmp_path: Path) -> Path:
    shutil.copytree(learned, tmp_path / "model")
    return tmp_path / "model"


def reseal(model: Path, change: Callable[[dict[str, Any]], None], *, number: int = FORMAT) -> None:
    """Change the record of the version in use, as somebody could who knows the format, and point to it."""
    path = model / FILES["record"]
    body = json.loads(path.read_text())
    change(body)
    for outer in ("itaml", "format", "checksum"):
        body.pop(outer, None)
    path.write_bytes(add_checksum("model", body, number=number))
    pointer = {"version": 2, "record": checksum_of(path.read_bytes())}
    (model / "current.json").write_bytes(add_checksum("pointer", pointer))


def refused(model: Path) -> str:
    """Return the one sentence with which a model is refused."""
    with pytest.raises(ItamlError) as caught:
        ImageClassifier.open(model)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    return str(caught.value)


@UNIX
@pytest.mark.parametrize("target", ["symlink", "hard link"])
def test_a_lock_that_leads_to_another_file_is_refused_and_the_file_is_left(
    model: Path, tmp_path: Path, target: str, itaml: Itaml
) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("all my work")
    (model / "lock").unlink()
    if target == "symlink":
        (model / "lock").symlink_to(precious)
    else:
        os.link(precious, model / "lock")
    with pytest.raises(ItamlError, match=r"lock .*(symbolic link|hard link)"):
        ImageClassifier.open(model).learn(*digits_of((3,)))
    ran = itaml("rollback", model)
    assert (ran.code, "delete it and try again" in ran.err) == (1, True)
    assert precious.read_text() == "all my work"
    assert ImageClassifier.open(model).version == 2


@UNIX
@pytest.mark.parametrize("what", ["pipe", "folder", "dangling link"])
def test_a_lock_that_is_no_file_is_refused_at_once(model: Path, what: str) -> None:
    (model / "lock").unlink()
    if what == "pipe":
        os.mkfifo(model / "lock")
    elif what == "folder":
        (model / "lock").mkdir()
    else:
        (model / "lock").symlink_to(model / "nothing")
    with pytest.raises(ItamlError, match=r"lock is (not a regular file|a symbolic link)"), locked(model / "lock"):
        pass
    assert not (model / "nothing").exists()


@pytest.mark.parametrize(
    "text", ["[" * 4000, "9" * 4000, "x" * 100_000, '{"pid": "\\u001b[2J", "host": {}}', "\ud800", "[]"]
)
def test_hostile_text_in_a_lock_is_no_traceback(model: Path, text: str) -> None:
    (model / "lock").write_text(text, errors="surrogatepass")
    try:
        ImageClassifier.open(model).learn(*digits_of((3,)), epochs=1)
    except ItamlError as error:
        assert "\x1b" not in str(error)  # noqa: PT017
        assert "is being changed by" in str(error)  # noqa: PT017


@UNIX
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["pipe", "device link", "link", "folder"])
def test_model_files_that_are_not_regular_are_refused_at_once(
    model: Path, tmp_path: Path, name: str, kind: str
) -> None:
    path = model / FILES[name]
    shutil.copy(path, tmp_path / "elsewhere")
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device link" else tmp_path / "elsewhere")
    assert path.name in refused(model)
    assert verify(model)[1]
    if kind != "folder" or name != "pointer":
        before, now = rollback(model)
        assert (before, now) == ((None, 2) if name == "pointer" else (2, 1))
        assert verify(model)[1] == []


@UNIX
def test_a_folder_of_versions_that_is_a_link_is_refused_and_nothing_in_it_is_touched(
    model: Path, tmp_path: Path
) -> None:
    shutil.move(model / "versions", tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / ".mine").write_text("mine")
    (model / "versions").symlink_to(tmp_path / "elsewhere")
    assert "versions is a symbolic link" in refused(model)
    with pytest.raises(ItamlError, match="versions is a symbolic link"):
        rollback(model)
    assert (tmp_path / "elsewhere" / ".mine").read_text() == "mine"


def test_an_oversized_record_is_refused(model: Path) -> None:
    with (model / FILES["record"]).open("r+b") as file:
        file.truncate(1 << 40)  # a hole that takes no room
    assert "more than the limit" in refused(model)
    with (model / FILES["state"]).open("r+b") as file:
        file.truncate(1 << 40)
    assert verify(model)[1]


@pytest.mark.parametrize("name", ["pointer", "record"])
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"9" * 10_000,
        b"\xff\xfe",
        b"null",
        b'{"itaml": 1, "format": ' + b"9" * 5000 + b"}",
        b'{"itaml": "pointer", "format": 1' + b"0" * 4000 + b"}",
    ],
)
def test_hostile_text_is_one_sentence_and_rollback_mends_it(model: Path, name: str, text: bytes) -> None:
    (model / FILES[name]).write_bytes(text)
    assert Path(FILES[name]).name in refused(model)
    assert verify(model)[1]
    assert rollback(model) == ((None, 2) if name == "pointer" else (2, 1))
    assert ImageClassifier.open(model).version in (1, 2)


@pytest.mark.parametrize(
    "body",
    [
        {"version": None},
        {"version": "2"},
        {"version": -1},
        {"version": True},
        {"version": 2.0},
        {"version": 10**30},
        {"version": 77},
        {},
        {"version": 2, "record": 5},
        {"version": 2, "record": "0" * 64},
        {"version": []},
    ],
)
def test_a_sealed_pointer_that_is_wrong_is_one_sentence_and_rollback_mends_it(
    model: Path, body: dict[str, Any]
) -> None:
    (model / "current.json").write_bytes(add_checksum("pointer", body))
    refused(model)
    assert verify(model)[1]
    assert rollback(model)[1] in (1, 2)
    assert verify(model)[1] == []


@pytest.mark.parametrize("number", [-1_000_000_000, -1, FORMAT + 1, 10**40])
def test_a_sealed_record_of_an_impossible_format_is_one_sentence(model: Path, number: int) -> None:
    reseal(model, lambda body: None, number=number)
    assert "model.json" in refused(model)


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no version": lambda body: body.update(version="two"),
    "another version": lambda body: body.update(version=7),
    "no shape": lambda body: body.update(shape=None),
    "negative shape": lambda body: body.update(shape=[1, -8, 8]),
    "huge shape": lambda body: body.update(shape=[1, 10**9, 10**9]),
    "other shape": lambda body: body.update(shape=[1, 9, 9]),
    "many channels": lambda body: body.update(shape=[4, 8, 8]),
    "no classes": lambda body: body.update(classes=[]),
    "other classes": lambda body: body.update(classes=["a", "b", "c"]),
    "same classes": lambda body: body.update(classes=["0", "0", "0"]),
    "no tasks": lambda body: body.update(tasks=[]),
    "more tasks": lambda body: body["tasks"].append({"classes": ["x"], "learned": ""}),
    "settings": lambda body: body.update(settings={"backbone": "os:system"}),
    "no settings": lambda body: body.update(settings={}),
    "settings of text": lambda body: body.update(settings="x"),
    "no memory": lambda body: body["options"].update(memory=-5),
    "unknown key": lambda body: body.update(evil=1),
    "no files": lambda body: body.update(files={}),
    "another file": lambda body: body["files"].update({"../../x": {"size": 1, "sha256": "0"}}),
    "no size": lambda body: body["files"]["state.safetensors"].update(size=-1),
    "another size": lambda body: body["files"]["state.safetensors"].update(size=10**12),
    "pixels": lambda body: body.update(pixels={"dtype": "float32", "white": 0}),
    "pixels of text": lambda body: body.update(pixels="uint8"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_sealed_record_that_is_wrong_is_one_sentence_and_never_a_wrong_prediction(model: Path, name: str) -> None:
    expected = [
        prediction.label for prediction in ImageClassifier.open(model).predict(digits_of((0, 1, 2), limit=2)[0])
    ]
    reseal(model, CHANGES[name])
    try:
        classifier = ImageClassifier.open(model)
        found = [prediction.label for prediction in classifier.predict(digits_of((0, 1, 2), limit=2)[0])]
    except ItamlError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert found == expected
    assert rollback(model) == (2, 1) or name == "no version"
    assert ImageClassifier.open(model).version == 1


STATES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "empty": lambda state: state.clear(),
    "no learner": lambda state: state.pop("learner"),
    "learner of text": lambda state: state.update(learner="x"),
    "no weights": lambda state: state["learner"].pop("model"),
    "validation of text": lambda state: state.update(validation="x"),
    "validation of no class": lambda state: state.update(validation={"99": state["validation"]["0"]}),
    "validation of a bad key": lambda state: state.update(validation={"x": state["validation"]["0"]}),
    "validation of another shape": lambda state: state.update(validation={"0": state["validation"]["0"][..., :3]}),
    "validation that is no tensor": lambda state: state.update(validation={"0": 5}),
    "memory of text": lambda state: state["learner"].update(memory="x"),
    "a class of no number": lambda state: state["learner"].update(table=[[0, {}], [2]]),
    "a class beyond 64 bits": lambda state: state["learner"].update(table=[[0, 10**30], [2]]),
    "a class twice": lambda state: state["learner"].update(table=[[0, 0], [2]]),
    "a task of no classes": lambda state: state["learner"].update(table=[[0, 1], 5]),
    "tasks of other classes": lambda state: state["learner"].update(table=[[0, 2], [1]]),
    "tasks joined": lambda state: state["learner"].update(table=[[0, 1, 2]]),
    "memory of nothing": lambda state: state["learner"].update(memory={}),
}


@pytest.mark.parametrize("name", STATES)
def test_a_checked_state_that_is_wrong_is_one_sentence(model: Path, name: str) -> None:
    path = model / FILES["state"]
    state = ModelFolder(model).read().state
    assert state is not None
    STATES[name](state)
    data = dump_state(state, kind=KIND, checksum=False)
    path.write_bytes(data)
    total = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    reseal(model, lambda body: body.update(files={"state.safetensors": total}, tables={}))
    assert "version 2" in refused(model)


def test_swapped_versions_are_found(model: Path) -> None:
    versions = model / "versions"
    (versions / "000001").rename(versions / "keep")
    (versions / "000002").rename(versions / "000001")
    (versions / "keep").rename(versions / "000002")
    assert "in the place of another version" in refused(model)
    assert any("in the place of another version" in problem for problem in verify(model)[1])


def test_an_older_record_put_in_the_place_of_the_one_in_use_is_found(model: Path, tmp_path: Path) -> None:
    """Another model's version of the same number has a record that is sealed and says the right number."""
    other = tiny_model(tmp_path / "other")
    other.learn(*digits_of((4, 5)))
    other.learn(*digits_of((6,)))
    shutil.rmtree(model / "versions" / "000002")
    shutil.copytree(tmp_path / "other" / "versions" / "000002", model / "versions" / "000002")
    assert "is not the record that" in refused(model)
    assert verify(model)[1]


def test_a_newer_format_of_the_state_is_refused(model: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a thing of itaml"):
        parse_state(model / "x", (model / FILES["state"]).read_bytes(), kind="thing")


@pytest.mark.parametrize(("backbone", "shape"), [("mlp", [3, 4096, 4096]), ("resnet18", [3, 4096, 4096])])
def test_a_record_that_names_a_huge_network_is_refused_before_memory_is_taken(
    model: Path, backbone: str, shape: list[int]
) -> None:
    """The MLP would take 80 GB, and a forward pass of the ResNet minutes."""

    def change(body: dict[str, Any]) -> None:
        body["shape"] = shape
        body["settings"]["backbone"] = backbone

    reseal(model, change)
    ended = isolated(lambda: ImageClassifier.open(model).version, seconds=15)
    assert ended.how == "refused", ended
    assert "the state has no weights" in ended.value
    assert ended.megabytes < 200
