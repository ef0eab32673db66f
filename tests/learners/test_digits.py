"""Every method on digits, within the band that it should reach: too low is a broken method, too high a leak."""

from __future__ import annotations

from pathlib import Path

import pytest

from itaml.data.stream import TaskStream
from itaml.errors import SettingsError
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.learners import LEARNERS
from itaml.metrics.evaluate import evaluate

BANDS = {  # class accuracy at p = 1 after five tasks of two digits; chance is 0.1, the last task alone is 0.2
    "finetune": (0.15, 0.21),
    "fixedrep": (0.22, 0.45),
    "joint": (0.93, 1.0),
    "replay": (0.88, 0.98),
    "ewc": (0.15, 0.24),
    "online-ewc": (0.15, 0.24),
    "si": (0.15, 0.24),
    "mas": (0.15, 0.30),
    "rwalk": (0.85, 0.98),
    "lwf": (0.15, 0.35),
    "gem": (0.86, 0.98),
    "icarl": (0.84, 0.97),
    "bic": (0.88, 0.98),
    "reptile": (0.70, 0.98),
    "fomaml": (0.70, 0.98),
    "dgr": (0.30, 0.80),
    "rtf": (0.40, 0.90),
    "dmc": (0.25, 0.70),
    "rpsnet": (0.82, 0.98),
}
EPOCHS = {"fixedrep": 4, "dgr": 8, "rtf": 8, "dmc": 8}  # 2 for the others
TASK_AWARE = {"fixedrep": 0.75, "dgr": 0.8, "dmc": 0.75}  # 0.9 for the others


@pytest.fixture(scope="module")
def digits() -> TaskStream:
    return make_stream(resolve("digits", method="finetune"), data_root=Path())


def accuracy(stream: TaskStream, method: str, preset: str = "best") -> tuple[float, float]:
    """Return class accuracy at p = 1, and with the task told."""
    config = resolve("digits", method=method, preset=preset, overrides={"epochs": EPOCHS.get(method, 2)})
    learner = make_learner(config, stream)
    for task in stream:
        learner.learn(task)
    found = evaluate(learner, stream, seen=len(stream), continuum_sizes=[1], seed=0)
    assert found.task_aware is not None
    return found.at[1].classes, found.task_aware


@pytest.mark.parametrize("method", BANDS)
def test_method_is_within_its_band(method: str, digits: TaskStream) -> None:
    low, high = BANDS[method]
    classes, task_aware = accuracy(digits, method)
    assert low <= classes <= high
    assert task_aware >= TASK_AWARE.get(method, 0.9)


def test_rwalk_needs_its_exemplars(digits: TaskStream) -> None:
    assert accuracy(digits, "rwalk", "alone")[0] < 0.3


def test_bic_with_too_little_room_for_validation_is_refused_before_training(digits: TaskStream) -> None:
    config = resolve("digits", method="bic", overrides={"memory": 50})
    with pytest.raises(SettingsError, match="50 images, of which a part has 5, is smaller than the 10 classes"):
        make_learner(config, digits)


@pytest.mark.parametrize("method", BANDS)
def test_every_method_has_a_page_and_a_preset(method: str) -> None:
    assert method in LEARNERS.names()
    assert resolve("mnist-5", method=method).settings["backbone"] == "mlp"
    page = Path(__file__).parents[2] / "docs" / "methods" / f"{method}.md"
    assert f"<!-- result: mnist-5 {method} best class@1 -->" in page.read_text(encoding="utf-8")
