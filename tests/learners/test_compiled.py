"""`--compile`: what is translated, what is refused, and that numbers stay what they are."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from experiment_support import numbers, short
from itaml.config import Compute, Seeds
from itaml.data.stream import TaskStream
from itaml.errors import SettingsError
from itaml.experiment.run_folder import CONFIG
from itaml.experiment.runner import run_experiment
from itaml.learners.compiled import MAX_SHAPES, allow_shapes
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.learners.methods.reptile import Reptile
from itaml.learners.methods.rtf import RtF
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier
from support import SHAPE

COMPILE = Compute(device="cpu", precision="fp32", compile=True)


def learner_of(compute: Compute, **settings: Any) -> GradientLearner:
    torch.manual_seed(0)
    model = Classifier(mlp(SHAPE, hidden=(8,)), shape=SHAPE)
    options = ITAMLSettings(epochs=1, batch_size=8, memory=12, horizon=3, **settings)
    return GradientLearner(ITAML, model, settings=options, seeds=Seeds.of(0), compute=compute)


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stand in for torch.compile, which takes long; collects how many images each call has."""
    sizes: list[int] = []

    def stand_in(module: torch.nn.Module, *, dynamic: bool) -> Any:
        assert not dynamic

        def call(images: Tensor) -> Any:
            sizes.append(len(images))
            return module(images)

        return call

    monkeypatch.setattr(torch, "compile", stand_in)
    return sizes


def test_whole_batches_of_training_are_compiled_and_nothing_else(
    translated: list[int], tiny_stream: TaskStream
) -> None:
    learner = learner_of(COMPILE)
    learner.learn(tiny_stream[0])  # 20 images: 8, 8 and 4
    assert translated == [8, 8]
    learner.predict(tiny_stream[0].train.load()[0][:8])
    assert translated == [8, 8]


def test_the_state_knows_nothing_of_it(translated: list[int], tiny_stream: TaskStream) -> None:
    compiled, plain = learner_of(COMPILE), learner_of(Compute(device="cpu", precision="fp32"))
    for learner in (compiled, plain):
        learner.learn(tiny_stream[0])
    plain.load_state_dict(compiled.state_dict())
    images = tiny_stream[0].train.load()[0]
    assert torch.equal(plain.class_scores(images), compiled.class_scores(images))


@pytest.mark.parametrize("settings", [{"engine": "loop"}, {"inner_steps": 2}, {"update": "released"}])
def test_other_engines_refuse_it(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="compile needs engine=fused"):
        learner_of(COMPILE, **settings)


@pytest.mark.parametrize("kind", [Reptile, RtF])
def test_methods_of_other_kinds_refuse_it(kind: Any) -> None:
    model = Classifier(mlp(SHAPE, hidden=(8,)), shape=SHAPE)
    with pytest.raises(SettingsError, match="leave it out"):
        GradientLearner(kind, model, settings=kind.Settings(), seeds=Seeds.of(0), compute=COMPILE)


def test_without_a_compiler_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(SettingsError, match="needs a C\\+\\+ compiler"):
        learner_of(COMPILE)


@pytest.mark.parametrize(
    ("limits", "name", "value"),
    [
        ({"cache_size_limit": 8}, "cache_size_limit", MAX_SHAPES),  # up to torch 2.6
        ({"recompile_limit": 8}, "recompile_limit", MAX_SHAPES),
        ({"recompile_limit": 500}, "recompile_limit", 500),
    ],
)
def test_the_limit_of_shapes_is_raised_under_the_name_that_torch_gives_it(
    limits: dict[str, int], name: str, value: int
) -> None:
    config = SimpleNamespace(**limits)
    allow_shapes(config)
    assert vars(config) == {name: value}


@pytest.mark.usefixtures("small_benchmarks")
def test_a_run_from_before_the_option_was_there_goes_on(tmp_path: Path) -> None:
    config, folder = short(), tmp_path / "run"
    before = run_experiment(config, folder, data_root=tmp_path)
    saved = json.loads((folder / CONFIG).read_text())
    del saved["compute"]["compile"], saved["settings"]["flip_tta"], saved["checksum"]  # files had none then
    (folder / CONFIG).write_text(json.dumps(saved))
    assert numbers(run_experiment(config, folder, data_root=tmp_path, resume=True)) == numbers(before)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # its own imports
def test_compiled_training_gives_the_numbers_of_plain_training(tiny_stream: TaskStream) -> None:
    scores = []
    for compute in (COMPILE, Compute(device="cpu", precision="fp32")):
        learner = learner_of(compute, lr=0.05)
        for task in tiny_stream[:2]:
            learner.learn(task)
        scores.append(learner.class_scores(tiny_stream[1].train.load()[0]))
    torch.testing.assert_close(*scores, atol=1e-5, rtol=1e-4)
