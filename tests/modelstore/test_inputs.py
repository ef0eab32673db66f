"""Bad and odd input, through the commands: a sentence that says what and what to do, and nothing lost."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import struct
import sys
import unicodedata
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from itaml.errors import DataError
from itaml.modelstore.checksummed_json import FORMAT
from itaml.modelstore.class_names import check_names, match_names
from itaml.modelstore.image_classifier import ImageClassifier
from modelstore_support import Ran

Itaml = Callable[..., Ran]


def paint(path: Path, value: int = 100, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(value).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


def bomb(path: Path) -> None:
    """Write a PNG of a few bytes that claims to be 60,000 pixels wide and high."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    parts = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("cat", "dog"):
        for number in range(6):
            paint(tmp_path / "photos" / name / f"{number}.png", number + 10 * (name == "dog"))
    return tmp_path / "photos"


def test_learn_predict_info_verify_rollback(itaml: Itaml, digits: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    code, out, err = itaml("learn", model, digits / "first", "--epochs", 3, "--memory", 100)
    assert code == 0
    assert "learned 4 new classes (digit 0, digit 1, digit 2, digit 3)" in out
    assert "is at version 1 and knows 4 classes in 1 task\n" in out
    assert "left" in err  # plain progress lines with the time left, as this is not a terminal
    code, out, err = itaml("learn", model, digits / "second", "--epochs", 3, "--quiet")
    assert (code, out, err) == (0, "", "")
    code, out, _ = itaml("learn", model, digits / "third", "--epochs", 1, "--json")
    assert json.loads(out)["new"] == ["digit 7"]
    assert itaml("verify", model).out.endswith("all as written\n")
    code, out, _ = itaml("info", model, "--exemplars", tmp_path / "sheet.png")
    assert f"format {FORMAT}" in out
    assert "digit 4, digit 5, digit 6" in out
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.height > 8 * 48
    manifest = json.loads(itaml("info", model, "--json").out)
    assert len(manifest["tasks"]) == 3
    assert manifest["bytes"] == sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    assert "back to version 2, which knows 7 classes" in itaml("rollback", model).out
    assert len(json.loads(itaml("info", model, "--json").out)["classes"]) == 7


def test_the_forms_of_answers(itaml: Itaml, digits: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = digits / "test" / "digit 5"
    count = len(list(folder.iterdir()))
    task_map = itaml("predict", made, folder, "--top", 3).out.splitlines()
    assert task_map[0].split() == ["file", "class", "confidence", "task", "then"]
    assert len(task_map) == count + 1
    rows = list(csv.DictReader(io.StringIO(itaml("predict", made, folder, "--format", "csv", "--top", 2).out)))
    assert list(rows[0]) == ["file", "class", "confidence", "task", "known", "unknown_score", "class2", "confidence2"]
    assert len(rows) == count
    lines = itaml("predict", made, f"{digits}/test/*5/*.png", "--continuum", "--format", "jsonl").out.splitlines()
    predictions = [json.loads(line) for line in lines]
    assert {prediction["task"] for prediction in predictions} == {2}
    assert [prediction["file"] for prediction in predictions] == [row["file"] for row in rows]
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{predictions[0]['file']}\n\n{predictions[1]['file']}\n"))
    code, out, _ = itaml("predict", made, "-", "--stream", "--format", "csv")
    assert (code, len(out.splitlines())) == (0, 3)
    unknown = itaml("predict", made, predictions[0]["file"], "--unknown", 1, "--format", "csv").out
    (row,) = csv.DictReader(io.StringIO(unknown))
    assert (row["class"], row["known"]) == ("unknown", "no")
    code, _, err = itaml("predict", made, predictions[0]["file"], "--unknown", "often")
    assert (code, "--unknown is auto, never or a number between 0 and 1, not 'often'" in err) == (2, True)
    never = itaml("predict", made, folder, "--unknown", "never", "--format", "csv").out
    assert {row["known"] for row in csv.DictReader(io.StringIO(never))} == {"yes"}
    grouped = itaml("predict", made, digits / "test", "--group-by", "folder", "--format", "jsonl").out.splitlines()
    assert len({json.loads(line)["group"] for line in grouped}) == 8


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--format", "xml"], 2, "--format is one of table, csv, jsonl, label-studio, coco, cvat, not 'xml'"),
        (["--group-by", "class"], 2, "--group-by takes folder"),
        (["--continuum", "--stream"], 2, "exclude each other"),
        (["--mean-run", "5"], 2, "--mean-run is for --stream"),
        (["--device", "abacus"], 2, "device"),
    ],
)
def test_wrong_words_are_told(itaml: Itaml, made: Path, words: list[str], code: int, sentence: str) -> None:
    found = itaml("predict", made, "x.png", *words)
    assert found.code == code
    assert sentence in found.err


def test_images_that_are_not_there(itaml: Itaml, made: Path, tmp_path: Path) -> None:
    assert itaml("predict", made, tmp_path / "gone.png")[0] == 2
    assert "matches no file" in itaml("predict", made, f"{tmp_path}/*.png").err
    (tmp_path / "empty").mkdir()
    code, _, err = itaml("predict", made, tmp_path / "empty")
    assert (code, "no images in" in err) == (1, True)


def test_unreadable_images_are_named_and_the_rest_answered(itaml: Itaml, made: Path, tmp_path: Path) -> None:
    paint(tmp_path / "p" / "a.png")
    (tmp_path / "p" / "b.png").write_text("no image")
    bomb(tmp_path / "p" / "c.png")
    code, out, err = itaml("predict", made, tmp_path / "p", "--format", "jsonl")
    predictions = [json.loads(line) for line in out.splitlines()]
    assert [prediction["error"] is None for prediction in predictions] == [True, False, False]
    assert code == 1
    assert "2 of 3 images could not be read" in err
    assert "limit" in predictions[2]["error"]
    assert "unreadable" in itaml("predict", made, tmp_path / "p").out


@pytest.mark.parametrize("what", ["missing", "file", "empty", "no classes", "empty classes", "only rubbish"])
def test_nothing_to_learn_from_leaves_nothing_behind(itaml: Itaml, tmp_path: Path, what: str) -> None:
    data = tmp_path / "data"
    if what == "file":
        data.write_text("")
    elif what != "missing":
        data.mkdir()
    if what == "no classes":
        paint(data / "a.png")
    if what in ("empty classes", "only rubbish"):
        (data / "cat").mkdir()
    if what == "only rubbish":
        (data / "cat" / "a.png").write_text("no image")
    found = itaml("learn", tmp_path / "model", data)
    sentence = {
        "missing": "does not exist; give a folder",
        "file": "is not a folder; give a folder",
        "empty": "no class folders",
        "no classes": "no class folders",
        "empty classes": "no images in the class folders",
        "only rubbish": "none of the images can be read",
    }[what]
    assert found.code == 1
    assert sentence in found.err
    assert not (tmp_path / "model").exists()


def test_bad_images_and_empty_classes_are_left_out_with_a_word(photos: Path, tmp_path: Path) -> None:
    (photos / "cat" / "broken.jpg").write_bytes(b"\xff\xd8\xff garbage")
    bomb(photos / "dog" / "bomb.png")
    (photos / "empty").mkdir()
    (photos / "rubbish").mkdir()
    (photos / "rubbish" / "a.png").write_text("no image")
    paint(photos / "one" / "single.png")
    classifier = ImageClassifier.create(tmp_path / "model", epochs=1)
    report = classifier.learn(photos)
    assert classifier.classes == ("cat", "dog", "one")
    assert report.record.skipped == 3
    assert report.record.images == {"cat": 5, "dog": 5, "one": 1}
    notes = " ".join(report.notes)
    assert "'empty' has no images" in notes
    assert "3 images could not be read" in notes
    assert "bomb.png" in notes
    assert "'rubbish' has no image that can be read" in notes


def test_sizes_and_colours_may_be_mixed(tmp_path: Path) -> None:
    for number, (size, mode) in enumerate([((1, 1), "L"), ((9, 200), "RGB"), ((900, 700), "L"), ((8, 8), "RGBA")]):
        paint(tmp_path / "photos" / f"class {number % 2}" / f"{number}.png", number, size, mode)
    classifier = ImageClassifier.create(tmp_path / "model", epochs=1, image_size=8)
    assert classifier.learn(tmp_path / "photos").record.skipped == 0


def test_odd_names_stay_as_they_are(itaml: Itaml, tmp_path: Path) -> None:
    names = ["with space", "emoji 🐈", "日本", "[red]bold", "-dash", "quote'\"", "new\nline"]
    for number, name in enumerate(names):
        paint(tmp_path / "photos" / name / "1.png", number)
    model = tmp_path / "model 🐈"
    assert itaml("learn", model, tmp_path / "photos", "--epochs", 1).code == 0
    assert sorted(ImageClassifier.open(model).classes) == sorted(names)
    out = itaml("info", model).out
    assert "emoji 🐈" in out
    assert "new\nline" not in out
    predictions = itaml("predict", model, tmp_path / "photos", "--format", "csv").out
    assert {row["class"] for row in csv.DictReader(io.StringIO(predictions))} <= set(names)


def test_names_that_look_alike_are_refused_in_one_learn(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'Cat' and 'cat' differ only in case; rename one"):
        check_names(["Cat", "cat"])
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    with pytest.raises(DataError, match="Unicode form"):
        check_names([composed, decomposed])
    for name in (composed, decomposed):
        paint(tmp_path / "photos" / name / "1.png")
    if len(os.listdir(tmp_path / "photos")) == 2:  # some file systems take them for one
        with pytest.raises(DataError, match="Unicode form"):
            ImageClassifier.create(tmp_path / "model").learn(tmp_path / "photos")
    with pytest.raises(DataError, match="not Unicode text"):
        check_names(["caf\udce9"])
    with pytest.raises(DataError, match="empty"):
        check_names([" "])


def test_names_of_later_learns_are_matched() -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    assert match_names([decomposed, "tea"], [composed]) == {decomposed: composed, "tea": "tea"}
    with pytest.raises(DataError, match="knows a class 'Cat', and 'cat' differs from it only in case; rename"):
        match_names(["cat"], ["Cat"])


def test_a_memory_smaller_than_the_classes_is_refused(itaml: Itaml, photos: Path, tmp_path: Path) -> None:
    code, _, err = itaml("learn", tmp_path / "model", photos, "--memory", 1)
    assert code == 2
    assert "smaller than the 2 classes" in err
    assert not (tmp_path / "model").exists()


def test_settings_of_a_model_do_not_change(itaml: Itaml, made: Path, digits: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "model")
    code, _, err = itaml("learn", tmp_path / "model", digits / "third", "--memory", 9, "--set", "lr=1")
    assert code == 2
    assert "leave out --memory, --set" in err
    code, _, err = itaml("learn", tmp_path / "new", digits / "third", "--backbone", "resnet")
    assert code == 2
    assert "resnet18" in err
    code, _, err = itaml("learn", tmp_path / "new", digits / "third", "--set", "epoks=1")
    assert code == 2
    assert "did you mean 'epochs'" in err
    assert not (tmp_path / "new").exists()


def test_an_empty_model_answers_with_a_sentence(itaml: Itaml, tmp_path: Path) -> None:
    ImageClassifier.create(tmp_path / "model")
    code, _, err = itaml("predict", tmp_path / "model", paint(tmp_path / "a.png"))
    assert code == 1
    assert "has not learned anything yet" in err
    assert "not learned anything" in itaml("info", tmp_path / "model").out
    code, _, err = itaml("info", tmp_path / "model", "--exemplars", tmp_path / "sheet.png")
    assert (code, "keeps no images yet" in err) == (1, True)


def test_damage_is_told_by_every_command(itaml: Itaml, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "model")
    tensors = tmp_path / "model" / "versions" / "000002" / "state.safetensors"
    data = bytearray(tensors.read_bytes())
    data[len(data) // 2] ^= 1
    tensors.write_bytes(data)
    for words in (("verify",), ("info",), ("predict", paint(tmp_path / "a.png"))):
        code, _, err = itaml(words[0], tmp_path / "model", *words[1:])
        assert code == 1
        assert "state.safetensors is damaged" in err
    mended = itaml("rollback", tmp_path / "model", "--json")
    assert mended.code == 0
    assert json.loads(mended.out)["to"] == ImageClassifier.open(tmp_path / "model").info()["version"]
    assert itaml("verify", tmp_path / "model").code == 0


def test_classes_of_several_folders_are_joined(photos: Path, tmp_path: Path) -> None:
    for number in range(6):
        paint(tmp_path / "more" / "cat" / f"more {number}.png", number + 20)
        paint(tmp_path / "more" / "owl" / f"{number}.png", number + 30)
    classifier = ImageClassifier.create(tmp_path / "model", epochs=1)
    record = classifier.learn([photos, tmp_path / "more"]).record
    assert record.images == {"cat": 11, "dog": 5, "owl": 5}
