"""Tables of methods at equal effort: one recipe for all, and a sentence that says who wins by more than the spread.

A row is made of all results whose settings are those that the recipe gives to the method today, wherever they stand.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from document_parts import METRICS, RESULTS, cell, load, table

from itaml.experiment.result import Result, load_result
from itaml.experiment.run_config import RunConfig, completed, recipe_notes, resolve
from itaml.learners import LEARNERS
from itaml.report.summary import UPPER_BOUNDS

PRESETS = ("itaml:paper", "replay:union", "rwalk:alone")  # rows beside the presets best
FAILURES = "failures.json"  # in a folder of results: why runs failed, by `method:preset` and seed
COLUMNS = ("class@1", "class@20", "task@20", "task-aware")


@cache
def _results(benchmark: str) -> tuple[tuple[Result, dict[str, Any]], ...]:
    """Return all results on a benchmark with test images, each with its settings by their present names."""
    found = []
    for path in sorted(RESULTS.glob(f"{benchmark}*/*-seed*.json")):
        result = load_result(path)
        if result.benchmark == benchmark and not result.config.get("validation"):
            found.append((result, completed(result.config | {"method": result.method})["settings"]))
    return tuple(found)


def matching(config: RunConfig) -> list[Result]:
    """Return the results of a run's method and seed that have its settings."""
    return [
        result
        for result, settings in _results(config.benchmark)
        if (result.method, result.seed) == (config.method, config.seed) and settings == config.settings
    ]


def targets() -> list[str]:
    """Return all rows that a table can have, as `method:preset`."""
    return [*(f"{name}:best" for name in LEARNERS.names()), *PRESETS]


def rows_of(benchmark: str, recipe: str) -> dict[str, list[Result]]:
    """Return the results of each `method:preset` under a recipe, one of each seed."""
    found = {}
    for target in targets():
        method, _, preset = target.partition(":")
        each = [
            matching(resolve(benchmark, method=method, preset=preset, recipe=recipe, seed=seed))[:1]
            for seed in range(5)
        ]
        results = [result for one in each for result in one]
        if results:
            found[target] = results
    return found


def _rate(result: Result) -> str:
    settings = result.config["settings"]
    return f"{settings['optimizer']} {settings['lr']:g}" if "optimizer" in settings else "-"


def _kept(method: str, result: Result) -> str:
    kind = LEARNERS.load(method).traits.memory
    memory = result.config["settings"].get("memory")
    return f"{memory:,} images" if kind == "exemplars" and memory else "all images" if kind == "everything" else "-"


def comparison(benchmark: str, recipe: str) -> str:
    """Return the table of a recipe, who wins, and what methods go without."""
    found = rows_of(benchmark, recipe)
    ordered = sorted(found.items(), key=lambda item: -_mean(item[1], "class@1"))
    rows = []
    for target, results in ordered:
        method, _, preset = target.partition(":")
        name = f"`{method}`" if preset == "best" else f"`{method}:{preset}`"
        numbers = [cell(results, metric) for metric in COLUMNS]
        rows.append([name, _kept(method, results[0]), _rate(results[0]), str(len(results)), *numbers])
    head = ["method", "keeps", "rate", "seeds", *COLUMNS]
    sentences = [_winner(found, metric) for metric in ("class@1", "class@20")]
    notes = [f"{_listed(notes)}." for notes in _notes(benchmark, recipe, list(found)) if notes]
    failed = failures(benchmark, recipe, finished={name: [r.seed for r in results] for name, results in found.items()})
    missing = ", ".join(
        f"`{name.removesuffix(':best')}`" for name in targets() if name not in found and name not in failed
    )
    names = ",".join(name.removesuffix(":best") for name in found)
    counts = Counter(result.seed for results in found.values() for result in results)
    seeds = ",".join(str(seed) for seed in sorted(counts) if 2 * counts[seed] > len(found))  # those of most rows
    command = f"All rows: `itaml compare {benchmark} --methods {names} --recipe {recipe} --seeds {seeds}`"
    lines = [_failed(failed)] if failed else []
    lines += [f"Not run with this recipe: {missing}."] if missing else []
    return "\n\n".join([table(head, rows), " ".join(sentences), *notes, *lines, command])


def failures(benchmark: str, recipe: str, finished: Mapping[str, Sequence[int]]) -> dict[str, dict[str, str]]:
    """Return why runs of a table failed, by `method:preset` and seed, without those that have `finished` since."""
    file = RESULTS / f"{benchmark}-{recipe}" / FAILURES
    kept: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    unfinished = {
        target: {seed: why for seed, why in seeds.items() if int(seed) not in finished.get(target, ())}
        for target, seeds in kept.items()
    }
    return {target: seeds for target, seeds in unfinished.items() if seeds}


def _failed(failed: dict[str, dict[str, str]]) -> str:
    each = [
        f"`{target.removesuffix(':best')}` (seed {seed}: {why.partition(':')[0]})"
        for target, seeds in failed.items()
        for seed, why in sorted(seeds.items())
    ]
    return f"Failed: {', '.join(each)}."


def _listed(notes: list[str]) -> str:
    text = "; ".join(notes)
    return text[0].upper() + text[1:]


def _notes(benchmark: str, recipe: str, targets: list[str]) -> list[list[str]]:
    found: list[str] = []
    for target in targets:
        method, _, preset = target.partition(":")
        for note in recipe_notes(resolve(benchmark, method=method, preset=preset, recipe=recipe)):
            text = note.replace(method, f"`{target.removesuffix(':best')}`", 1)
            found += [text] if text not in found else []
    return [found]


def _values(results: list[Result], metric: str) -> list[float]:
    return [100 * value for result in results if (value := METRICS[metric].value_of(result)) is not None]


def _mean(results: list[Result], metric: str) -> float:
    return statistics.fmean(_values(results, metric))


def _spread(results: list[Result], metric: str) -> float:
    values = _values(results, metric)
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _winner(found: dict[str, list[Result]], metric: str) -> str:
    """Say which method is best at a metric, and which are not behind it by more than both standard deviations."""
    ranked = {name: results for name, results in found.items() if name.partition(":")[0] not in UPPER_BOUNDS}
    best, *others = sorted(ranked, key=lambda name: -_mean(ranked[name], metric))
    if all(len(results) == 1 for results in ranked.values()):
        name = best.removesuffix(":best")
        return f"{metric}: `{name}` has the highest value, of one seed each, so that the spread is not known."
    level = [
        other
        for other in others
        if _mean(ranked[best], metric) - _mean(ranked[other], metric)
        <= max(_spread(ranked[best], metric), _spread(ranked[other], metric))
    ]
    shown = [f"`{name.removesuffix(':best')}`" for name in (best, *level)]
    alone = [f"`{name.removesuffix(':best')}`" for name in ranked if len(ranked[name]) == 1]
    single = f" (of {', '.join(alone)} there is one seed, whose spread is not known)" if alone else ""
    if not level:
        second = _mean(ranked[best], metric) - _mean(ranked[others[0]], metric)
        runner_up = others[0].removesuffix(":best")
        return (
            f"{metric}: {shown[0]} wins by more than the standard deviations, {second:.2f} points before "
            f"`{runner_up}`{single}."
        )
    return (
        f"{metric}: {shown[0]} has the highest mean; {', '.join(shown[1:])} "
        f"{'is' if len(level) == 1 else 'are'} within the standard deviations of it, all others are not{single}."
    )


def rates(benchmark: str) -> str:
    """Return the trials that the rates of recipe `plain` were chosen by."""
    found = load(f"equal-effort-rates-{benchmark}")
    rows = []
    head: list[str] = []
    for target, row in found["methods"].items():
        head = [f"{one['optimizer']} {one['lr']:g}" for one in row["trials"]]
        chosen = row["chosen"]
        numbers = ["failed" if "failed" in one else f"{100 * one['score']:.1f}" for one in row["trials"]]
        rows.append([f"`{target.removesuffix(':best')}`", *numbers, f"{chosen['optimizer']} {chosen['lr']:g}"])
    others = [
        f"`{target.removesuffix(':best')}` {one['optimizer']} {one['lr']:g}: {100 * one['score']:.1f}"
        for target, row in found["methods"].items()
        if (one := row.get("not_counted"))
    ]
    note = f"Tried for some methods only, and therefore not counted: {'; '.join(others)}." if others else ""
    return "\n\n".join([table(["method", *head, "chosen"], rows), *([note] if note else [])])
