"""Hostile files of labels and exported models: pipes, archives that reach outside, damage, values of other types."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path

import pytest

from itaml.errors import CheckpointError, DataError
from itaml.exchange.exported_classifier import ExportedClassifier
from itaml.exchange.label_files import labelled_files, read_label_file
from itaml.exchange.onnx_export import INPUT
from itaml.exchange.onnx_graph import FORMAT

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


@pytest.mark.parametrize(
    ("part", "key"),
    [("images", "id"), ("annotations", "image_id"), ("annotations", "category_id"), ("categories", "id")],
)
def test_ids_that_are_lists_are_refused_in_words(tmp_path: Path, part: str, key: str) -> None:
    (tmp_path / "l.json").write_text(json.dumps({**COCO, part: [{**COCO[part][0], key: []}]}))
    with pytest.raises(DataError, match="a value has another type than its format says"):
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


def test_an_exported_model_that_is_a_pipe_does_not_hang(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(CheckpointError, match=r"m\.onnx cannot be read as ONNX: .* is not a regular file"):
        ExportedClassifier(tmp_path / "m.onnx")
    with pytest.raises(CheckpointError, match=r"none\.onnx cannot be read as ONNX: no such file"):
        ExportedClassifier(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    "change",
    [
        {"classes": "[" * 100_000},
        {"classes": "9" * 5000},
        {"image_shape": "[3, 1000000000, 1000000000]"},
        {"image_shape": "[3, 1e999, 8]"},
        {"temperature": "x"},
        {"tasks": "3"},
    ],
)
def test_metadata_of_an_exported_model_is_checked(tmp_path: Path, change: dict[str, str]) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, good = onnx.helper, {"itaml_format": FORMAT, "classes": '["a"]', "tasks": '[["a"]]', "temperature": "1"}
    value = helper.make_tensor_value_info(INPUT, onnx.TensorProto.UINT8, ["n", 8, 8, 3])
    output = helper.make_tensor_value_info("out", onnx.TensorProto.UINT8, ["n", 8, 8, 3])
    node = helper.make_node("Identity", [INPUT], ["out"])
    model = helper.make_model(
        helper.make_graph([node], "g", [value], [output]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    helper.set_model_props(model, {**good, "unknown_threshold": "0", "image_shape": "[3, 8, 8]", **change})
    onnx.save(model, str(tmp_path / "m.onnx"))
    with pytest.raises(CheckpointError, match="is not a model that itaml exported"):
        ExportedClassifier(tmp_path / "m.onnx")
