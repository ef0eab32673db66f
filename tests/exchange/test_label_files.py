"""Labels as tools export them, written by hand in their formats."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from exchange_support import run_itaml
from itaml.errors import DataError
from itaml.exchange.label_export import EXPORTERS
from itaml.exchange.label_files import labelled_files, read_label_file
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.predictions import ImagePrediction
from modelstore_support import TINY, digits_of

STUDIO = [
    {
        "id": 11,
        "data": {"image": "/data/upload/3/1a2b3c4d-a.png"},
        "annotations": [
            {
                "id": 1,
                "was_cancelled": False,
                "result": [
                    {"from_name": "choice", "to_name": "image", "type": "choices", "value": {"choices": ["cat"]}}
                ],
            }
        ],
        "predictions": [],
    },
    {
        "id": 12,
        "data": {"image": "/data/local-files/?d=sub/b.png"},
        "annotations": [
            {"was_cancelled": True, "result": [{"type": "choices", "value": {"choices": ["cat"]}}]},
            {"was_cancelled": False, "result": [{"type": "choices", "value": {"choices": ["dog"]}}]},
        ],
    },
    {"id": 13, "data": {"image": "c.png"}, "annotations": []},
    {
        "id": 14,
        "data": {"image": "c.png"},
        "annotations": [
            {"result": [{"type": "choices", "value": {"choices": ["cat"]}}]},
            {"result": [{"type": "choices", "value": {"choices": ["dog"]}}]},
        ],
    },
]
COCO = {
    "info": {"year": 2026},
    "images": [
        {"id": 1, "file_name": "a.png", "width": 4, "height": 4},
        {"id": 2, "file_name": "sub/b.png", "width": 4, "height": 4},
    ],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 7, "bbox": [0, 0, 2, 2], "area": 4, "iscrowd": 0},
        {"id": 2, "image_id": 1, "category_id": 7},
        {"id": 3, "image_id": 2, "category_id": 9},
    ],
    "categories": [{"id": 7, "name": "cat", "supercategory": "animal"}, {"id": 9, "name": "dog"}],
}
CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta><task><id>5</id><name>pets</name><size>3</size><mode>annotation</mode>
    <labels><label><name>cat</name><type>tag</type></label><label><name>dog</name><type>tag</type></label></labels>
  </task></meta>
  <image id="0" name="a.png" width="4" height="4"><tag label="cat" source="manual"></tag></image>
  <image id="1" name="sub/b.png" width="4" height="4"><tag label="dog" source="manual"></tag></image>
  <image id="2" name="c.png" width="4" height="4"></image>
</annotations>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for name in ("a.png", "sub/b.png", "c.png"):
        Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / name)
    return tmp_path


def check_two(path: Path) -> tuple[str, ...]:
    """Assert that a file labels a.png and sub/b.png; return its notes."""
    found = read_label_file(path)
    assert [Path(file).relative_to(path.parent).as_posix() for file in found.paths] == ["a.png", "sub/b.png"]
    assert found.labels == ("cat", "dog")
    return found.notes


@pytest.mark.parametrize(
    "text",
    [
        "path,label\na.png,cat\nsub/b.png,dog\n",
        "\ufefflabel,split,file\r\ncat,train,a.png\r\ndog,test,sub\\b.png\r\n",
        'a.png,cat\n\n"sub/b.png", dog \n',
    ],
)
def test_csv_with_and_without_a_header(folder: Path, text: str) -> None:
    (folder / "labels.csv").write_text(text, encoding="utf-8", newline="")
    assert check_two(folder / "labels.csv") == ()


def test_label_studio(folder: Path) -> None:
    (folder / "project.json").write_text(json.dumps(STUDIO))
    several, without = check_two(folder / "project.json")
    assert several == "1 image with more than one label had to be left out (task 14: cat, dog)"
    assert without == "1 image without a label had to be left out (task 13)"


def test_label_studio_in_its_small_format(folder: Path) -> None:
    tasks = [
        {"image": "/data/upload/3/a.png", "id": 1, "choice": "cat"},
        {"image": "sub/b.png", "id": 2, "choice": "dog"},
    ]
    (folder / "min.json").write_text(json.dumps(tasks))
    assert check_two(folder / "min.json") == ()


def test_coco(folder: Path) -> None:
    (folder / "coco.json").write_text(json.dumps(COCO))
    assert check_two(folder / "coco.json") == ()


def test_cvat(folder: Path) -> None:
    (folder / "annotations.xml").write_text(CVAT)
    assert check_two(folder / "annotations.xml") == ("1 image without a label had to be left out (image 2)",)


def test_an_archive_of_cvat_is_unpacked_while_it_is_needed(folder: Path) -> None:
    with zipfile.ZipFile(folder / "task.zip", "w") as archive:
        archive.writestr("annotations.xml", CVAT)
        archive.write(folder / "a.png", "images/a.png")
        archive.write(folder / "sub" / "b.png", "images/sub/b.png")
    with labelled_files([folder / "task.zip"]) as found:
        assert found.labels == ("cat", "dog")
        assert all(Path(path).read_bytes() == (folder / "a.png").read_bytes() for path in found.paths)
    assert not any(Path(path).exists() for path in found.paths)


def test_the_folder_of_the_images_may_be_another(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("labels") / "labels.csv"
    elsewhere.write_text("path,label\na.png,cat\n")
    assert read_label_file(elsewhere, images=folder).paths == (str(folder / "a.png"),)
    with pytest.raises(DataError, match=r"row 2: there is no image 'a\.png' in .*; name the folder"):
        read_label_file(elsewhere)


WRONG = [
    (
        "a.csv",
        "path,label\n\na.png,cat\nmissing.png,dog\nno.png,dog\n",
        r"row 4: there is no image 'missing\.png'.*1 others",
    ),
    ("a.csv", "path,label\n../../etc/passwd,cat\n", r"row 2: '\.\./\.\./etc/passwd' is not in the folder"),
    ("a.csv", "path,label\n/etc/passwd,cat\n", "row 2: '/etc/passwd' is not in the folder"),
    ("a.csv", "path,label\nhttps://example.org/a.png,cat\n", "row 2: https://example.org/a.png is an address"),
    ("a.csv", "path,label\na.png\n", "row 2: a path and a label are needed"),
    ("a.csv", "path,name\na.png,cat\n", "row 1: the columns are path and label, not path, name"),
    ("a.csv", "path,label\n ,cat\n", "row 2: the path is empty"),
    ("a.csv", "", "it is empty"),
    (
        "a.csv",
        "path,label\na.png,\n",
        r"has no image with a label; 1 image without a label had to be left out \(row 2\)",
    ),
    ("a.json", "[1]", "task 1: not an object"),
    ("a.json", '[{"id": 5, "data": {}}]', "task 5: there is no text `image`"),
    ("a.json", '{"images": []}', "a COCO file has the lists"),
    (
        "a.json",
        json.dumps({**COCO, "annotations": [{"id": 8, "image_id": 1, "category_id": 1}]}),
        "annotation 8: there is no category 1",
    ),
    ("a.json", "[" * 100_000, "nested too deeply"),
    ("a.xml", "<annotations><track/></annotations>", "it is of a video"),
    ("a.xml", "<html/>", "the first element of a file of CVAT is annotations, not html"),
    ("a.xml", '<!DOCTYPE a [<!ENTITY b "c">]><annotations/>', "it declares entities"),
    ("a.xml", "<annotations>", "cannot be read"),
    ("a.txt", "", "is not a file of labels"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG)
def test_what_is_wrong_is_said_with_its_place(folder: Path, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_label_file(folder / name)


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.png"
    outside.write_bytes((folder / "a.png").read_bytes())
    (folder / "link.png").symlink_to(outside)
    (folder / "labels.csv").write_text("path,label\nlink.png,cat\n")
    with pytest.raises(DataError, match=r"row 2: 'link\.png' is not in the folder"):
        read_label_file(folder / "labels.csv")


def prediction(file: Path, label: str, *, known: bool = True, error: str | None = None) -> ImagePrediction:
    return ImagePrediction(str(file), label if known else "unknown", 0.75, 0, 0, ((label, 0.75),), error, known)


def test_predictions_are_read_back_from_every_format(folder: Path) -> None:
    found = [
        prediction(folder / "a.png", "cat"),
        prediction(folder / "sub" / "b.png", "dog"),
        prediction(folder / "c.png", "dog", known=False),
        prediction(folder / "broken.png", "dog", known=False, error="broken"),
    ]
    for name, suffix in (("coco", "json"), ("cvat", "xml")):
        file = folder / f"{name}.{suffix}"
        file.write_text(EXPORTERS[name](found, ("cat", "dog")))
        (note,) = check_two(file)
        assert note.startswith("1 image without a label")
    image = ElementTree.fromstring(EXPORTERS["cvat"](found, ("cat", "dog"))).findall("image")[0]
    assert image.attrib == {"id": "0", "name": str(folder / "a.png"), "width": "4", "height": "4"}
    tasks = json.loads(EXPORTERS["label-studio"](found, ("cat", "dog")))
    assert [task["data"]["image"] for task in tasks] == [str(row.file) for row in found[:3]]
    assert tasks[0]["predictions"][0]["score"] == 0.75
    assert tasks[0]["predictions"][0]["result"][0]["value"] == {"choices": ["cat"]}
    assert tasks[2]["predictions"] == []
    scores = json.loads(EXPORTERS["coco"](found, ("cat", "dog")))["annotations"]
    assert scores[1] == {"id": 2, "image_id": 2, "category_id": 2, "score": 0.75}


def test_the_commands_learn_from_labels_and_print_for_label_tools(tmp_path: Path) -> None:
    images, labels = digits_of((0, 1), limit=12)
    rows = ["path,label"]
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,digit {label}")
    rows.append("0.png,")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    done = run_itaml("learn", tmp_path / "model", tmp_path / "labels.csv", "--backbone", TINY, "--epochs", 2, "--json")
    assert done.code == 0, done.err
    record = json.loads(done.out)
    assert sum(record["images"].values()) + record["validation_images"] == 24
    assert record["notes"] == ["1 image without a label had to be left out (row 26)"]
    assert ImageClassifier.open(tmp_path / "model").classes == ("digit 0", "digit 1")
    printed = run_itaml("predict", tmp_path / "model", tmp_path / "0.png", "--format", "coco", "--unknown", "never")
    assert [entry["name"] for entry in json.loads(printed.out)["categories"]] == ["digit 0", "digit 1"]
    both = run_itaml("learn", tmp_path / "model", tmp_path, tmp_path / "labels.csv")
    assert (both.code, "give folders or files of labels, not both" in both.err) == (2, True)
    alone = run_itaml("learn", tmp_path / "model", tmp_path, "--images", tmp_path)
    assert (alone.code, "--images is for files of labels" in alone.err) == (2, True)
