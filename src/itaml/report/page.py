"""The report: one HTML page that needs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from itaml._version import __version__
from itaml.report import published, words
from itaml.report.drawing import DARK, LIGHT, Drawing, css_variables, to_svg
from itaml.report.exemplars import exemplars
from itaml.report.figures import costs, curves, of_group
from itaml.report.html import Content, Markup, table, tag
from itaml.report.result import Collection, Result
from itaml.report.summary import Group, by_benchmark, group, protocol_notes
from itaml.report.table import Table, cell, make_table

# Whatever a class name or a path might smuggle in, the page may load nothing and run nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
PICTURES = 600_000  # bytes of exemplars on a page, so that it stays easy to send


def page(collection: Collection) -> str:
    """Return the page about all results; at least one is needed."""
    sections = by_benchmark(collection.results)
    assert sections, "a report needs a result"
    title = f"itaml: {', '.join(sections)}"
    body: list[Content] = [tag("h1", title), _problems(collection, len(sections))]
    if len(sections) > 1:
        links = (tag("li", tag("a", name, href=f"#b{n}")) for n, name in enumerate(sections))
        body.append(tag("nav", tag("ul", *links)))
    budget = PICTURES // len(collection.results)
    body += [
        _section(name, results, anchor=f"b{n}", pictures=budget) for n, (name, results) in enumerate(sections.items())
    ]
    body.append(tag("p", f"Made by itaml {__version__} from the result files of the runs.", class_="soft small"))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content_="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content_=POLICY),
        tag("title", title),
        tag("style", Markup(_style())),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", tag("main", *body)), lang="en") + "\n"


def _style() -> str:
    light, dark = f":root{{{css_variables(LIGHT)}}}", f":root{{{css_variables(DARK)}}}"
    sheet = files("itaml.report").joinpath("style.css").read_text(encoding="utf-8")
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}\n{sheet}"


def _problems(collection: Collection, benchmarks: int) -> Markup:
    sentences = list(collection.problems)
    if benchmarks > 1:
        sentences.append(f"The runs are of {benchmarks} benchmarks; each has its own part, and they are not compared.")
    if not sentences:
        return Markup()
    return tag("div", tag("ul", *(tag("li", sentence) for sentence in sentences)), class_="notice")


def _section(name: str, results: Sequence[Result], *, anchor: str, pictures: int) -> Markup:
    groups = group(results)
    comparison = make_table(groups)
    p = max(one.first.p for one in groups)
    seeds = sorted({run.seed for one in groups for run in one.runs})
    parts: list[Content] = [tag("h2", name, id=anchor)]
    parts.append(tag("p", words.protocol(groups[0].first)))
    parts.append(tag("p", f"Seeds: {', '.join(map(str, seeds))}. Bands and ± are one deviation over seeds."))
    notes = protocol_notes(groups)
    if notes:
        parts.append(tag("div", *(tag("p", note) for note in notes), class_="notice"))
    parts += [tag("h3", "Results after the last task"), _results(comparison)]
    parts += [tag("p", note, class_="soft small") for note in comparison.notes]
    parts.append(_meanings())
    parts.append(_published(name, groups))
    parts += [tag("h3", "Accuracy after each task"), _charts(list(curves(groups, p).values()), "charts wide")]
    parts += [tag("h3", "Time and memory"), _charts(costs(groups), "charts wide")]
    parts += [_method(one, style, heading=f"{anchor}m{style}", pictures=pictures) for style, one in enumerate(groups)]
    return tag("section", *parts)


def _results(comparison: Table) -> Markup:
    """Return the table, with the best in bold and published figures beside ours."""
    shown = comparison.with_published
    head: list[Content] = ["method", "seeds"]
    for column in comparison.columns:
        head += [column.name, "published"] if column.name in shown else [column.name]
    rows: list[list[Content]] = []
    for row in comparison.rows:
        cells: list[Content] = [row.label, str(row.seeds)]
        for column in comparison.columns:
            number = cell(row.cells[column.name], column)
            cells.append(tag("b", number) if column.name in row.best else number)
            if column.name in shown:
                figure = row.published.get(column.name)
                cells.append("-" if figure is None else tag("span", f"{100 * figure.value:.2f}", class_="soft"))
        rows.append(cells)
    return table([head, *rows], class_="results")


def _meanings() -> Markup:
    pairs = (part for name, meaning in words.MEANINGS for part in (tag("dt", name), tag("dd", meaning)))
    return tag("details", tag("summary", "What each number means"), tag("dl", *pairs), open="")


def _published(name: str, groups: Sequence[Group]) -> Markup:
    """List published figures that fit no row: other settings of the methods shown, and continuum sizes."""
    shown = {one.first.method for one in groups}
    found = [f for f in published.figures(name) if f.method in shown and f.setting]
    lines = [f"{f.method}, {f.setting}, p = {f.p}: {100 * f.value:.2f} ({f.source})" for f in found]
    lines += [f"{b.n} samples for a task accuracy of {100 * b.gamma:g} % ({b.source})" for b in published.bounds(name)]
    if not lines:
        return Markup()
    return tag("div", tag("p", "Also published:"), tag("ul", *(tag("li", line) for line in lines)), class_="small")


def _charts(drawings: Sequence[Drawing], kind: str = "charts") -> Markup:
    return tag("div", *(tag("figure", Markup(to_svg(drawing, page=True))) for drawing in drawings), class_=kind)


def _method(one: Group, style: int, *, heading: str, pictures: int) -> Markup:
    run = one.first
    seeds = ", ".join(str(other.seed) for other in one.runs)
    parts: list[Content] = [
        tag("h3", one.label, id=heading),
        tag("p", f"Preset {run.preset}, {words.setup(run)}; seeds {seeds}.", class_="soft"),
        _charts(list(of_group(one, style).values())),
        tag("h4", "Exemplar memory"),
        _exemplars(run, pictures),
        tag("h4", "Settings"),
        _settings(run),
        tag("h4", "Versions"),
        tag("p", "; ".join(f"{name} {value}" for name, value in run.environment.items()), class_="small"),
        tag("h4", "To repeat"),
        tag("pre", tag("code", "\n".join(words.command(other) for other in one.runs))),
        tag("p", "From " + "; ".join(str(other.path) for other in one.runs), class_="soft small"),
    ]
    return tag("section", *parts)


def _exemplars(run: Result, budget: int) -> Markup:
    found = exemplars(run, budget=budget)
    strips = (
        tag(
            "figure",
            tag("figcaption", f"{strip.name} ({strip.kept})"),
            tag("img", src=strip.uri, alt=f"exemplars of {strip.name}"),
        )
        for strip in found.strips
    )
    return tag("div", tag("p", found.words, class_="soft small"), tag("div", *strips, class_="exemplars"))


def _settings(run: Result) -> Markup:
    """List every setting; seeds that follow the root seed go without saying."""
    values = _flat(run.config)
    shown = {k: v for k, v in values.items() if not (k.startswith("seeds.") and v == values.get("seed"))}
    lines = (tag("li", tag("span", name + " ", class_="soft"), tag("code", value)) for name, value in shown.items())
    return tag("ul", *lines, class_="settings") if shown else tag("p", "The result does not hold them.")


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value)
    return flat
