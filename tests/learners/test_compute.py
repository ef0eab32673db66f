"""Which device and number format is used, and what bfloat16 leaves as it is."""

from __future__ import annotations

import platform
import re
from typing import Any

import pytest
import torch

from itaml.config import Compute, Seeds
from itaml.errors import SettingsError
from itaml.hardware.probe import Outcome, bf16_probe
from itaml.learners import compute
from itaml.learners.compute import (
    check_threads,
    choose_format,
    has_bf16_instructions,
    limited_threads,
    pick_device,
    use_bf16,
)
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.models.classifier import build_classifier
from support import Force, synthetic_stream

CPU = torch.device("cpu")
SHAPE = (1, 8, 8)


def capable_of(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(names, True), raising=False)


@pytest.mark.parametrize(
    ("names", "native"),
    [((), False), (("avx2", "avx512_f", "avx512_bw"), False), (("avx512_bf16",), True), (("amx_bf16",), True)],
)
def test_bf16_is_native_only_where_the_cpu_multiplies_it(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], native: bool
) -> None:
    capable_of(monkeypatch, *names)
    assert has_bf16_instructions() is native


def without_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("the probe was run where it cannot matter")

    monkeypatch.setattr(compute, "bf16_probe", refuse)


@pytest.mark.parametrize(("outcome", "bf16"), [("fast", True), ("slow", False), ("crashed", False)])
def test_auto_on_a_cpu_is_fp32_unless_the_probe_found_bf16_to_be_fast(
    monkeypatch: pytest.MonkeyPatch, forced: Force, outcome: Outcome, bf16: bool
) -> None:
    capable_of(monkeypatch, "avx512_bf16")
    forced(outcome)
    assert use_bf16(Compute(), build_classifier("resnet18-small", shape=SHAPE, seed=0), CPU) is bf16
    chosen = choose_format(Compute(), CPU, convolutions=True)
    assert chosen.bf16 is bf16
    assert bf16_probe().reason in chosen.why


def test_auto_asks_no_probe_where_the_cpu_has_no_bf16_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    capable_of(monkeypatch, "avx512_f")
    without_probe(monkeypatch)
    chosen = choose_format(Compute(), CPU, convolutions=True)
    assert (chosen.bf16, chosen.why) == (False, "this CPU has no bf16 instructions that torch can use")


def test_auto_asks_no_probe_for_a_network_without_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    capable_of(monkeypatch, "avx512_bf16")
    without_probe(monkeypatch)
    assert not use_bf16(Compute(), build_classifier("mlp", shape=SHAPE, seed=0), CPU)


def test_fp32_asks_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    capable_of(monkeypatch, "avx512_bf16")
    without_probe(monkeypatch)
    assert not use_bf16(Compute(precision="fp32"), build_classifier("resnet18-small", shape=SHAPE, seed=0), CPU)


@pytest.mark.parametrize("outcome", ["fast", "slow"])
@pytest.mark.parametrize("backbone", ["resnet18-small", "mlp"])
def test_bf16_that_survives_the_probe_is_used_when_asked_for_even_if_slow(
    monkeypatch: pytest.MonkeyPatch, forced: Force, outcome: Outcome, backbone: str
) -> None:
    capable_of(monkeypatch)
    forced(outcome)
    assert use_bf16(Compute(precision="bf16"), build_classifier(backbone, shape=SHAPE, seed=0), CPU)


@pytest.mark.parametrize("backbone", ["resnet18-small", "mlp"])
def test_bf16_that_crashes_the_probe_is_one_clear_error(forced: Force, backbone: str) -> None:
    forced("crashed")
    model = build_classifier(backbone, shape=SHAPE, seed=0)
    compute = Compute(device="cpu", precision="bf16")
    with pytest.raises(SettingsError) as error:
        GradientLearner(ITAML, model, settings=ITAMLSettings(horizon=3), seeds=Seeds.of(0), compute=compute)
    assert str(error.value) == (
        "precision bf16 does not work on this machine: the trial was ended by SIGILL; use precision fp32 or auto"
    )


def test_cpu_features_come_from_the_operating_system_where_torch_does_not_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    monkeypatch.setattr(compute, "cpu_flags", lambda: frozenset({"avx512_bf16"}))
    assert has_bf16_instructions()


def test_threads_are_limited_inside_the_block_alone() -> None:
    before = torch.get_num_threads()
    with limited_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with limited_threads(None):
        assert torch.get_num_threads() == before


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_threads_that_are_no_number_are_refused(threads: Any) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"threads must be a whole number >= 1 (got {threads!r})")):
        check_threads(threads)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="device cuda is not available"):
        pick_device(Compute(device="cuda"))


def test_training_in_bf16_keeps_weights_and_scores_in_fp32() -> None:
    """Only products are taken in bfloat16, so a step goes nearly where fp32's goes."""
    probe = bf16_probe()
    if probe.outcome == "crashed":
        pytest.skip(f"bf16 does not work on this machine: {probe.reason}")
    stream = synthetic_stream((2, 2), train=8, shape=SHAPE)
    moved = []
    for precision in ("fp32", "bf16"):
        settings = ITAMLSettings(epochs=1, batch_size=16, memory=8, lr=0.01, horizon="open")
        learner = GradientLearner(
            ITAML,
            build_classifier("resnet18-small", shape=SHAPE, seed=0),
            settings=settings,
            seeds=Seeds.of(0),
            compute=Compute.model_validate({"device": "cpu", "precision": precision}),
        )
        before = flat(learner.model.backbone)
        learner.learn(stream[0])
        assert {value.dtype for value in learner.model.parameters()} == {torch.float32}
        assert learner.class_scores(stream[0].train.load()[0]).dtype == torch.float32
        moved.append(flat(learner.model.backbone) - before)
    fp32, bf16 = moved
    assert not torch.equal(fp32, bf16)
    assert float(torch.cosine_similarity(fp32, bf16, dim=0)) > 0.9


def flat(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.detach().flatten().clone() for value in module.parameters()])
