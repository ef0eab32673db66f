"""Photos: LDA on the frozen features of EfficientNet-Lite0, exemplars in files that versions share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from itaml.modelstore.image_classifier import ImageClassifier

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (30, 40, 200), "yellow": (220, 210, 20)}


def write_photos(root: Path, names: tuple[str, ...], *, count: int = 3, seed: int = 0) -> Path:
    """Write noisy photos of one colour per class."""
    generator = np.random.default_rng(seed)
    for name in names:
        (root / name).mkdir(parents=True)
        for number in range(count):
            noise = generator.normal(0, 25, (40, 48, 3))
            pixels = (np.array(COLOURS[name]) + noise).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ImageClassifier:
    root = tmp_path_factory.mktemp("photos")
    classifier = ImageClassifier.create(root / "model")
    classifier.learn(write_photos(root / "first", ("red", "green")))
    classifier.learn(write_photos(root / "second", ("blue",), count=1))
    return classifier


def test_photos_are_learned_by_lda_on_frozen_features(model: ImageClassifier, tmp_path: Path) -> None:
    info = model.info()
    assert (info["method"], info["backbone"], info["shape"]) == ("lda", "efficientnet-lite0", (3, 224, 224))
    assert info["weights_sha256"].startswith("57934424")
    assert info["learns"][0]["images"] == {"red": 3, "green": 3}  # few images are all learned from
    assert info["learns"][0]["tasks"][0]["after"] == 1  # by leave-one-out
    files = sorted(write_photos(tmp_path, ("red", "green", "blue"), seed=1).rglob("*.png"))
    opened = ImageClassifier.open(model.path)
    assert [p.top[0][0] for p in opened.predict(files)] == [file.parent.name for file in files]


def test_the_score_of_unknown_photos_is_told_and_decides(model: ImageClassifier, tmp_path: Path) -> None:
    """Strange photos have higher scores than known ones, and `auto` compares the scores with the threshold."""
    known = model.predict(sorted(write_photos(tmp_path / "known", ("red", "green"), seed=1).rglob("*.png")))
    unknown = model.predict(sorted(write_photos(tmp_path / "unknown", ("yellow",), seed=1).rglob("*.png")))
    scores = [[one.unknown_score for one in part if one.unknown_score is not None] for part in (known, unknown)]
    assert list(map(len, scores)) == [6, 3]
    assert max(scores[0]) < min(scores[1])
    for one in (*known, *unknown):
        assert one.unknown_score is not None
        assert one.known == (one.unknown_score <= model.unknown_threshold)
        assert one.to_json()["unknown_score"] == one.unknown_score
    assert model.info()["unknown_threshold"] == model.unknown_threshold


def test_a_model_that_has_learned_nothing_calls_nothing_unknown(tmp_path: Path) -> None:
    empty = ImageClassifier.create(tmp_path / "empty")
    assert empty.unknown_threshold == float("inf")
    assert empty.info()["unknown_threshold"] is None


def test_exemplars_are_files_that_versions_share(model: ImageClassifier) -> None:
    assert len(list((model.path / "exemplars").iterdir())) == 7
    assert model.info()["exemplars"] == 7
    assert model.verify() == []


def test_a_damaged_exemplar_is_found(model: ImageClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "copy")
    file = next((tmp_path / "copy" / "exemplars").iterdir())
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert any(file.name in problem for problem in ImageClassifier.open(tmp_path / "copy").verify())


def test_rollback_removes_the_files_of_the_version_that_goes(model: ImageClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "copy")
    copy = ImageClassifier.open(tmp_path / "copy")
    copy.learn(write_photos(tmp_path / "more", ("yellow",)))
    assert len(list((copy.path / "exemplars").iterdir())) == 10
    copy.rollback()
    assert len(list((copy.path / "exemplars").iterdir())) == 7
    assert copy.verify() == []


def test_the_photos_of_the_readme_are_learned_and_named(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "make_photos.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    classifier = ImageClassifier.create(tmp_path / "shapes")
    classifier.learn(tmp_path / "first")
    classifier.learn(tmp_path / "second")
    found = classifier.predict(tmp_path / "new")
    right = [p.top[0][0] == Path(p.file or "").name.split("-")[0] for p in found]
    assert (len(right), sum(right) >= 6) == (8, True)


def test_nothing_of_a_purged_class_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    classifier = ImageClassifier.create(tmp_path / "model")
    classifier.learn(write_photos(tmp_path / "first", ("red", "green")))
    classifier.learn(write_photos(tmp_path / "second", ("blue",)))
    cache = tmp_path / "cache" / "itaml" / "features" / "features.sqlite"
    assert cache.is_file()
    manifest = classifier._model.manifest
    blue = [image for image in manifest.stored_images if manifest.classes[image.label] == "blue"]
    classifier.forget("blue", purge=True)
    assert not cache.exists(), "the features of its images are in there"
    assert len(blue) == 3
    for file in (path for path in classifier.path.rglob("*") if path.is_file()):
        content = file.read_bytes()
        assert b"blue" not in content
        for image in blue:
            assert image.sha256 not in file.name
            assert image.digest.encode() not in content
            assert bytes.fromhex(image.digest) not in content
    assert ImageClassifier.open(classifier.path).classes == ("green", "red")
