"""The report: one HTML page without external requests, rendered from `templates/page.html`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from itaml._version import __version__
from itaml.errors import MissingExtraError
from itaml.experiment.result import Result
from itaml.report import published, sentences
from itaml.report.charts import line_chart, swatch
from itaml.report.exemplars import Exemplars, exemplars
from itaml.report.figure_names import Collection
from itaml.report.figures import accuracy_panels, axis_ranges, cost_panels
from itaml.report.method_figures import method_figures
from itaml.report.page_frame import environment, policy, style_sheet, template_file
from itaml.report.page_table import TableView, table_view
from itaml.report.ranking import finding, rank, remarks
from itaml.report.summary import Group, by_benchmark, group, protocol_notes
from itaml.report.svg import Chart, to_svg
from itaml.report.theme import style

try:
    from markupsafe import Markup
except ImportError as error:
    raise MissingExtraError("reports need jinja2: pip install 'itaml[report]'") from error

IMAGE_BYTES = 500_000  # of exemplars on a page, so that it stays easy to send
FEW = 4  # methods whose details are open from the beginning


@dataclass(frozen=True)
class MethodSection:
    """The part of a page about one method."""

    label: str
    anchor: str
    run: Result
    setup: str
    seeds: str
    charts: tuple[Markup, ...]
    exemplars: Exemplars
    settings: Mapping[str, str]
    commands: tuple[str, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """The part of a page about one benchmark."""

    name: str
    anchor: str
    protocol: str
    seeds: str
    notes: Sequence[str]
    findings: Sequence[str]
    remarks: Sequence[str]
    table: TableView
    meanings: Sequence[tuple[str, str]]
    also_published: Sequence[str]
    legend: Sequence[tuple[str, int, Markup]]  # name, series, swatch
    ranges: Mapping[str, Sequence[Markup]]  # charts by the range of their axis
    costs: Sequence[Markup]
    methods: Sequence[MethodSection]


def page(collection: Collection) -> str:
    """Return the page about all results; at least one is needed."""
    benchmarks = by_benchmark(collection.results)
    assert benchmarks, "a report needs a result"
    builder = _Builder(image_bytes=IMAGE_BYTES // len(collection.results))
    with style():
        sections = [builder.section(name, results, f"b{n}") for n, (name, results) in enumerate(benchmarks.items())]
    problems = list(collection.problems)
    if len(sections) > 1:
        problems.append(f"The runs are of {len(sections)} benchmarks; each has its own part and they are not compared.")
    script = template_file("script.js")
    return (
        environment()
        .get_template("page.html")
        .render(
            title=f"itaml: {', '.join(benchmarks)}",
            version=__version__,
            policy=policy(script),
            style=Markup(style_sheet()),
            script=Markup(script),
            problems=problems,
            sections=sections,
            few=FEW,
        )
    )


class _Builder:
    """Builds sections; counts figures, so that identifiers in their SVG are unique in the page."""

    def __init__(self, *, image_bytes: int) -> None:
        self.image_bytes = image_bytes
        self.numbers = count()

    def svg(self, chart: Chart) -> Markup:
        return Markup(to_svg(chart, prefix=f"f{next(self.numbers)}-"))

    def section(self, name: str, results: Sequence[Result], anchor: str) -> Section:
        ranking = rank(group(results))
        groups = ranking.groups
        p = max(one.first.p for one in groups)
        panels = accuracy_panels(groups, p)
        legend = [(one.label, number, self.svg(swatch(number))) for number, one in enumerate(groups)]
        if any(line.style < 0 for panel in panels.values() for line in panel.series):
            legend.append(("published", -1, self.svg(swatch(-1))))
        return Section(
            name=name,
            anchor=anchor,
            protocol=sentences.protocol(groups[0].first),
            seeds=", ".join(map(str, sorted({run.seed for one in groups for run in one.runs}))),
            notes=protocol_notes(groups),
            findings=[finding(ranking, size) for size in sorted({1, p} & set(groups[0].first.final.continuum))],
            remarks=remarks(ranking),
            table=table_view(ranking),
            meanings=sentences.meanings(p),
            also_published=_also_published(name, groups),
            legend=legend,
            ranges={label: [*map(self.svg, charts)] for label, charts in axis_ranges(panels).items()},
            costs=[self.svg(line_chart(panel, legend=False)) for panel in cost_panels(groups).values()],
            methods=[self.method(one, number, f"{anchor}m{number}") for number, one in enumerate(groups)],
        )

    def method(self, one: Group, number: int, anchor: str) -> MethodSection:
        run = one.first
        return MethodSection(
            label=one.label,
            anchor=anchor,
            run=run,
            setup=sentences.setup(run),
            seeds=", ".join(str(other.seed) for other in one.runs),
            charts=tuple(self.svg(chart) for chart in method_figures(one, number).values()),
            exemplars=exemplars(run, budget=self.image_bytes),
            settings=_settings(run),
            commands=tuple(sentences.command(other) for other in one.runs),
            paths=tuple(str(other.path) for other in one.runs),
        )


def _also_published(name: str, groups: Sequence[Group]) -> list[str]:
    """List published figures that fit no row: other settings of the methods shown, and continuum sizes."""
    shown = {one.first.method for one in groups}
    found = [f for f in published.figures(name) if f.method in shown and f.setting]
    lines = [f"{f.method}, {f.setting}, p = {f.p}: {100 * f.value:.2f} ({f.source})" for f in found]
    return lines + [
        f"{b.n} samples for a task accuracy of {100 * b.gamma:g} % ({b.source})" for b in published.bounds(name)
    ]


def _settings(run: Result) -> dict[str, str]:
    """Return every setting but the seeds that follow from the root seed."""
    values = _flat(run.config)
    return {k: v for k, v in values.items() if not (k.startswith("seeds.") and v == values.get("seed"))}


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value)
    return flat
