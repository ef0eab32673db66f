"""Counters of the service in the text format of Prometheus, of all worker processes together."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
KINDS = {
    "itaml_requests_total": ("counter", "Requests by route, method and status."),
    "itaml_request_seconds": ("histogram", "Time from the head of a request to the end of its response."),
    "itaml_images_total": ("counter", "Images that were to be predicted."),
    "itaml_images_unreadable_total": ("counter", "Images that could not be read."),
    "itaml_images_unknown_total": ("counter", "Images that are of no known class."),
    "itaml_images_by_class_total": ("counter", "Predicted images by class."),
    "itaml_unknown_rate": ("gauge", "Share of the readable images that are of no known class."),
    "itaml_queue_images": ("gauge", "Images of this process that wait for prediction."),
    "itaml_jobs_waiting": ("gauge", "Jobs that are not over."),
    "itaml_model_version": ("gauge", "Version of the model in use by this process."),
    "itaml_model_classes": ("gauge", "Classes of the model."),
}
Sample = tuple[str, str]  # name of a metric, and the rest: suffix and labels
Key = str  # both, with a space between them


class ServiceMetrics:
    """Counts what happens in this process.

    Args:
        folder: where the processes of a service write their counters; None if there is only one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._counts: dict[Key, float] = defaultdict(float)
        self._lock = threading.Lock()

    def add(self, name: str, value: float = 1.0, suffix: str = "", **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[f"{name} {suffix}{_labels(labels)}"] += value

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add to a histogram."""
        for bucket in (*BUCKETS, float("inf")):
            self.add(name, float(value <= bucket), "_bucket", **labels, le=f"{bucket:g}".replace("inf", "+Inf"))
        self.add(name, value, "_sum", **labels)
        self.add(name, 1.0, "_count", **labels)

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self.add("itaml_requests_total", route=route, method=method, status=str(status))
        self.observe("itaml_request_seconds", seconds, route=route)

    def count_predictions(self, predictions: list[dict[str, Any]]) -> None:
        """Count predictions by class."""
        for entry in predictions:
            self.add("itaml_images_total")
            if entry["error"] is not None:
                self.add("itaml_images_unreadable_total")
            elif not entry["known"]:
                self.add("itaml_images_unknown_total")
            else:
                self.add("itaml_images_by_class_total", **{"class": entry["class"]})

    def save(self) -> None:
        """Write the counters of this process for the others."""
        if self.folder is None:
            return
        with self._lock:
            text = json.dumps(self._counts)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = self.folder / f".{os.getpid()}"
            draft.write_text(text, encoding="utf-8")
            draft.replace(self.folder / str(os.getpid()))

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return everything in the text format."""
        totals = self._totals()
        known = totals.get("itaml_images_total ", 0.0) - totals.get("itaml_images_unreadable_total ", 0.0)
        share = totals.get("itaml_images_unknown_total ", 0.0) / known if known > 0 else 0.0
        for name, value in {**gauges, "itaml_unknown_rate": share}.items():
            totals[f"{name} "] = value
        lines = []
        for name, (kind, about) in KINDS.items():
            own = [(key.partition(" ")[2], value) for key, value in totals.items() if key.partition(" ")[0] == name]
            if own:
                lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{rest} {value:.10g}" for rest, value in own]
        return "\n".join(lines) + "\n"

    def _totals(self) -> dict[Key, float]:
        with self._lock:
            totals: dict[Key, float] = defaultdict(float, self._counts)
        for path in [] if self.folder is None or not self.folder.is_dir() else self.folder.iterdir():
            if path.name.isdigit() and int(path.name) != os.getpid():
                if not _alive(int(path.name)):
                    path.unlink(missing_ok=True)
                    continue
                with suppress(OSError, ValueError):
                    for key, value in json.loads(path.read_text(encoding="utf-8")).items():
                        totals[key] += value
        return totals


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _labels(labels: Mapping[str, str]) -> str:
    parts = [f'{name}="{_escaped(value)}"' for name, value in labels.items()]
    return "{" + ",".join(parts) + "}" if parts else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
