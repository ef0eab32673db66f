"""Classes and tasks without a readable image: refused before training, with the names of the classes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from itaml.data.images import ImageSet
from itaml.data.readable import unreadable_classes
from itaml.data.stream import TaskStream
from itaml.errors import DataError
from itaml.events import Event
from itaml.experiment.build import make_stream
from itaml.experiment.run_config import RunConfig, resolve
from itaml.experiment.runner import run_experiment
from itaml.metrics.evaluate import evaluate
from support import fresh_itaml, synthetic_stream


def write_tree(root: Path, broken: set[str]) -> Path:
    """Write three classes with three training and two test images each; `broken` names folders of unreadable ones."""
    for part, count in (("train", 3), ("test", 2)):
        for number, name in enumerate(("ant", "bee", "cat")):
            folder = root / part / name
            folder.mkdir(parents=True)
            for image in range(count):
                path = folder / f"{image}.png"
                if f"{part}/{name}" in broken:
                    path.write_bytes(b"rubbish")
                else:
                    Image.new("RGB", (8, 8), (80 * number, image, 0)).save(path)
    return root


def config_of(root: Path, *, method: str = "replay") -> RunConfig:
    overrides = {"epochs": 1, "backbone": "mlp", "memory": 30}
    return resolve(f"folder:{root}", method=method, overrides=overrides, split=(1, 2), image_size=8)


def no_training(event: Event) -> None:
    raise AssertionError(f"{event} happened before the data was refused")


@pytest.mark.parametrize("method", ["replay", "itaml"])
def test_a_task_whose_training_images_are_all_unreadable_is_refused_before_training(
    tmp_path: Path, method: str
) -> None:
    root = write_tree(tmp_path / "data", {"train/ant"})
    with pytest.raises(DataError, match="no training image can be read of ant: mend or remove"):
        run_experiment(config_of(root, method=method), tmp_path / "run", callbacks=[no_training])
    assert not (tmp_path / "run").exists()


def test_every_class_without_a_readable_training_image_is_named(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train/ant", "train/cat"})
    with pytest.raises(DataError, match="no training image can be read of ant, cat:"):
        make_stream(config_of(root))


def test_a_task_whose_test_images_are_all_unreadable_is_refused_before_training(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "data", {"test/ant"})
    with pytest.raises(DataError, match=r"task 0 \(ant\) has no test image that can be read"):
        run_experiment(config_of(root), tmp_path / "run", callbacks=[no_training])


def test_a_task_with_one_readable_test_image_is_accepted(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"test/bee"})
    (root / "train" / "ant" / "0.png").write_bytes(b"rubbish")
    assert len(make_stream(config_of(root))) == 2


class _CountedPixels:
    """A store of which only the rows from `first_good` on can be read; it counts the rows asked for."""

    shape = (1, 2, 2)

    def __init__(self, count: int, first_good: int) -> None:
        self.count, self.first_good, self.asked = count, first_good, 0

    def __len__(self) -> int:
        return self.count

    def read(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.asked += len(rows)
        kept = (rows >= self.first_good).nonzero().flatten()
        return torch.zeros(len(kept), *self.shape), kept


def test_readable_classes_cost_one_image_each() -> None:
    pixels = _CountedPixels(1000, first_good=0)
    images = ImageSet(pixels, torch.arange(1000) % 10, torch.arange(1000))
    assert unreadable_classes(images, range(10)) == []
    assert pixels.asked == 10


def test_a_class_is_read_on_until_an_image_is_readable() -> None:
    pixels = _CountedPixels(1000, first_good=995)
    images = ImageSet(pixels, torch.arange(1000) % 10, torch.arange(1000))
    assert unreadable_classes(images, [9, 4, 5, 12]) == [4, 12]  # rows 995 to 999 are of classes 5 to 9


def test_evaluating_a_task_without_a_readable_test_image_is_an_error_that_names_it() -> None:
    stream = synthetic_stream((2, 2))
    learner = fresh_itaml()
    learner.learn(stream[0])
    nothing = ImageSet(_CountedPixels(9, first_good=9), torch.zeros(9, dtype=torch.int64), torch.arange(9))
    broken = TaskStream(type(stream.dataset)("broken", ("a", "b", "c", "d"), stream.dataset.train, nothing), ((0, 1),))
    with pytest.raises(DataError, match=r"task 0 \(a, b\) has no test image that can be read"):
        evaluate(learner, broken, seen=1, continuum_sizes=(1,), seed=0)
