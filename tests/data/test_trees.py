"""Folders of images: any tree, Tiny-ImageNet, ImageNet and faces, made here in their original layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from itaml.data.benchmarks import LoadOptions, benchmark, build_stream
from itaml.data.image_files import FilePixels
from itaml.data.images import ImageSet
from itaml.data.sources import celeb, folder, imagenet, tiny_imagenet
from itaml.data.sources.tree import readable_names
from itaml.errors import DataError, SettingsError


def image(path: Path, value: int = 0, side: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side, side), (value, value, value)).save(path)


def values(images: ImageSet) -> list[tuple[int, int]]:
    """Return (label, pixel value) of every image."""
    pixels, labels = images.load()
    return list(zip(labels.tolist(), pixels[:, 0, 0, 0].tolist(), strict=True))


def noted(images: ImageSet) -> list[tuple[str, str]]:
    """Return the unreadable files that a set has noted, with the reasons."""
    assert isinstance(images.pixels, FilePixels)
    return images.pixels.bad.entries


def test_train_and_test_folders_are_used(tmp_path: Path) -> None:
    for part, shift in (("train", 0), ("test", 100)):
        for number, name in enumerate(("ant", "bee")):
            image(tmp_path / part / name / "deep" / "0.png", number + shift)
    dataset = folder.load(LoadOptions(root=tmp_path, image_size=4))
    assert dataset.class_names == ("ant", "bee")
    assert values(dataset.train) == [(0, 0), (1, 1)]
    assert values(dataset.test) == [(0, 100), (1, 101)]
    assert dataset.train.shape == (3, 4, 4)


def test_without_them_a_fifth_is_held_out_always_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for number in range(10):
            image(tmp_path / name / f"{number}.png", number)
    first = folder.load(LoadOptions(root=tmp_path, image_size=8))
    again = folder.load(LoadOptions(root=tmp_path, image_size=8))
    assert len(first.train) == 16
    assert len(first.test) == 4
    assert values(first.test) == values(again.test)
    assert sorted(values(first.train) + values(first.test)) == [
        (label, number) for label in (0, 1) for number in range(10)
    ]
    image(tmp_path / "a" / "new.png", 10)
    grown = folder.load(LoadOptions(root=tmp_path, image_size=8))
    assert len(set(values(first.test)) - set(values(grown.test))) <= 1


def test_a_single_image_is_for_training(tmp_path: Path) -> None:
    image(tmp_path / "a" / "0.png")
    dataset = folder.load(LoadOptions(root=tmp_path))
    assert (len(dataset.train), len(dataset.test)) == (1, 0)


def test_an_empty_class_folder_is_left_out_and_noted_or_refused(tmp_path: Path) -> None:
    image(tmp_path / "a" / "0.png", 1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "readme.txt").write_text("no images")
    image(tmp_path / "c" / "0.png", 3)
    dataset = folder.load(LoadOptions(root=tmp_path))
    assert dataset.class_names == ("a", "c")
    assert values(dataset.train) == [(0, 1), (1, 3)]
    assert noted(dataset.train) == [(str(tmp_path / "b"), "no images of this class")]
    with pytest.raises(DataError, match=r"cannot use .*/b: no images"):
        folder.load(LoadOptions(root=tmp_path, on_bad_image="fail"))


def test_bad_images_are_skipped_or_refused_as_the_options_say(tmp_path: Path) -> None:
    for number in range(4):
        image(tmp_path / "train" / "a" / f"{number}.png", number)
    image(tmp_path / "val" / "a" / "0.png")
    (tmp_path / "train" / "a" / "2.png").write_bytes(b"")
    dataset = folder.load(LoadOptions(root=tmp_path))
    assert values(dataset.train) == [(0, 0), (0, 1), (0, 3)]
    assert noted(dataset.train) == [(str(tmp_path / "train/a/2.png"), "the file is empty")]
    with pytest.raises(DataError, match=r"2\.png: the file is empty"):
        folder.load(LoadOptions(root=tmp_path, on_bad_image="fail")).train.load()


@pytest.mark.parametrize("kind", ["nowhere", "empty", "images only", "no image at all", "test only"])
def test_what_is_no_tree_of_classes_is_refused(tmp_path: Path, kind: str) -> None:
    root, message = tmp_path, ""
    if kind == "nowhere":
        root, message = tmp_path / "x", "cannot read the folder .* no such file"
    elif kind == "empty":
        message = "no class folders"
    elif kind == "images only":
        image(root / "0.png")
        message = "no class folders"
    elif kind == "no image at all":
        (root / "a").mkdir()
        message = "no images in 1 class"
    else:
        image(root / "train" / "a" / "0.png")
        image(root / "test" / "b" / "0.png")
        message = "classes without training images: b"
    with pytest.raises(DataError, match=message):
        folder.load(LoadOptions(root=root))


def test_a_folder_is_a_benchmark(tmp_path: Path) -> None:
    for name in "abc":
        for number in range(5):
            image(tmp_path / name / f"{number}.png")
    stream = build_stream(benchmark(f"folder:{tmp_path}"), LoadOptions(root=tmp_path / "elsewhere", image_size=8))
    assert [task.classes for task in stream] == [(0,), (1,), (2,)]  # fewer classes than the usual 5 tasks
    with pytest.raises(SettingsError, match="folder:PATH"):
        benchmark("folder:")


def write_tiny(root: Path, *, images: bool, annotated: bool) -> None:
    for number, wnid in enumerate(("n02", "n01", "n03")):
        for count in range(2):
            image(root / "train" / wnid / ("images" if images else "") / f"{wnid}_{count}.JPEG", 50 * number, side=64)
        where = root / "val" / ("images" if annotated else wnid)
        image(where / f"val_{number}.JPEG", 50 * number + 20, side=64)
    (root / "words.txt").write_text("n01\tcrane\nn02\tgoldfish, Carassius auratus\nn03\tcrane\nn99\tother\n")
    if annotated:
        lines = [f"val_{number}.JPEG\t{wnid}\t0\t0\t9\t9\n" for number, wnid in enumerate(("n02", "n01", "n03"))]
        (root / "val" / "val_annotations.txt").write_text("".join(lines))


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize("annotated", [True, False])
def test_tiny_imagenet_is_read_in_both_layouts(tmp_path: Path, images: bool, annotated: bool) -> None:
    write_tiny(tmp_path / "tiny-imagenet-200", images=images, annotated=annotated)
    dataset = tiny_imagenet.load(LoadOptions(root=tmp_path))
    assert dataset.class_names == ("crane (n01)", "goldfish", "crane (n03)")
    assert dataset.train.shape == (3, 64, 64)
    assert values(dataset.train) == [(0, 50), (0, 50), (1, 0), (1, 0), (2, 100), (2, 100)]
    assert values(dataset.test) == [(0, 70), (1, 20), (2, 120)]


@pytest.mark.parametrize(
    ("line", "message"), [("x.JPEG\tn77\n", "class n77"), ("rubbish\n", "line 1"), ("../x\tn01\n", "line 1")]
)
def test_annotations_that_do_not_fit_are_refused(tmp_path: Path, line: str, message: str) -> None:
    write_tiny(tmp_path / "tiny-imagenet-200", images=True, annotated=True)
    (tmp_path / "tiny-imagenet-200/val/val_annotations.txt").write_text(line)
    with pytest.raises(DataError, match=message):
        tiny_imagenet.load(LoadOptions(root=tmp_path))


def write_imagenet(root: Path, classes: int) -> None:
    image(root / "train" / "n00000000" / "0.JPEG", 9)
    for number in range(classes):
        for part in ("train", "val"):
            path = root / part / f"n{number:08d}" / "0.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.symlink_to(root / "train" / "n00000000" / "0.JPEG")


def test_imagenet_100_is_the_seed_1993_choice(tmp_path: Path) -> None:
    write_imagenet(tmp_path / "imagenet", 1000)
    hundred = imagenet.load_100(LoadOptions(root=tmp_path, image_size=8))
    assert hundred.class_names[:5] == ("n00000054", "n00000007", "n00000894", "n00000512", "n00000126")
    assert len(set(hundred.class_names)) == 100
    assert (len(hundred.train), len(hundred.test)) == (100, 100)
    everything = imagenet.load_1k(LoadOptions(root=tmp_path, image_size=8))
    assert everything.class_names == tuple(f"n{number:08d}" for number in range(1000))
    assert values(everything.test.select(torch.tensor([0, 999]))) == [(0, 9), (999, 9)]


def test_a_list_names_the_classes_of_imagenet_100(tmp_path: Path) -> None:
    write_imagenet(tmp_path / "imagenet-100", 12)
    with pytest.raises(DataError, match="12 classes, not 1000 or 100"):
        imagenet.load_100(LoadOptions(root=tmp_path))
    (tmp_path / "imagenet100.txt").write_text("# mine\nn00000007 seven\n\nn00000003\n")
    assert imagenet.load_100(LoadOptions(root=tmp_path)).class_names == ("n00000007", "n00000003")
    for wrong, message in (("n00000077", "n00000077"), ("n00000007\nn00000007", "twice")):
        (tmp_path / "imagenet100.txt").write_text(wrong)
        with pytest.raises(DataError, match=message):
            imagenet.load_100(LoadOptions(root=tmp_path))


def test_missing_imagenet_says_that_it_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"image-net\.org"):
        imagenet.load_1k(LoadOptions(root=tmp_path))


def test_faces_are_held_out_of_each_identity(tmp_path: Path) -> None:
    for name in ("m.01", "m.02"):
        for number in range(5):
            image(tmp_path / "celeb-10k" / name / f"{number}.jpg")
    dataset = celeb.load(LoadOptions(root=tmp_path, image_size=16))
    assert dataset.class_names == ("m.01", "m.02")
    assert dataset.test.labels.tolist() == [0, 1]
    assert np.bincount(dataset.train.labels.numpy()).tolist() == [4, 4]
    with pytest.raises(DataError, match="withdrawn"):
        celeb.load(LoadOptions(root=tmp_path / "elsewhere"))


def test_ids_without_words_stay_ids(tmp_path: Path) -> None:
    assert readable_names(["n01", "n02"], tmp_path / "words.txt") == ("n01", "n02")


def test_a_class_folder_whose_name_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "\udcff").mkdir()
    with pytest.raises(DataError, match="a name that is not Unicode text; rename it"):
        folder.load(LoadOptions(root=tmp_path))
