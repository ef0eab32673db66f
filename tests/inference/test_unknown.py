"""Detection of unknown images and calibration of confidence, on numbers worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from itaml.errors import SettingsError
from itaml.inference.temperature import fit_temperature
from itaml.inference.unknown import (
    auroc,
    cosine_similarity,
    fit_unknown_detector,
    score_signals,
    signal_weights,
    signals_of,
)


def test_signals_by_hand() -> None:
    # one image q = (1, 0), class means (2, 0) and (-2, 0), odds of three to one
    products = torch.tensor([[2.0, -2.0]]), torch.tensor([[4.0, 4.0]]), torch.tensor([[math.log(3.0), 0.0]])
    cosines, affinities = torch.tensor([[0.9, 0.3]]), torch.tensor([[0.2, 0.4]])
    expected = [0.9, 0.5, math.log(3.0)]
    torch.testing.assert_close(signals_of(*products, cosines), torch.tensor([expected]))
    torch.testing.assert_close(signals_of(*products, cosines, affinities), torch.tensor([[*expected, 0.4]]))


def test_a_class_that_takes_no_part_is_not_the_nearest() -> None:
    left, inner = torch.tensor([[False, False, True]]), torch.tensor([[2.0, 1.0, 8.0]])
    values = [part.masked_fill(left, -torch.inf) for part in (inner, inner, inner / 10)]
    signals = signals_of(values[0], torch.ones(1, 3), values[1], values[2])
    torch.testing.assert_close(signals, torch.tensor([[0.2, 2.0, 1.0]]))


def test_the_weights_follow_the_signal_that_tells_strange_images() -> None:
    generator = torch.Generator().manual_seed(0)
    known = torch.randn(300, 3, generator=generator, dtype=torch.float64)
    unknown = torch.randn(300, 3, generator=generator, dtype=torch.float64) + torch.tensor([-2.0, 0.0, 2.0])
    weights = signal_weights(known, unknown)
    assert float(weights[0]) > 3 * float(weights[1]) > 0
    assert float(weights[2]) == 0, "a signal that is higher for unknown images does not count"
    assert signal_weights(known, unknown[:0]).tolist() == pytest.approx([1 / 3] * 3)
    assert signal_weights(known, unknown, penalty=1e6).tolist() == pytest.approx([1 / 3] * 3, abs=1e-5)
    even, fitted = fit_unknown_detector(known), fit_unknown_detector(known, unknown=unknown)
    assert fitted.weights is not None
    assert auroc(fitted.score(known), fitted.score(unknown)) > auroc(even.score(known), even.score(unknown)) + 0.1
    assert float(fitted.is_unknown(known).double().mean()) == pytest.approx(0.05, abs=0.003)


def test_one_class_has_only_the_cosine() -> None:
    signals = signals_of(torch.zeros(2, 1), torch.zeros(1, 1), torch.zeros(2, 1), torch.tensor([[0.9], [0.2]]))
    assert signals.tolist() == [[pytest.approx(0.9), 0, 0], [pytest.approx(0.2), 0, 0]]
    detector = fit_unknown_detector(torch.tensor([[0.9, 0.0, 0.0], [0.8, 0.0, 0.0], [0.85, 0.0, 0.0]]))
    assert detector.is_unknown(signals.double()).tolist() == [False, True]


def test_cosines() -> None:
    found = cosine_similarity(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_the_wanted_share_of_known_images_is_refused() -> None:
    signals = torch.randn(400, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for refuse in (0.05, 0.2):
        detector = fit_unknown_detector(signals, refuse=refuse)
        assert float(detector.is_unknown(signals).double().mean()) == pytest.approx(refuse, abs=0.003)


def test_few_images_use_a_normal_distribution_and_one_image_refuses_nothing() -> None:
    signals = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    detector = fit_unknown_detector(signals)
    assert detector.threshold == pytest.approx(-1.6449, abs=1e-4)  # standardised: mean 0, deviation 1
    assert fit_unknown_detector(signals[:1]).threshold == -math.inf
    with pytest.raises(SettingsError, match=r"refuse must be > 0 and < 1 \(got 1\)"):
        fit_unknown_detector(signals, refuse=1)


def test_auroc_is_scikit_learns() -> None:
    generator = torch.Generator().manual_seed(0)
    known = torch.randint(3, 9, (40,), generator=generator).double()
    unknown = torch.randint(0, 6, (30,), generator=generator).double()
    expected = roc_auc_score([1] * 40 + [0] * 30, torch.cat([known, unknown]).numpy())
    assert auroc(known, unknown) == pytest.approx(expected)


def test_the_temperature_of_scaled_logits_is_the_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=generator, dtype=torch.float64) * 2
    columns = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    assert fit_temperature(logits, columns) == pytest.approx(1, abs=0.07)
    ratio = fit_temperature(logits * 7, columns) / fit_temperature(logits, columns)
    assert ratio == pytest.approx(7, rel=1e-3)


def test_too_few_images_keep_the_default_temperature() -> None:
    scores = torch.tensor([[1.0, 0.0]]).repeat(12, 1)
    scores[3:, 0] = -torch.inf
    assert fit_temperature(scores, torch.zeros(12, dtype=torch.int64), default=3.5) == 3.5
    assert fit_temperature(torch.zeros(50, 1), torch.zeros(50, dtype=torch.int64), default=2.0) == 2.0


def test_signals_of_scores_by_hand() -> None:
    scores = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])  # odds of 3 to 1, and even ones
    expected = torch.tensor([[math.log(4.0), math.log(3.0)], [math.log(2.0), 0.0]], dtype=torch.float64)
    torch.testing.assert_close(score_signals(scores), expected)
    assert score_signals(torch.tensor([[2.5]])).tolist() == [[2.5, 0.0]]


def test_images_that_are_all_alike_are_not_refused() -> None:
    signals = torch.full((7, 2), 0.1, dtype=torch.float64)
    assert not bool(fit_unknown_detector(signals).is_unknown(signals).any())
