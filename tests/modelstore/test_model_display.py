"""A model in a notebook."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from itaml import ImageClassifier


def test_a_model_shows_its_tasks_classes_and_exemplars(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    classifier = ImageClassifier.create(tmp_path / "pets", method="itaml", backbone="mlp", image_size=8, epochs=1)
    assert "learned nothing yet" in classifier._repr_html_()
    classifier.learn(rng.integers(0, 256, (8, 8, 8, 3), dtype=np.uint8), ["cat", "<dog>"] * 4)
    classifier.learn(rng.integers(0, 256, (4, 8, 8, 3), dtype=np.uint8), ["owl"] * 4)
    shown = classifier._repr_html_()
    assert "pets, version 2: 3 classes, itaml on mlp" in shown
    assert "&lt;dog&gt;" in shown
    assert "<dog>" not in shown
    assert shown.count("<img ") == 9
    assert '<td rowspan="2">1</td>' in shown
