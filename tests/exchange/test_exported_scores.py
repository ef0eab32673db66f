"""Scores of exported networks beside those of the model, also where single precision could underflow."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from exchange_support import blotches, probabilities
from itaml.exchange.export_scoring import TraceableFunctions
from itaml.modelstore.image_classifier import ImageClassifier

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

TOLERANCE = 1e-4


def test_traced_logsumexp_is_torchs() -> None:
    values = torch.tensor([[-300.0, -torch.inf, -310.0], [1.0, 2.0, 3.0], [500.0, 499.0, -500.0]])
    with TraceableFunctions():
        found, method = torch.logsumexp(values, 1), values.logsumexp(1)
    assert torch.allclose(found, values.logsumexp(1))
    assert torch.equal(found, method)


class LogSumExp(nn.Module):
    def __init__(self, mode: Any) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        with self.mode:
            return values.logsumexp(1)


@pytest.mark.slow
def test_logsumexp_of_an_exported_network_does_not_underflow() -> None:
    """ReduceLogSumExp of ONNX Runtime does: the log-odds of a certain class were infinite, and nothing was unknown."""
    runtime = pytest.importorskip("onnxruntime")
    values = torch.tensor([[-torch.inf, -200.0, -210.0], [0.0, 1.0, 2.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(LogSumExp(TraceableFunctions()), (values,), dynamo=True, verbose=False)
    data = program.model_proto.SerializeToString()
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"values": values.numpy()})
    assert np.allclose(found, values.logsumexp(1).numpy(), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["resnet18-third", "efficientnet-lite0"])
def test_programs_of_convolutional_networks_predict_the_same_on_100_images(backbone: str, tmp_path: Path) -> None:
    lite = backbone == "efficientnet-lite0"
    options: dict[str, Any] = {} if lite else {"method": "itaml", "backbone": backbone, "image_size": 32, "epochs": 2}
    classifier = ImageClassifier.create(tmp_path / "model", **options)
    size = (240, 240) if lite else (40, 36)
    for labels in ((0, 1), (2, 3)):
        classifier.learn(*blotches(labels, count=10, size=size))
    assert classifier.info()["backbone"] == backbone
    classifier.export(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    images = blotches((0, 1, 2, 3, 4), count=20, size=(250, 300) if lite else (50, 60), seed=1)[0]
    with torch.no_grad():  # in batches of 10 and of 90: the number of images is free
        parts = [program(torch.from_numpy(part))[1].numpy() for part in (images[:10], images[10:])]
    assert np.abs(np.concatenate(parts) - probabilities(classifier, images)).max() <= TOLERANCE
