"""A stream in a notebook."""

from __future__ import annotations

import numpy as np

from itaml.data.dataset_wrappers import stream_from_items


def test_a_stream_shows_tasks_classes_counts_and_images() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (24, 6, 6, 3), dtype=np.uint8)
    items = [(image, f"<{'abcd'[number % 4]}>") for number, image in enumerate(images)]
    stream = stream_from_items(items[:16], items[16:], tasks=2, size=6)
    shown = stream._repr_html_()
    assert "2 tasks, images of 6 x 6 pixels, 3 channels" in shown
    assert shown.count("<img ") == 4 * 3
    assert "&lt;a&gt;" in shown
    assert "<a>" not in shown
    assert "<td>8</td><td>4</td>" in shown
