"""The index of files and the lazy store: exact pixels, bad images noted once, little memory."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from itaml.data.decoding import BadImageError
from itaml.data.image_files import LISTED, BadImages, FileIndex, FilePixels, list_images
from itaml.data.images import ImageSet, join
from itaml.errors import DataError


def image(path: Path, value: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 6), (value, value, value)).save(path)


def store(folder: Path, values: list[int | None], **options: object) -> FilePixels:
    """Make a store of images of one value each; None makes a file that is no image."""
    for number, value in enumerate(values):
        path = folder / f"{number:03d}.png"
        if value is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"rubbish")
        else:
            image(path, value)
    index = FileIndex.build([(str(folder), list_images(str(folder)))])
    return FilePixels(index, 4, **options)  # type: ignore[arg-type]


def test_paths_come_back_as_they_went_in() -> None:
    index = FileIndex.build([("/a", ["x.png", "sub/y.png"]), ("/b", []), ("/c", ["naïve 名.jpg"])])
    assert [index.path(row) for row in range(3)] == ["/a/x.png", "/a/sub/y.png", "/c/naïve 名.jpg"]
    assert index.folder_of.tolist() == [0, 0, 2]
    assert len(FileIndex.build([])) == 0


def test_an_index_costs_the_names_and_twelve_bytes_a_file() -> None:
    names = [f"n01440764_{number}.JPEG" for number in range(1000)]
    index = FileIndex.build([(f"/data/train/{folder}", names) for folder in range(100)])
    validation_images = len(index.names) + index.ends.nbytes + index.folder_of.nbytes
    assert len(index) == 100_000
    assert validation_images <= 100 * sum(map(len, names)) + 12 * 100_000 + 8


def test_only_images_are_listed_sorted_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.JPEG", "a.png", "notes.txt", ".hidden.png", "._a.png", "images/c.jpg", ".git/d.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list_images(str(tmp_path)) == ["a.png", "b.JPEG", "images/c.jpg"]


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_are_read_in_the_order_asked_for(tmp_path: Path, workers: int) -> None:
    pixels = store(tmp_path, list(range(40)), workers=workers)
    rows = torch.tensor([39, 0, 7, 7, *range(20)])
    images, kept = pixels.read(rows)
    assert images.shape == (24, 3, 4, 4)
    assert images.dtype == torch.uint8
    assert images[:, 0, 0, 0].tolist() == rows.tolist()
    assert kept.tolist() == list(range(24))


def test_no_rows_give_no_images(tmp_path: Path) -> None:
    images, kept = store(tmp_path, [1]).read(torch.empty(0, dtype=torch.int64))
    assert images.shape == (0, 3, 4, 4)
    assert kept.tolist() == []


@pytest.mark.parametrize("workers", [1, 3])
def test_bad_images_are_skipped_and_noted_once(tmp_path: Path, workers: int) -> None:
    pixels = store(tmp_path, [0, None, 2, 3, None, *range(5, 30)], workers=workers)
    images = ImageSet(pixels, torch.arange(30) + 100, torch.arange(30))
    for _ in range(2):
        read, labels = images.load()
        assert labels.tolist() == [100, 102, 103, *range(105, 130)]
        assert read[:, 0, 0, 0].tolist() == [0, 2, 3, *range(5, 30)]
    assert pixels.bad.count == 2
    assert sorted(pixels.bad.entries) == [
        (str(tmp_path / "001.png"), "not an image in a known format"),
        (str(tmp_path / "004.png"), "not an image in a known format"),
    ]


def test_each_part_of_a_joined_set_notes_its_bad_images(tmp_path: Path) -> None:
    first, second = store(tmp_path / "a", [None, 1]), store(tmp_path / "b", [None, None])
    sets = [ImageSet(pixels, torch.zeros(2, dtype=torch.int64), torch.arange(2)) for pixels in (first, second)]
    both = join(sets)
    assert len(both.load()[1]) == 1
    assert (first.bad.count, second.bad.count) == (1, 2)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_bad_image_is_an_error_if_that_is_wanted(tmp_path: Path, workers: int) -> None:
    pixels = store(tmp_path, [*range(20), None], on_bad="fail", workers=workers)
    with pytest.raises(DataError, match=r"cannot read .*020\.png: not an image") as caught:
        pixels.read(torch.arange(21))
    assert isinstance(caught.value, BadImageError)


def test_a_long_list_of_bad_images_is_cut_but_counted() -> None:
    bad = BadImages()
    for number in range(LISTED + 5):
        bad.add(f"{number}.png", "broken")
    assert (bad.count, len(bad.entries)) == (LISTED + 5, LISTED)


def test_the_index_benchmark_runs_small(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "index_million.py"
    spec = importlib.util.spec_from_file_location("index_million", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(["--files", "400", "--classes", "20", "--image-size", "16"])
    result = json.loads(capsys.readouterr().out)
    assert result["files"] == 400
    assert result["classes"] == 20
    assert result["first_task_images"] == 32  # 2 of 20 classes, 20 images each, a fifth of them for testing
    assert result["unreadable"] == 0
    assert result["seconds_to_first_batch"] < 30
    assert result["peak_rss_mib"] > 0
    assert np.isfinite(result["images_per_second"])
