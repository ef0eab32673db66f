"""The long life of a model, from benchmarks/results/long-life.json: curves, a table, and what stays flat.

usage: python benchmarks/long_life.py

Draws docs/figures/long-life.svg. The numbers are measured by `python -m attacks.long_life` in tests, which lets a model
learn a hundred classes one by one, with kills, rollbacks, forgets and predictions of another process in between.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, NamedTuple

from document_parts import load, table

ROOT = Path(__file__).resolve().parents[1]
FIGURE = ROOT / "docs" / "figures" / "long-life.svg"
WINDOW = 20  # learns of which the median is compared
FLAT = 1.25  # a median that grows by less is called flat


class Quantity(NamedTuple):
    """Something measured after every learn."""

    key: str
    title: str
    unit: str
    scale: float = 1.0


QUANTITIES = (
    Quantity("cpu_seconds", "CPU time", "s"),
    Quantity("disk_bytes", "disk", "kB", 1e-3),
    Quantity("peak_megabytes", "peak memory", "MB"),
)


def values(learns: list[dict[str, Any]], quantity: Quantity) -> list[float]:
    return [quantity.scale * float(one[quantity.key]) for one in learns]


def early_and_late(learns: list[dict[str, Any]], quantity: Quantity, full: int) -> tuple[float, float]:
    """Return the medians over the learns after the memory was full, and over the last ones."""
    found = values(learns, quantity)
    return statistics.median(found[full : full + WINDOW]), statistics.median(found[-WINDOW:])


def full_after(result: dict[str, Any]) -> int:
    """Return after how many learns the memory is full."""
    return int(result["memory"] // result["images_per_class"])


def summary() -> str:
    result = load("long-life")
    first = full_after(result)
    names = [f"{q.title}, {q.unit}: learns {first + 1} to {first + WINDOW}, last {WINDOW}" for q in QUANTITIES]
    rows = []
    for name, life in result["lives"].items():
        cells = [early_and_late(life["learns"], quantity, first) for quantity in QUANTITIES]
        shown = [f"{_number(early)}, {_number(late)}" for early, late in cells]
        last = life["learns"][-1]
        done = [str(life[key]) for key in ("kills", "rollbacks", "forgets", "predictions")]
        rows.append([name, *done, *shown, f"{100 * last['accuracy']:.1f}", str(len(life["failures"]))])
    head = ["learner", "kills", "rollbacks", "forgets", "predictions by another process", *names]
    return table([*head, "accuracy at the end, %", "failures"], rows)


def statement() -> str:
    """Say for every learner what stays flat and what grows, by how much with each learn."""
    result = load("long-life")
    sentences = []
    for name, life in result["lives"].items():
        pairs = {q: early_and_late(life["learns"], q, full_after(result)) for q in QUANTITIES}
        grown = {q: late / early for q, (early, late) in pairs.items()}
        flat = [f"{q.title} (x {ratio:.2f})" for q, ratio in grown.items() if ratio <= FLAT]
        rising = [f"{q.title} (x {ratio:.2f}, {_slope(life, q, result)})" for q, ratio in grown.items() if ratio > FLAT]
        said = f"{name}: " + (f"{_listed(flat)} stay flat" if len(flat) > 1 else f"{_listed(flat)} stays flat")
        sentences.append(
            f"* {said}" + (f"; {_listed(rising)} {'grow' if len(rising) > 1 else 'grows'}" if rising else "") + "."
        )
    return "\n".join(sentences)


def _slope(life: dict[str, Any], quantity: Quantity, result: dict[str, Any]) -> str:
    found = values(life["learns"], quantity)[full_after(result) :]
    slope = statistics.linear_regression(range(len(found)), found).slope
    return f"{_number(slope)} {quantity.unit} with each learn"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def draw() -> Path:
    from itaml.report.charts import Panel, Series, panels_chart
    from itaml.report.svg import to_svg
    from itaml.storage import write_atomically

    lives = load("long-life")["lives"]
    panels = []
    for quantity in (*QUANTITIES, Quantity("accuracy", "accuracy on new images of all classes", "%", 100.0)):
        lines = [
            Series(name, list(range(1, len(life["learns"]) + 1)), values(life["learns"], quantity), style=style)
            for style, (name, life) in enumerate(lives.items())
        ]
        title = quantity.title[0].upper() + quantity.title[1:]
        panels.append(Panel(lines, title, "learn", quantity.unit))
    write_atomically(FIGURE, (to_svg(panels_chart(panels)) + "\n").encode())
    return FIGURE


if __name__ == "__main__":
    print(draw())
