"""The commands of a model as people meet them: counts, names in other scripts, questions before a loss, JSON."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from itaml.cli.progress import LearningProgress
from itaml.data import decoding as decode
from itaml.events import EpochDone, TaskStarted
from itaml.modelstore import fonts
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.image_listing import list_images, notes_about, what_to_install
from modelstore_support import TINY, Ran, digits_of, tiny_model

Itaml = Callable[..., Ran]


def write(root: Path, classes: dict[str, int], *, limit: int = 6) -> Path:
    """Write images of digits below `root`, one folder for each class."""
    for name, digit in classes.items():
        (root / name).mkdir(parents=True)
        for number, image in enumerate(digits_of((digit,), limit=limit)[0]):
            Image.fromarray(image).save(root / name / f"{number}.png")
    return root


def learn(itaml: Itaml, model: Path, data: Path, *words: object) -> Ran:
    new = () if model.exists() else ("--backbone", TINY)
    return itaml("learn", model, data, "--epochs", 1, *new, *words)


@pytest.fixture
def model(itaml: Itaml, tmp_path: Path) -> Path:
    assert learn(itaml, tmp_path / "model", write(tmp_path / "first", {"zero": 0, "日本": 1})).code == 0
    return tmp_path / "model"


def test_the_first_learn_is_version_1(itaml: Itaml, tmp_path: Path) -> None:
    ran = learn(itaml, tmp_path / "m", write(tmp_path / "d", {"zero": 0, "one": 1}), "--json")
    told = json.loads(ran.out)
    assert (told["version"], told["changed"], told["new"]) == (1, True, ["one", "zero"])
    assert json.loads(itaml("info", tmp_path / "m", "--json").out)["versions_kept"] == [0, 1]


def test_duplicates_are_reported_and_the_model_stays(itaml: Itaml, model: Path, tmp_path: Path) -> None:
    ran = learn(itaml, model, tmp_path / "first")
    assert ran.code == 0
    assert "nothing to learn: all images are known already" in ran.out
    assert "note: 12 images known already, not stored again" in ran.err
    told = json.loads(learn(itaml, model, tmp_path / "first", "--json").out)
    assert (told["version"], told["changed"], told["duplicates"]) == (1, False, 12)


def test_moved_images_are_reported(itaml: Itaml, model: Path, tmp_path: Path) -> None:
    ran = learn(itaml, model, write(tmp_path / "mended", {"null": 0}, limit=1))
    assert "note: 1 image moved from another class: the newer label counts" in ran.err
    assert "learned 1 new class (null) from 1 image" in ran.out
    assert "knows 3 classes in 2 tasks" in ran.out


def test_files_of_unknown_formats_are_counted_and_named(itaml: Itaml, tmp_path: Path) -> None:
    data = write(tmp_path / "d", {"zero": 0, "one": 1})
    for name in ("a.heic", "b.HEIF", "notes.txt", ".hidden"):
        (data / "one" / name).write_text("x")
    ran = learn(itaml, tmp_path / "m", data)
    assert ran.code == 0
    if not decode.heif_installed():
        assert "note: 2 HEIC files left out (" in ran.err
        assert "`pip install pillow-heif`" in ran.err
    assert f"note: 1 file left out, not of a known image format ({data / 'one' / 'notes.txt'})" in ran.err
    assert ".hidden" not in ran.err
    told = itaml("predict", tmp_path / "m", data / "one")
    assert "notes.txt" in told.err
    assert json.loads(itaml("predict", tmp_path / "m", data / "one", "--json").out)["notes"]


def test_a_folder_of_heic_photos_alone_says_what_to_install(
    itaml: Itaml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "heif_installed", lambda: False)
    (tmp_path / "d" / "cat").mkdir(parents=True)
    (tmp_path / "d" / "cat" / "a.heic").write_text("x")
    ran = learn(itaml, tmp_path / "m", tmp_path / "d")
    assert (ran.code, "pip install pillow-heif" in ran.err) == (1, True)
    assert not (tmp_path / "m").exists()


def test_heic_is_an_image_where_its_reader_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.heic").write_text("x")
    monkeypatch.setattr(decode, "heif_installed", lambda: False)
    assert list_images(str(tmp_path)).others == ("a.heic",)
    assert "pip install pillow-heif" in what_to_install("a.HEIC")
    assert what_to_install("a.png") == ""
    monkeypatch.setattr(decode, "heif_installed", lambda: True)
    assert list_images(str(tmp_path)).images == ("a.heic",)
    assert notes_about([]) == []
    assert notes_about([f"{n}.txt" for n in range(7)])[0].endswith("4.txt and 2 more)")


def test_rollback_that_empties_a_model_needs_yes(itaml: Itaml, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    ran = itaml("rollback", model)
    assert ran.code == 2
    assert "would go back to version 0, which knows nothing" in ran.err
    assert "add --yes" in ran.err
    assert len(ImageClassifier.open(model).classes) == 2
    ran = itaml("rollback", model, "--yes")
    assert (ran.code, ran.out) == (0, f"{model} went from version 1 back to version 0, which knows nothing\n")
    assert ImageClassifier.open(model).classes == ()
    assert "no earlier version" in itaml("rollback", model).err


def test_rollback_that_empties_a_model_asks_on_a_terminal(
    itaml: Itaml, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    asked: list[str] = []

    def confirm(text: str, *, abort: bool) -> None:
        asked.append(text)
        raise typer.Abort

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(typer, "confirm", confirm)
    assert itaml("rollback", model).code == 130
    assert "everything learned would be lost" in asked[0]
    assert len(ImageClassifier.open(model).classes) == 2


def test_rollback_says_what_is_known_afterwards(itaml: Itaml, model: Path, tmp_path: Path) -> None:
    learn(itaml, model, write(tmp_path / "more", {"two": 2}))
    ran = itaml("rollback", model)
    assert ran.out.endswith("back to version 1, which knows 2 classes (zero, 日本)\n")


def test_every_command_of_a_model_prints_json(itaml: Itaml, model: Path, tmp_path: Path) -> None:
    image = tmp_path / "first" / "zero" / "0.png"
    told = json.loads(itaml("predict", model, image, "--top", 2, "--json").out)
    assert (told["model"], told["version"]) == (str(model), 1)
    (one,) = told["predictions"]
    assert (one["file"], one["known"], one["task"], len(one["top"])) == (str(image), True, 1, 2)
    assert isinstance(one["unknown_score"], float)
    assert told["unknown_threshold"] is None, "too few validation images to set one"
    assert json.loads(itaml("verify", model, "--json").out) == {"model": str(model), "files": 4, "problems": []}
    info = json.loads(itaml("info", model, "--json").out)
    assert (info["tasks"][0]["index"], info["learns"][0]["tasks"][0]["task"]) == (0, 0)
    told = json.loads(itaml("rollback", model, "--yes", "--json").out)
    assert (told["from"], told["to"], told["classes"]) == (1, 0, 0)
    assert "exclude each other" in itaml("predict", model, image, "--json", "--format", "csv").err


def test_wide_names_do_not_shift_columns(itaml: Itaml, model: Path, tmp_path: Path) -> None:
    from rich.cells import cell_len

    for task_map in (itaml("predict", model, tmp_path / "first").out, itaml("info", model).out):
        assert "?" not in task_map
    lines = itaml("predict", model, tmp_path / "first").out.splitlines()
    ends = {cell_len(line.rstrip()) for line in lines}
    assert len(ends) == 1  # the last column is of numbers, aligned to the right


def test_names_that_no_font_can_write_get_a_number_and_a_legend(
    itaml: Itaml, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts, "_installed", tuple)
    ran = itaml("info", model, "--exemplars", tmp_path / "sheet.png")
    assert "class 2 there is 日本, which no font of this machine can write" in ran.out
    assert "zero, which no font" not in ran.out
    assert (tmp_path / "sheet.png").stat().st_size > 0


def test_a_font_is_taken_only_if_it_has_every_character(monkeypatch: pytest.MonkeyPatch) -> None:
    own = fonts.font_for("cat", size=12)
    assert own is not None
    assert fonts._writes(own, "cat 1")
    assert not fonts._writes(own, "cat 日本")
    tried: list[str] = []
    monkeypatch.setattr(fonts, "_installed", lambda: ("broken.ttf", "good.ttf"))

    def load(path: str, size: int) -> fonts.Font | None:
        tried.append(path)
        return own if path == "good.ttf" else None

    monkeypatch.setattr(fonts, "_load", load)
    monkeypatch.setattr(fonts, "_writes", lambda font, text: bool(tried))
    assert fonts.font_for("日本", size=12) is own
    assert tried == ["broken.ttf", "good.ttf"]


def test_progress_names_the_task_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    with LearningProgress(None, live=False) as progress:
        progress(TaskStarted(2, ("7",), 10, 0, 1))
        progress(EpochDone(2, 1, 1, 0.5, 10, 0.1, 0.1))
        progress(TaskStarted(3, (), 10, 0, 1))
        progress(EpochDone(3, 1, 1, 0.5, 10, 0.1, 0.1))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("task 3  epoch 1/1")
    assert lines[1].startswith("known classes  epoch 1/1")


def test_one_image_is_singular(itaml: Itaml, model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_text("no image")
    assert "1 of 1 image could not be read" in itaml("predict", model, tmp_path / "bad").err
    data = write(tmp_path / "more", {"two": 2})
    (data / "two" / "a.png").write_text("no image")
    assert "note: 1 image could not be read" in learn(itaml, model, data).err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_among_the_images_is_left_out(itaml: Itaml, tmp_path: Path) -> None:
    data = write(tmp_path / "d", {"zero": 0, "one": 1})
    os.mkfifo(data / "one" / "pipe.png")
    ran = learn(itaml, tmp_path / "m", data)
    assert ran.code == 0
    assert "pipe.png" in ran.err


def test_a_learn_that_fails_leaves_no_new_folder(itaml: Itaml, tmp_path: Path) -> None:
    data = write(tmp_path / "d", {"zero": 0, "unknown": 1})
    ran = learn(itaml, tmp_path / "m", data)
    assert (ran.code, "a class cannot be called 'unknown'" in ran.err) == (1, True)
    assert not (tmp_path / "m").exists()


def test_an_empty_model_takes_new_options_and_stays_version_0(itaml: Itaml, tmp_path: Path) -> None:
    tiny_model(tmp_path / "m", memory=50)
    assert tiny_model(tmp_path / "m", memory=60).version == 0
    assert ImageClassifier.open(tmp_path / "m").info()["memory"] == 60
    ran = itaml("learn", tmp_path / "m", write(tmp_path / "d", {"zero": 0, "one": 1}), "--memory", 70, "--epochs", 1)
    assert ran.code == 0
    info = ImageClassifier.open(tmp_path / "m").info()
    assert (info["version"], info["memory"]) == (1, 70)
    assert np.prod(info["shape"]) == 192
