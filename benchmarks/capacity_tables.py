"""Tables of docs/scale.md about capacity, from results/capacity.json."""

from __future__ import annotations

import json
import statistics
from typing import Any

from document_parts import RESULTS

UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def _load() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "capacity.json").read_text(encoding="utf-8"))
    return found


def _short(value: float, unit: str = "") -> str:
    if value >= 1e15:
        return f"{value:.1e} {unit}".strip()
    for size, letter in UNITS:
        if value >= size:
            return f"{value / size:.3g} {letter}{unit}"
    return f"{value:.3g} {unit}".strip()


def costs() -> str:
    """Return bytes and operations, one column per data set."""
    cases = _load()["cases"]
    lines = [f"| quantity | {' | '.join(cases)} |", f"|---|{'---:|' * len(cases)}"]
    for key in ("classes", "images", "memory"):
        label = "exemplars" if key == "memory" else key
        lines.append(f"| {label} | " + " | ".join(f"{case[key]:,}" for case in cases.values()) + " |")
    for name in next(iter(cases.values()))["costs"]:
        unit = "B" if name.startswith("bytes") else ""
        cells = [_short(case["costs"][name], unit) for case in cases.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def predicted() -> str:
    """Return the simulated steps, one row per data set and number of GPUs."""
    columns = ("computing ms", "waiting ms", "messages ms", "share in messages", "efficiency", "minutes per epoch")
    head = f"| data | GPUs | {' | '.join(columns)} |"
    lines = [head, "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name, case in _load()["cases"].items():
        for run in case["simulated"]:
            times = [1000 * run[key] for key in ("compute_seconds", "waiting_seconds", "message_seconds")]
            cells = [f"{value:,.1f}" for value in times]
            cells += [f"{100 * run[key]:.0f} %" for key in ("share_in_messages", "efficiency")]
            lines.append(f"| {name} | {run['gpus']} | {' | '.join(cells)} | {run['epoch_minutes']:,.2f} |")
    return "\n".join(lines)


def basis() -> str:
    """Return what was measured and what is assumed."""
    found = _load()
    network, times = found["network"], sorted(found["step_seconds"])
    middle = statistics.median(times)
    share = found["measured_share_in_messages_2_processes"]
    rows = [
        ("counted", "parameters of ResNet-18 without a head", f"{network['parameters']:,}"),
        ("counted", "multiplications of a forward pass, 224 x 224 pixels", _short(network["macs"])),
        (
            "measured",
            f"median of {len(times)} training steps (ResNet-18(1/3), 32 images, one thread)",
            f"{middle:.3f} s",
        ),
        ("measured", "slowest of these steps / median", f"{times[-1] / middle:.2f}"),
        (
            "measured",
            "share of time in messages at 2 processes on CPUs",
            "not measured yet" if share is None else f"{100 * share:.1f} %",
        ),
    ]
    rows += [("assumed", name, _short(value)) for name, value in found["assumed"].items()]
    return "\n".join(["| | quantity | value |", "|---|---|---:|", *(f"| {a} | {b} | {c} |" for a, b, c in rows)])
