"""`--precision`, `--device` and `--threads`: wherever something trains or predicts, as a command and in Python."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer.main
from PIL import Image

from itaml import ImageClassifier
from itaml.cli.main import _run, app
from itaml.errors import SettingsError
from itaml.experiment.sweep.compare import plan
from itaml.experiment.sweep.executors.pool import LocalPool
from itaml.experiment.sweep.run_queue import RunQueue
from itaml.hardware.probe import Outcome
from itaml.learners import compute
from itaml.learners.learner import GradientLearner
from itaml.sklearn import ITAMLClassifier
from support import Force

CRASH = "precision bf16 does not work on this machine: the trial was ended by SIGILL; use precision fp32 or auto"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for name, colour in (("red", 0), ("blue", 2)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(4):
            pixels = generator.integers(0, 90, (20, 20, 3), dtype=np.uint8)
            pixels[..., colour] += 120
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.jpg")
    return tmp_path / "photos"


@pytest.mark.parametrize("command", ["learn", "predict", "run", "compare", "ablate"])
def test_every_command_that_trains_or_predicts_takes_precision_device_and_threads(command: str) -> None:
    root: Any = typer.main.get_command(app)
    options = {word for option in root.commands[command].params for word in option.opts}
    assert {"--precision", "--device", "--threads"} <= options


@pytest.mark.parametrize(
    "words",
    [
        ["learn", "MODEL", "PHOTOS"],
        ["run", "small8", "--out", "MODEL"],
        ["compare", "small8", "--methods", "itaml,replay", "--runs", "MODEL", "--quiet"],
        ["ablate", "small8", "--over", "beta", "--values", "0.5,1", "--runs", "MODEL", "--quiet"],
    ],
    ids=lambda words: str(words[0]),
)
@pytest.mark.usefixtures("small_benchmarks")
def test_bf16_that_crashes_is_one_line_and_leaves_nothing_behind(
    forced: Force, words: list[str], photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forced("crashed")
    places = {"MODEL": str(tmp_path / "made"), "PHOTOS": str(photos)}
    assert _run([places.get(word, word) for word in words] + ["--device", "cpu", "--precision", "bf16"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"error: {CRASH}\n")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(("outcome", "bf16"), [("crashed", False), ("slow", False), ("fast", True)])
def test_a_model_with_defaults_takes_the_format_that_the_probe_allows(
    monkeypatch: pytest.MonkeyPatch, forced: Force, outcome: Outcome, bf16: bool, photos: Path, tmp_path: Path
) -> None:
    """Where the probe is forced to `fast` on a CPU that crashes, nothing must be computed in bf16 for real."""
    monkeypatch.setattr(compute, "has_bf16_instructions", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(compute, "autocast", lambda device, *, bf16: contextlib.nullcontext)
    forced(outcome)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        words = ["learn", str(tmp_path / "model"), str(photos), "--json", "--epochs", "1", "--image-size", "16"]
        assert _run([*words, "--backbone", "resnet18-small"]) == 0
    assert json.loads(said.getvalue())["new"] == ["blue", "red"]
    learner = ImageClassifier.open(tmp_path / "model", device="cpu")._model.learner
    assert isinstance(learner, GradientLearner)
    assert learner.context.bf16 is bf16


def test_the_model_on_disk_takes_precision_and_threads(
    monkeypatch: pytest.MonkeyPatch, forced: Force, photos: Path, tmp_path: Path
) -> None:
    forced("crashed")
    seen: list[int] = []

    def predict_images(*_: Any, **__: Any) -> list[Any]:
        seen.append(torch.get_num_threads())
        return []

    monkeypatch.setattr("itaml.modelstore.image_classifier.predict_images", predict_images)
    classifier = ImageClassifier.create(
        tmp_path / "model", device="cpu", precision="fp32", threads=2, epochs=1, image_size=8
    )
    classifier.learn(photos)
    classifier.predict(sorted(photos.rglob("*.jpg")))
    assert seen == [2]
    assert torch.get_num_threads() == 1
    with pytest.raises(SettingsError, match="precision bf16 does not work"):
        ImageClassifier.open(tmp_path / "model", device="cpu", precision="bf16")
    with pytest.raises(SettingsError, match="bf16 does not work"):
        ImageClassifier.create(tmp_path / "other", device="cpu", precision="bf16")
    with pytest.raises(SettingsError, match=r"option precision: must be 'auto', 'fp32' or 'bf16' \(got 'fp8'\)"):
        ImageClassifier.open(tmp_path / "model", precision="fp8")
    with pytest.raises(SettingsError, match="threads must be a whole number"):
        ImageClassifier.open(tmp_path / "model", threads=0)
    assert not (tmp_path / "other").exists()


def test_the_estimator_takes_precision_and_threads(forced: Force) -> None:
    features = np.random.default_rng(0).normal(size=(20, 4))
    labels = np.arange(20) % 2

    def weights(**options: Any) -> torch.dtype:
        learner = ITAMLClassifier(epochs=1, **options).fit(features, labels).learner_
        assert isinstance(learner, GradientLearner)
        return next(learner.model.parameters()).dtype

    assert weights() == torch.float64
    assert weights(precision="fp32", threads=1) == torch.float32
    forced("crashed")
    with pytest.raises(SettingsError, match="precision bf16 does not work"):
        weights(precision="bf16")
    with pytest.raises(SettingsError, match="threads must be a whole number"):
        weights(threads=0)


@pytest.mark.usefixtures("small_benchmarks")
@pytest.mark.parametrize(("threads", "given"), [(3, 3), (None, 1)])
def test_each_run_of_many_gets_the_threads_that_were_asked_for(tmp_path: Path, threads: int | None, given: int) -> None:
    jobs = plan("small", methods=["itaml"], presets=["best"], seeds=[0], runs=tmp_path / "runs")
    code = f"import sys; open({str(tmp_path / 'order')!r}, 'w').write(sys.stdin.read())"
    RunQueue(jobs, LocalPool(1, threads=threads, command=(sys.executable, "-c", code))).run(every=0.01)
    assert json.loads((tmp_path / "order").read_text())["threads"] == given
