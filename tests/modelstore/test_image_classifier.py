"""Learning and naming: classes that come over time, in new processes, and what the report says."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from itaml.errors import DataError, SettingsError
from itaml.modelstore.defaults import ImageStatistics, choose, default_epochs, default_image_size, default_settings
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.manifest import Options
from itaml.modelstore.predictions import task_error
from itaml.modelstore.validation import for_validation, validation_share
from modelstore_support import SPLITS, accuracy

LEARN = """
import sys, torch
from itaml import ImageClassifier
torch.set_num_threads(1)
ImageClassifier.open(sys.argv[1]).learn(sys.argv[2])
"""


@pytest.mark.slow
def test_learning_in_three_processes_is_learning_in_one(digits: Path, tmp_path: Path) -> None:
    apart = ImageClassifier.create(tmp_path / "apart", memory=200, epochs=4)
    together = ImageClassifier.create(tmp_path / "together", memory=200, epochs=4)
    for name in SPLITS:
        subprocess.run([sys.executable, "-c", LEARN, tmp_path / "apart", digits / name], check=True)
        together.learn(digits / name)
    apart.reload()
    assert apart.classes == together.classes == tuple(f"digit {label}" for label in range(8))
    here, there = accuracy(together, digits, tuple(SPLITS)), accuracy(apart, digits, tuple(SPLITS))
    assert here > 0.9
    assert abs(here - there) <= 0.01


def test_the_report_tells_what_was_learned_and_forgotten(digits: Path, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "model")
    classifier = ImageClassifier.open(tmp_path / "model")
    record = classifier.learn(digits / "third").record
    assert record.new == ("digit 7",)
    assert record.known == ()
    assert set(record.images) == {"digit 7"}
    assert record.validation_images == round(0.1 * (record.images["digit 7"] + record.validation_images))
    assert [score.task for score in record.tasks] == [0, 1, 2]
    assert all(score.before is not None and score.after is not None for score in record.tasks[:2])
    assert record.tasks[2].before is None
    assert record.tasks[2].after is not None
    assert [task.classes for task in classifier.tasks] == [
        tuple(f"digit {n}" for n in part) for part in SPLITS.values()
    ]
    exemplars, validation_images = (
        sum(task.exemplars for task in classifier.tasks),
        sum(task.validation_images for task in classifier.tasks),
    )
    assert validation_images == 8 * validation_share(200, 8)
    assert exemplars + validation_images == 200  # the whole budget, never more


def test_known_classes_are_refreshed_and_make_no_task(digits: Path, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "model")
    classifier = ImageClassifier.open(tmp_path / "model")
    record = classifier.learn(digits / "second", epochs=2).record
    assert (record.new, record.known) == ((), ("digit 4", "digit 5", "digit 6"))
    assert record.epochs == 2
    assert [task.index for task in classifier.tasks] == [0, 1]
    before = ImageClassifier.open(made).tasks[1]
    assert record.duplicates == before.exemplars + before.validation_images  # what is kept is not learned as new
    assert classifier.tasks[1].images == before.images + sum(record.images.values())
    assert accuracy(classifier, digits, ("first", "second")) > 0.85
    mixed = tmp_path / "mixed"
    shutil.copytree(digits / "third", mixed)
    shutil.copytree(digits / "first" / "digit 0", mixed / "digit 0")
    record = classifier.learn(mixed, epochs=2).record
    assert (record.new, record.known) == (("digit 7",), ("digit 0",))
    assert classifier.tasks[2].classes == ("digit 7",)


def test_groups_find_the_task_together(digits: Path, made: Path) -> None:
    classifier = ImageClassifier.open(made)
    files = [str(file) for label in (1, 5) for file in sorted((digits / "test" / f"digit {label}").iterdir())[:20]]
    each, folder = classifier.predict(files), classifier.predict(files, group="folder")
    stream = classifier.predict(files, group="stream")
    assert len({prediction.group for prediction in each}) == 40
    for predictions in (folder, stream):
        assert [prediction.group for prediction in predictions] == [0] * 20 + [1] * 20
        assert [prediction.task for prediction in predictions] == [0] * 20 + [1] * 20
    assert {prediction.task for prediction in classifier.predict(files[:20], group="all")} == {0}
    known = classifier.predict(files, group="stream", mean_run=20)
    assert [prediction.label for prediction in known] == [prediction.label for prediction in stream]
    assert 0 < task_error(classifier._model) < 0.5


def test_top_and_unknown(digits: Path, made: Path) -> None:
    classifier = ImageClassifier.open(made)
    files = sorted((digits / "test" / "digit 7").iterdir())  # never learned
    predictions = classifier.predict(files, top=3, unknown=1.0)
    assert {prediction.label for prediction in predictions} == {"unknown"}
    never = classifier.predict(files, unknown="never")
    assert all(prediction.known and prediction.label in classifier.classes for prediction in never)
    assert [prediction.confidence for prediction in never] == [prediction.confidence for prediction in predictions]
    for prediction in predictions:
        assert len(prediction.top) == 3
        assert prediction.confidence == prediction.top[0][1]
    assert all(len(prediction.top) == 7 for prediction in classifier.predict(files, top=99))
    with pytest.raises(SettingsError, match="top must be a whole number of at least 1, not 0"):
        classifier.predict(files, top=0)
    with pytest.raises(SettingsError, match="group must be each, all, folder or stream"):
        classifier.predict(files, group="class")  # type: ignore[arg-type]


def test_arrays_are_learned_and_named(tmp_path: Path) -> None:
    raw = load_digits()
    few = raw.target < 3
    classifier = ImageClassifier.create(tmp_path / "model", epochs=5)
    classifier.learn(raw.images[few].astype(np.float32) / 16, raw.target[few])
    classifier.learn((raw.images[raw.target == 3] / 16)[..., None], ["three"] * int((raw.target == 3).sum()))
    assert classifier.classes == ("0", "1", "2", "three")
    predictions = classifier.predict(raw.images[raw.target == 3] / 16)
    assert np.mean([prediction.label == "three" for prediction in predictions]) > 0.9
    assert predictions[0].file is None
    with pytest.raises(DataError, match="2 images but 1 label; give one label for each image"):
        classifier.learn(np.zeros((2, 8, 8)), [1])
    with pytest.raises(DataError, match="NaN"):
        classifier.learn(np.full((2, 8, 8), np.nan), [1, 2])
    with pytest.raises(DataError, match="in no folders to group them by"):
        classifier.predict(np.zeros((2, 8, 8)), group="folder")


def test_a_learn_in_another_process_is_not_lost(digits: Path, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "model")
    early = ImageClassifier.open(tmp_path / "model")
    ImageClassifier.open(tmp_path / "model").learn(digits / "third", epochs=1)
    early.learn(digits / "first", epochs=1)  # opened before the other learned
    assert "digit 7" in early.classes


def test_the_same_seed_repeats_a_learn_to_the_bit(digits: Path, tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> torch.Tensor:
        classifier = ImageClassifier.create(tmp_path / name, epochs=1, seed=seed)
        classifier.learn(digits / "first")
        weight: torch.Tensor = classifier._model.ready.state_dict()["model"]["head.weight"]
        return weight.clone()

    assert torch.equal(weights("a", 1), weights("b", 1))
    assert not torch.equal(weights("c", 1), weights("d", 2))


def test_grey_model_reads_coloured_files(tmp_path: Path) -> None:
    raw = load_digits()
    few = raw.target < 2
    classifier = ImageClassifier.create(tmp_path / "model", epochs=5)
    classifier.learn((raw.images[few] * 15).astype(np.uint8), raw.target[few])
    Image.fromarray((raw.images[0] * 15).astype(np.uint8)).convert("RGB").resize((32, 32)).save(tmp_path / "zero.png")
    assert classifier.predict(tmp_path / "zero.png")[0].label == "0"


def test_what_is_chosen_follows_the_images() -> None:
    free = Options()
    assert [default_image_size(free, ImageStatistics(100, side, False)) for side in (5, 8, 9, 20, 28, 47, 48, 300)] == [
        8, 8, 12, 20, 32, 32, 64, 64,
    ]  # fmt: skip
    assert default_image_size(Options(image_size=40), ImageStatistics(100, 300, False)) == 40
    assert [default_epochs(free, images) for images in (10, 3_000, 100_000)] == [60, 20, 8]
    assert settings(free, ImageStatistics(300, 200, False), 64)[1:] == ("resnet18-small", "crop-flip", 32, "open")
    assert settings(free, ImageStatistics(5000, 28, True), 32, gpu=True)[2] == "crop"  # letters must not be flipped
    with pytest.raises(SettingsError, match="16 pixels or more"):
        settings(Options(backbone="resnet18-third"), ImageStatistics(9, 8, True), 8)


def settings(options: Options, statistics: ImageStatistics, side: int, *, gpu: bool = False) -> tuple[Any, ...]:
    choice = choose(options, statistics, gpu=gpu)
    found = default_settings(options, choice, statistics, (3, side, side)).model_dump()
    return choice.method, *(found.get(name) for name in ("backbone", "augment", "batch_size", "horizon"))


@pytest.mark.parametrize(
    ("options", "photos", "expected"),
    [
        ({}, True, ("lda", "efficientnet-lite0", 224)),
        ({"method": "itaml"}, True, ("itaml", "efficientnet-lite0", 224)),
        ({"method": "ncm", "image_size": 96}, True, ("ncm", "efficientnet-lite0", 96)),
        ({"backbone": "resnet18-small"}, True, ("itaml", "resnet18-small", 64)),
        ({"backbone": "efficientnet-lite0"}, False, ("lda", "efficientnet-lite0", 224)),
        ({"image_size": 16}, True, ("itaml", "mlp", 16)),
        ({}, False, ("itaml", "resnet18-small", 64)),
        ({"method": "lda"}, False, ("lda", "pixels", 64)),
        ({"method": "icarl"}, False, ("icarl", "resnet18-small", 64)),
    ],
)
def test_photos_are_learned_on_frozen_features_unless_told(
    options: dict[str, Any], photos: bool, expected: tuple[str, str, int]
) -> None:
    choice = choose(Options(**options), ImageStatistics(100, 300, not photos, photos), gpu=False)
    assert (choice.method, choice.backbone, choice.image_size) == expected


def test_tiny_classes_keep_their_images_for_training() -> None:
    labels = torch.tensor([0, 1, 1, 1, 2, 2, 2, 2] + [3] * 50)
    held = for_validation(labels, torch.arange(len(labels)))
    assert torch.bincount(labels[held]).tolist() == [0, 0, 1, 5]
    assert held.nonzero().flatten().tolist() == [4, 8, 9, 10, 11, 12]  # those with the smallest keys
    assert not for_validation(labels, torch.arange(len(labels)), least=51).any()


@pytest.mark.parametrize("budget", [1, 7, 40, 200, 2000])
def test_training_shares_never_grow_as_classes_arrive(budget: int) -> None:
    shares = [budget // classes - validation_share(budget, classes) for classes in range(1, budget + 1)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(shares))
    assert all(share > 0 for share in shares)


def test_a_network_with_convolutions_learns_photos(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for name, colour in (("red", 0), ("blue", 2)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = generator.integers(0, 90, (50 + number, 60, 3), dtype=np.uint8)
            pixels[..., colour] += 120
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.jpg")
    classifier = ImageClassifier.create(tmp_path / "model", epochs=4, image_size=16, backbone="resnet18-small")
    report = classifier.learn(tmp_path / "photos")
    assert report.record.validation_images == 2
    assert classifier.info()["shape"] == (3, 16, 16)
    assert len(classifier.predict(sorted((tmp_path / "photos").rglob("*.jpg")))) == 12
