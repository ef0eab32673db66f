"""Every figure of a report by a name that can be a file's name."""

from __future__ import annotations

import re

from itaml.report.drawing import Drawing
from itaml.report.figures import costs, curves, figure5, of_group
from itaml.report.result import Collection
from itaml.report.summary import by_benchmark, group


def figures(collection: Collection) -> dict[str, Drawing]:
    """Return the figures of all benchmarks and methods; names are unique."""
    found: dict[str, Drawing] = {}
    for name, results in by_benchmark(collection.results).items():
        place, groups = file_name(name), group(results)
        p = max(one.first.p for one in groups)
        found |= {f"{place}-{title}": drawing for title, drawing in curves(groups, p).items()}
        found[f"{place}-figure5"] = figure5(groups, p)
        for title, drawing in zip(("time", "memory"), costs(groups), strict=True):
            found[f"{place}-{title}"] = drawing
        for style, one in enumerate(groups):
            label = _unused(f"{place}-{file_name(one.label)}", found)
            found |= {f"{label}-{title}": drawing for title, drawing in of_group(one, style).items()}
    return found


def file_name(text: str) -> str:
    """Return text with everything but letters, digits and dots made dashes."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "unnamed"


def _unused(label: str, found: dict[str, Drawing]) -> str:
    number, wanted = 2, label
    while any(name.startswith(f"{wanted}-") for name in found):
        wanted, number = f"{label}-{number}", number + 1
    return wanted
