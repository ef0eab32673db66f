"""Counters of the service in the text format of Prometheus."""

from __future__ import annotations

from typing import Any


class ServiceMetrics:
    """Counts what happens."""

    def __init__(self) -> None:
        self.images = 0

    def count_predictions(self, predictions: list[dict[str, Any]]) -> None:
        """Count predictions by class."""
        self.images += len(predictions)

    def text(self) -> str:
        """Return everything in the text format."""
        return f"itaml_images_total {self.images}\n"
