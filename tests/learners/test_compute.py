"""Which device and number format is used, and what bfloat16 leaves as it is."""

from __future__ import annotations

import platform

import pytest
import torch

from itaml.config import Compute, Seeds
from itaml.errors import SettingsError
from itaml.learners.compute import has_bf16_instructions, pick_device, use_bf16
from itaml.learners.itaml import ITAML
from itaml.learners.itaml_settings import ITAMLSettings
from itaml.models.classifier import build_classifier
from support import synthetic_stream

CPU = torch.device("cpu")
SHAPE = (1, 8, 8)


def capable_of(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(names, True))


@pytest.mark.parametrize(
    ("names", "native"),
    [((), False), (("avx2", "avx512_f", "avx512_bw"), False), (("avx512_bf16",), True), (("amx_bf16",), True)],
)
def test_bf16_is_native_only_where_the_processor_multiplies_it(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], native: bool
) -> None:
    capable_of(monkeypatch, *names)
    assert has_bf16_instructions() is native


def test_auto_uses_bf16_for_networks_that_convolve_on_processors_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    convolves = build_classifier("resnet18-small", shape=SHAPE, seed=0)
    perceptron = build_classifier("mlp", shape=SHAPE, seed=0)
    capable_of(monkeypatch, "avx512_bf16")
    assert use_bf16(Compute(), convolves, CPU)
    assert not use_bf16(Compute(), perceptron, CPU)
    capable_of(monkeypatch, "avx512_f")
    assert not use_bf16(Compute(), convolves, CPU)


def test_what_the_user_says_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_classifier("resnet18-small", shape=SHAPE, seed=0)
    capable_of(monkeypatch, "avx512_bf16")
    assert not use_bf16(Compute(precision="fp32"), model, CPU)
    capable_of(monkeypatch)
    assert use_bf16(Compute(precision="bf16"), model, CPU)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="device cuda is not available"):
        pick_device(Compute(device="cuda"))


def test_training_in_bf16_keeps_weights_and_scores_in_fp32() -> None:
    """Only products are taken in bfloat16, so a step goes nearly where fp32's goes."""
    stream = synthetic_stream((2, 2), train=8, shape=SHAPE)
    moved = []
    for precision in ("fp32", "bf16"):
        compute = Compute.model_validate({"device": "cpu", "precision": precision})
        settings = ITAMLSettings(epochs=1, batch_size=16, memory=8, lr=0.01, horizon="open")
        learner = ITAML(
            build_classifier("resnet18-small", shape=SHAPE, seed=0),
            settings=settings,
            seeds=Seeds.of(0),
            compute=compute,
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
