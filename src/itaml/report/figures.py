"""The figures of a report: which numbers of which groups go into which chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from itaml.report import published
from itaml.report.bars import bar_chart
from itaml.report.charts import Series, Value, heat_map, line_chart, percent_range
from itaml.report.drawing import Drawing, beside
from itaml.report.result import Result, TaskRow
from itaml.report.summary import Group, Stat

MOST_BARS = 40  # classes that are shown one by one
Number = Callable[[TaskRow], float | None]


def curves(groups: Sequence[Group], p: int) -> dict[str, Drawing]:
    """Draw accuracy after each task: alone (p = 1), and the three settings of the paper's Figure 5."""
    panels: dict[str, tuple[str, Number, int | None]] = {
        "class-p1": ("Class accuracy, p = 1", _class(1), 1),
        "task-agnostic": (f"Task-agnostic, p = {p}", _class(p), p),
        "task-aware": ("Task-aware", lambda row: row.task_aware, None),
        "no-update": ("No inference update", lambda row: row.no_update, None),
    }
    if p == 1:
        del panels["class-p1"]
    lines = {name: _lines(groups, number, at) for name, (_, number, at) in panels.items()}
    span = percent_range([line for some in lines.values() for line in some])
    return {
        name: line_chart(some, title=panels[name][0], x_label="tasks learned", y_label="accuracy, %", y_range=span)
        for name, some in lines.items()
        if some
    }


def figure5(groups: Sequence[Group], p: int) -> Drawing:
    """Draw the three panels of the paper's Figure 5 side by side, as far as the methods have them."""
    return beside([drawing for name, drawing in curves(groups, p).items() if name != "class-p1"])


def _class(p: int) -> Number:
    return lambda row: row.continuum[p].classes if p in row.continuum else None


def _lines(groups: Sequence[Group], number: Number, p: int | None) -> list[Series]:
    lines = [
        series_of(one.label, range(1, one.tasks + 1), one.after_each_task(number), style=style)
        for style, one in enumerate(groups)
    ]
    lines = [line for line in lines if any(value is not None for value in line.y)]
    return lines + (_published(groups, p) if p is not None else [])


def _published(groups: Sequence[Group], p: int) -> list[Series]:
    """Return what was published for the methods shown, at this p: a curve, or its last point."""
    found = []
    for method in dict.fromkeys(one.first.method for one in groups):
        figure = published.figure(groups[0].first.benchmark, method, p=p)
        if figure is None:
            continue
        last = max(one.tasks for one in groups)
        values = figure.curve or (figure.value,)
        steps = range(1, len(values) + 1) if figure.curve else (last,)
        found.append(Series(f"{method}, published", list(steps), [100 * value for value in values], style=-1))
    return found


def series_of(
    name: str, x: Sequence[float], stats: Sequence[Stat | None], *, style: int, scale: float = 100.0
) -> Series:
    """Return the line of means, with a band of one deviation where there are several seeds."""

    def values(part: Callable[[Stat], float]) -> list[Value]:
        return [None if stat is None else scale * part(stat) for stat in stats]

    if not any(stat and stat.deviation is not None for stat in stats):
        return Series(name, list(x), values(lambda stat: stat.mean), style=style)
    top = 1.0 if scale == 100 else float("inf")
    low = values(lambda stat: max(0.0, stat.mean - (stat.deviation or 0.0)))
    high = values(lambda stat: min(top, stat.mean + (stat.deviation or 0.0)))
    return Series(name, list(x), values(lambda stat: stat.mean), low, high, style=style)


def costs(groups: Sequence[Group]) -> list[Drawing]:
    """Draw training seconds and peak memory of each task."""

    def chart(title: str, y_label: str, number: Number) -> Drawing:
        lines = [
            series_of(one.label, range(1, one.tasks + 1), one.after_each_task(number), style=style, scale=1.0)
            for style, one in enumerate(groups)
        ]
        return line_chart(lines, title=title, x_label="task", y_label=y_label)

    return [
        chart("Training time of each task", "seconds", lambda row: row.train_seconds),
        chart("Peak memory of the process so far", "megabytes", lambda row: row.peak_memory_mb),
    ]


def of_group(one: Group, style: int) -> dict[str, Drawing]:
    """Draw what belongs to one method: matrix, confusion, accuracy against p, forgetting, classes."""
    p = one.first.p
    found = {"matrix-p1": _matrix(one, 1)}
    if p != 1 and p in one.first.accuracy_matrices:
        found[f"matrix-p{p}"] = _matrix(one, p)
    confusion = _confusion(one)
    if confusion is not None:
        found["task-confusion"] = confusion
    if one.first.final.curve:
        found["continuum"] = _against_p(one, style)
    if one.tasks > 1:
        found["forgetting"] = _forgetting(one)
    if one.first.final.per_class:
        found["classes"] = _classes(one)
    return found


def _matrix(one: Group, p: int) -> Drawing:
    squares = [run.accuracy_matrices.get(p, run.accuracy_matrix) for run in one.runs]
    cells = [[_mean([square[i][j] for square in squares]) for j in range(one.tasks)] for i in range(one.tasks)]
    names = [str(task + 1) for task in range(one.tasks)]
    title = f"Accuracy of each task, p = {p}, %"
    return heat_map(cells, title=title, rows=names, columns=names, x_label="tested on task", y_label="after task")


def _confusion(one: Group) -> Drawing | None:
    tables = [run.final.task_confusion for run in one.runs if run.final.task_confusion]
    if not tables:
        return None
    shares = [[[count / (sum(row) or 1) for count in row] for row in table] for table in tables]
    cells = [[_mean([table[i][j] for table in shares]) for j in range(one.tasks)] for i in range(one.tasks)]
    names = [str(task + 1) for task in range(one.tasks)]
    title = "Task found for single samples, %"
    return heat_map(cells, title=title, rows=names, columns=names, x_label="task found", y_label="true task")


def _against_p(one: Group, style: int) -> Drawing:
    sizes = sorted(one.first.final.curve)

    def stats(number: Callable[[Result, int], float | None]) -> list[Stat | None]:
        return [Stat.of(number(run, p) for run in one.runs if p in run.final.curve) for p in sizes]

    lines = [
        series_of("task", sizes, stats(lambda run, p: run.final.curve[p].task), style=style),
        series_of("class", sizes, stats(lambda run, p: run.final.curve[p].classes), style=style + 1),
        series_of("task, Alg. 4", sizes, stats(lambda run, p: run.final.curve[p].bound), style=-1),
    ]
    lines = [line for line in lines if any(value is not None for value in line.y)]
    title = "Accuracy against samples that come together"
    return line_chart(
        lines,
        title=title,
        x_label="p, samples a continuum (log scale)",
        y_label="accuracy, %",
        y_range=percent_range(lines),
        x_ticks=[float(size) for size in sizes],
        log_x=True,
    )


def _forgetting(one: Group) -> Drawing:
    """Draw, for each old task, its best accuracy so far minus the one at the end."""

    def lost(run: Result, task: int) -> float | None:
        column = [row[task] for row in run.accuracy_matrix if row[task] is not None]
        known = [value for value in column if value is not None]
        return max(known[:-1]) - known[-1] if len(known) > 1 else None

    stats = [one.stat(lambda run, task=task: lost(run, task)) for task in range(one.tasks - 1)]  # type: ignore[misc]
    names = [f"task {task + 1}" for task in range(one.tasks - 1)]
    title = "Forgetting of each task at the end, p = 1"
    return _bars(names, stats, title=title, x_label="points lost since the task's best")


def _classes(one: Group) -> Drawing:
    """Draw the accuracy of each class; of many classes those that are worst."""
    names = list(one.first.final.per_class)
    stats = {name: one.stat(lambda run, name=name: run.final.per_class.get(name)) for name in names}  # type: ignore[misc]
    title = "Accuracy of each class, p = 1"
    if len(names) > MOST_BARS:
        names = sorted(names, key=lambda name: stats[name].mean if stats[name] else 0.0)[:MOST_BARS]  # type: ignore[union-attr]
        title = f"The {MOST_BARS} of {len(stats)} classes with the least accuracy, p = 1"
    return _bars(names, [stats[name] for name in names], title=title, x_label="accuracy, %", full=100.0)


def _bars(
    names: Sequence[str], stats: Sequence[Stat | None], *, title: str, x_label: str, full: float = 0.0
) -> Drawing:
    values = [None if stat is None else 100 * stat.mean for stat in stats]
    spread = [None if stat is None or stat.deviation is None else 100 * stat.deviation for stat in stats]
    return bar_chart(names, values, title=title, x_label=x_label, spread=spread, full=full)


def _mean(values: Sequence[float | None]) -> float | None:
    stat = Stat.of(values)
    return None if stat is None else stat.mean
