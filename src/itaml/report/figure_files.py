"""Every figure of a report by a name that can be a file's name."""

from __future__ import annotations

import re

from itaml.report.charts import line_chart
from itaml.report.figure_names import Collection
from itaml.report.figures import accuracy_panels, cost_panels, figure5
from itaml.report.method_figures import method_figures
from itaml.report.ranking import rank
from itaml.report.summary import by_benchmark, group
from itaml.report.svg import Chart


def figures(collection: Collection) -> dict[str, Chart]:
    """Return the figures of all benchmarks and methods; names are unique."""
    found: dict[str, Chart] = {}
    for name, results in by_benchmark(collection.results).items():
        place, groups = file_name(name), rank(group(results)).groups
        p = max(one.first.p for one in groups)
        panels = accuracy_panels(groups, p) | cost_panels(groups)
        found |= {f"{place}-{title}": line_chart(panel) for title, panel in panels.items()}
        found[f"{place}-figure5"] = figure5(groups, p)
        for style, one in enumerate(groups):
            label = _unused(f"{place}-{file_name(one.label)}", found)
            found |= {f"{label}-{title}": chart for title, chart in method_figures(one, style).items()}
    return found


def file_name(text: str) -> str:
    """Return text with everything but letters, digits and dots replaced by dashes."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "unnamed"


def _unused(label: str, found: dict[str, Chart]) -> str:
    number, unique = 2, label
    while any(name.startswith(f"{unique}-") for name in found):
        unique, number = f"{label}-{number}", number + 1
    return unique
