"""Hostile files of labels: archives that reach outside, damaged ones, and values of other types."""

from __future__ import annotations

import contextlib
import json
import os
import random
import zipfile
from pathlib import Path

import pytest

from itaml.errors import DataError
from itaml.exchange.label_files import labelled_files, read_label_file

COCO: dict[str, list[dict[str, object]]] = {
    "images": [{"id": 1, "file_name": "a.png"}],
    "annotations": [{"image_id": 1, "category_id": 1}],
    "categories": [{"id": 1, "name": "x"}],
}


def zipped(path: Path, members: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("prefix", ["", "../" * 20])
@pytest.mark.parametrize("member", ["labels", "image"])
def test_an_archive_cannot_touch_a_file_outside(tmp_path: Path, prefix: str, member: str) -> None:
    """The place of the file of labels was once taken from its name, and that file was moved away and deleted."""
    precious = tmp_path / "precious.json"
    precious.write_text("precious")
    image = {"l.json": b"{}", prefix + str(tmp_path / "x.png"): b""}
    archive = zipped(tmp_path / "a.zip", image if member == "image" else {prefix + str(precious): b"{}"})
    with pytest.raises(DataError, match="is not a name that an archive may hold"), labelled_files([archive]):
        pass
    assert precious.read_text() == "precious"
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_of_other_compressions_is_refused(tmp_path: Path, method: int) -> None:
    archive = zipped(tmp_path / "a.zip", {"l.json": b"{}"}, method=method)
    with pytest.raises(DataError, match="another method than deflate"), labelled_files([archive]):
        pass


def test_damaged_archives_are_refused_in_words(tmp_path: Path) -> None:
    data = bytearray(zipped(tmp_path / "a.zip", {"l.json": json.dumps(COCO).encode() * 5}).read_bytes())
    draw = random.Random(0)
    for _ in range(200):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 6)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        (tmp_path / "b.zip").write_bytes(changed)
        with pytest.raises(DataError), labelled_files([tmp_path / "b.zip"]):
            pass


def test_an_archive_that_is_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.zip")
    with pytest.raises(DataError, match="not a regular file"), labelled_files([tmp_path / "a.zip"]):
        pass


@pytest.mark.parametrize("part", list(COCO))
@pytest.mark.parametrize("key", ["id", "image_id", "category_id"])
def test_ids_that_are_lists_are_refused_in_words(tmp_path: Path, part: str, key: str) -> None:
    (tmp_path / "l.json").write_text(json.dumps({**COCO, part: [{**COCO[part][0], key: []}]}))
    with contextlib.suppress(DataError):
        read_label_file(tmp_path / "l.json")


@pytest.mark.parametrize("choices", [1, True, 1.5])
def test_choices_that_are_no_list_are_refused_in_words(tmp_path: Path, choices: object) -> None:
    result = [{"type": "choices", "value": {"choices": choices}}]
    task = {"data": {"image": "a.png"}, "annotations": [{"result": result}]}
    (tmp_path / "l.json").write_text(json.dumps([task]))
    with pytest.raises(DataError, match="another type than its format says"):
        read_label_file(tmp_path / "l.json")


def test_an_unknown_encoding_of_xml_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "l.xml").write_bytes(b'<?xml version="1.0" encoding="nope"?><annotations/>')
    with pytest.raises(DataError, match="unknown encoding"):
        read_label_file(tmp_path / "l.xml")
