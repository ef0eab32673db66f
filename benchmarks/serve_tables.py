"""The tables of docs/serve.md, from benchmarks/results/serve.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from document_parts import table

MOMENTS = {
    "upload": "while the upload arrives",
    "staging": "while the job waits, or its process starts and checks the staged images",
    "reading": "while images are decoded",
    "features": "while features are computed",
    "training": "while it trains",
    "saving": "after the last epoch, before the new version is written",
    "writing": "while the new version is written",
    "swapping": "after the model points to the new version, before the job is done",
    "verifying": "while the new version is checked",
}
RESULTS = Path(__file__).resolve().parent / "results" / "serve.json"


def results() -> dict[str, Any]:
    """Return what was measured."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def latency() -> str:
    """Return latency and throughput by the number of clients, and during learns."""
    found = results()
    rows = [_row(f"{clients} clients", one) for clients, one in found["throughput"]["clients"].items()]
    rows.append(_row("8 clients, before and after learns", found["learning"]["without"]))
    rows.append(_row("8 clients, during learns", found["learning"]["during"]))
    head = ["load", "requests", "failed", "p50 in ms", "p90 in ms", "p99 in ms", "requests per second"]
    return table(head, rows)


def _row(name: str, one: dict[str, Any]) -> list[str]:
    name = "1 client" if name == "1 clients" else name
    values = [one[key] for key in ("requests", "failed", "p50_ms", "p90_ms", "p99_ms", "requests_per_second")]
    return [name, *(f"{value:,g}" for value in values)]


def requirements() -> str:
    """Return what the service must keep to, and what was measured."""
    found = results()
    ratio, first, swaps, memory = (
        found["throughput"]["ratio"],
        found["first_prediction"],
        found["swaps"],
        found["memory"],
    )
    rows = [
        ["throughput at 64 clients, as a share of `itaml predict` on the same images", "0.7 or more", ratio["clock"]],
        ["the same in CPU time of the service", "", ratio["cpu"]],
        ["p99 latency during a learn, relative to that without", "3 or less", found["learning"]["p99_ratio"]],
        ["first prediction after the start, relative to `itaml predict` of one image", "1.5 or less", first["ratio"]],
        *(
            [
                f"growth of memory over {one['requests']:,} requests, {one['model']}",
                "none",
                f"{one['growth_percent']} %",
            ]
            for one in (memory, found.get("memory_earlier"))
            if one
        ),
        [f"failed requests during {swaps['swaps']} swaps and {swaps['rollbacks']} rollbacks", "0", swaps["failed"]],
    ]
    lost = found["kills"]
    rows.append([f"jobs lost by {lost['trials']} kills of the service while a job ran", "0", len(lost["failures"])])
    return table(["", "wanted", "measured"], [[str(cell) for cell in row] for row in rows])


def kills() -> str:
    """Return how often the service was killed at which moment of a learn, and what was lost."""
    found = results()["kills"]
    rows = [[MOMENTS.get(name, name), str(number)] for name, number in found["killed_in"].items()]
    return table(
        ["killed", "times"], [*rows, ["all", str(found["trials"])], ["jobs lost", str(len(found["failures"]))]]
    )
