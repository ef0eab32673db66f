"""Tables that versions share: written once, checked, mended, gone with the last version that names them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from itaml.errors import CheckpointError
from itaml.modelstore import shared_tables
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.manifest import StoredImage, manifest_from
from itaml.modelstore.model_folder import ModelFolder
from itaml.modelstore.repair import rollback, verify
from itaml.modelstore.shared_tables import join, rows_per_file, split
from modelstore_support import digits_of

STATE = {
    "learner": {"sums": torch.arange(4000.0, dtype=torch.float64).view(40, 100), "name": "x", "weights": torch.ones(3)},
    "memory": {"images": {str(label): torch.full((label, 3), label) for label in range(6)}, "none": {}},
    "bias": {"a": torch.zeros(2, 3), "b": torch.zeros(2, 4)},
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tables, "SMALLEST", 64)


def joined(state: dict[str, Any], files: dict[str, memoryview]) -> dict[str, Any]:
    return join(state, {name: len(data) for name, data in files.items()}, lambda name, size: bytes(files[name])[:size])


def same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    return bool(first == second)


def test_join_is_the_inverse_of_split() -> None:
    state, files = split(STATE)
    assert len(files) == 3 + 1  # 40 rows of sums in files of 16, and 15 rows of images
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in files.items())
    assert same(joined(state, files), STATE)


def test_a_table_has_some_ten_files_whatever_its_length() -> None:
    assert [rows_per_file(rows) for rows in (1, 100, 128, 255, 256, 1000, 1_000_000)] == [16, 16, 16, 16, 32, 64, 65536]
    assert all(rows / rows_per_file(rows) < 17 for rows in range(1, 100_000, 77))


def test_rows_that_are_added_leave_the_files_before_them() -> None:
    rows = torch.randn(120, 9, generator=torch.Generator().manual_seed(0))
    few, many = split({"sums": rows[:100]})[1], split({"sums": rows})[1]
    assert len(few.keys() & many.keys()) == 6
    assert len(many.keys() - few.keys()) == 2


def test_equal_rows_stay_in_the_state() -> None:
    """A file belongs to one place, so that a few bytes of a stranger's state cannot ask for much memory."""
    state, files = split({"sums": torch.zeros(64, 8)})
    assert files == {}
    assert torch.equal(state["sums"], torch.zeros(64, 8))


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update(files=table["files"] * 2),
        lambda table: table.update(files=table["files"][:-1]),
        lambda table: table.update(files=["../../precious"]),
        lambda table: table.update(files=None),
        lambda table: table.update(shape=[40, 10**9]),
        lambda table: table.update(shape=[-40, -100]),
        lambda table: table.update(shape=[10**30]),
        lambda table: table.update(shape="x"),
        lambda table: table.update(dtype="object"),
        lambda table: table.clear(),
    ],
)
def test_a_wrong_table_is_one_sentence(change: Any) -> None:
    state, files = split(STATE)
    change(state["learner"]["sums"]["$table"])
    with pytest.raises(CheckpointError, match="tables of the state are damaged"):
        joined(state, files)


def test_rows_of_no_table_are_refused() -> None:
    state, files = split(STATE)
    with pytest.raises(CheckpointError, match="rows that are in no table"):
        joined({**state, "learner": {}}, files)


@pytest.fixture
def classifier(tmp_path: Path) -> ImageClassifier:
    made = ImageClassifier.create(tmp_path / "model", method="lda", memory=200)
    made.learn(*digits_of((0, 1, 2)))
    made.learn(*digits_of((3,)))
    return made


def tables(model: Path) -> set[str]:
    return {path.name for path in (model / "tables").iterdir()}


def test_versions_share_what_stayed_as_it_was(classifier: ImageClassifier) -> None:
    before = tables(classifier.path)
    records = [ModelFolder(classifier.path).read_version(pointer).manifest.tables for pointer in pointers(classifier)]
    assert set(records[0]) & set(records[1])
    assert before == {f"{name}.rows" for record in records for name in record}
    classifier.learn(*digits_of((4,)))
    assert before & tables(classifier.path)
    assert verify(classifier.path)[1] == []
    expected = classifier.predict(digits_of((0, 3, 4))[0])
    assert ImageClassifier.open(classifier.path).predict(digits_of((0, 3, 4))[0]) == expected


def pointers(classifier: ImageClassifier) -> list[Any]:
    from itaml.modelstore.checksummed_json import Pointer

    return [Pointer(number, None) for number in ModelFolder(classifier.path).numbers()]


def test_a_damaged_table_is_found_and_the_next_learn_mends_it(classifier: ImageClassifier) -> None:
    shared = set.intersection(
        *(set(ModelFolder(classifier.path).read_version(one).manifest.tables) for one in pointers(classifier))
    )
    path = classifier.path / "tables" / f"{min(shared)}.rows"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert len(verify(classifier.path)[1]) == 2
    opened = ImageClassifier.open(classifier.path)
    assert opened.predict(digits_of((0, 3))[0]) == classifier.predict(digits_of((0, 3))[0])
    assert rollback(classifier.path)[1] == 1
    ImageClassifier.open(classifier.path).learn(*digits_of((3, 4)))
    assert verify(classifier.path)[1] == []
    assert path.read_bytes() == data


@pytest.mark.parametrize("lost", [["0"], ["3"], ["0", "3"]])
def test_one_file_of_a_table_is_restored_and_two_are_not(lost: list[str]) -> None:
    rows = torch.randn(60, 9, generator=torch.Generator().manual_seed(0))  # in files of 16, 16, 16 and 12 rows
    state, files = split({"sums": rows})
    names = list(files)
    for number in lost:
        del files[names[int(number)]]
    sizes = {name: 36 * (12 if number == 3 else 16) for number, name in enumerate(names)}

    def read(name: str, size: int) -> bytes:
        if name not in files:
            raise CheckpointError("it is missing")
        return bytes(files[name])

    if len(lost) == 1:
        assert torch.equal(join(state, sizes, read)["sums"], rows)
        state["sums"]["$table"]["parity"][0] += 1
    with pytest.raises(CheckpointError, match="it is missing"):
        join(state, sizes, read)


def test_a_table_that_is_missing_is_said(classifier: ImageClassifier) -> None:
    (classifier.path / "tables" / min(tables(classifier.path))).unlink()
    assert "is missing" in verify(classifier.path)[1][0]


def test_a_folder_of_tables_that_is_a_link_is_not_followed(classifier: ImageClassifier, tmp_path: Path) -> None:
    (classifier.path / "tables").rename(tmp_path / "away")
    (classifier.path / "tables").symlink_to(tmp_path / "away")
    with pytest.raises(CheckpointError, match="is a symbolic link, which is not followed"):
        ImageClassifier.open(classifier.path)
    with pytest.raises(CheckpointError, match="is a symbolic link, which is not followed"):
        classifier.learn(*digits_of((4,)))


def test_a_rollback_removes_the_tables_of_the_version_that_goes(classifier: ImageClassifier) -> None:
    rollback(classifier.path)
    manifest = ModelFolder(classifier.path).read().manifest
    assert tables(classifier.path) == {f"{name}.rows" for name in manifest.tables}


def test_a_purge_leaves_no_row_of_the_class(classifier: ImageClassifier) -> None:
    sums = ImageClassifier.open(classifier.path)._model.core.statistics.sums  # type: ignore[attr-defined]
    gone = sums[1].numpy().tobytes()
    places = [path for path in classifier.path.rglob("*") if path.is_file()]
    assert any(gone in path.read_bytes() for path in places)
    classifier.forget("1", purge=True)
    assert not any(gone in path.read_bytes() for path in classifier.path.rglob("*") if path.is_file())
    assert verify(classifier.path)[1] == []


def test_stored_images_of_older_records_are_read() -> None:
    image = StoredImage(label=0, kind="exemplar", digest="a" * 32, sha256="b" * 64, size=9)
    body: dict[str, Any] = {"options": {}, "classes": ["x"], "tasks": [{"classes": ["x"], "learned": ""}]}
    for shown in (image.model_dump(), [0, "exemplar", "a" * 32, "b" * 64, 9]):
        assert manifest_from(Path("model.json"), {**body, "stored_images": [shown]}).stored_images == (image,)


@pytest.mark.parametrize(
    "row",
    [
        [],
        [0, "exemplar", "a" * 32, "b" * 64, True],
        [-1, "exemplar", "a" * 32, "b" * 64, 9],
        [0, "photo", "a" * 32, "b" * 64, 9],
        [0, "exemplar", "../" * 8, "b" * 64, 9],
        [0, "exemplar", "a" * 32, "B" * 64, 9],
        [0, "exemplar", None, "b" * 64, 9],
    ],
)
def test_a_wrong_row_of_a_stored_image_is_one_sentence(row: list[Any]) -> None:
    body: dict[str, Any] = {"options": {}, "classes": ["x"], "tasks": [{"classes": ["x"], "learned": ""}]}
    with pytest.raises(CheckpointError, match="does not describe a model"):
        manifest_from(Path("model.json"), {**body, "stored_images": [row]})
