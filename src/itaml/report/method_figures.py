"""The figures of one method: accuracy matrix, task confusion, accuracy against p, forgetting, classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from itaml.experiment.result import Result
from itaml.report.bars import bar_chart
from itaml.report.charts import Panel, line_chart, percent_range
from itaml.report.figures import series_of
from itaml.report.heat_map import heat_map
from itaml.report.summary import Group, Stat
from itaml.report.svg import Chart

MAX_BARS = 40  # classes that are shown one by one


def method_figures(one: Group, style: int) -> dict[str, Chart]:
    """Draw the figures of a method by names that can be part of a file's name."""
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


def _matrix(one: Group, p: int) -> Chart:
    squares = [run.accuracy_matrices.get(p, run.accuracy_matrix) for run in one.runs]
    cells = [[_mean([square[i][j] for square in squares]) for j in range(one.tasks)] for i in range(one.tasks)]
    return heat_map(cells, title=f"Accuracy of each task, p = {p}, %", x_label="tested on task", y_label="after task")


def _confusion(one: Group) -> Chart | None:
    tables = [run.final.task_confusion for run in one.runs if run.final.task_confusion]
    if not tables:
        return None
    shares = [[[count / (sum(row) or 1) for count in row] for row in table] for table in tables]
    cells = [[_mean([table[i][j] for table in shares]) for j in range(one.tasks)] for i in range(one.tasks)]
    return heat_map(cells, title="Task predicted for single samples, %", x_label="predicted task", y_label="true task")


def _against_p(one: Group, style: int) -> Chart:
    sizes = sorted(one.first.final.curve)

    def stats(number: Callable[[Result, int], float | None]) -> list[Stat | None]:
        return [Stat.of(number(run, p) for run in one.runs if p in run.final.curve) for p in sizes]

    lines = [
        series_of("task", sizes, stats(lambda run, p: run.final.curve[p].task), style=style),
        series_of("class", sizes, stats(lambda run, p: run.final.curve[p].classes), style=style + 1),
        series_of("task, Alg. 4", sizes, stats(lambda run, p: run.final.curve[p].bound), style=-1),
    ]
    lines = [line for line in lines if line.last is not None]
    x_label = "p, samples per continuum (log scale)"
    return line_chart(Panel(lines, "Accuracy against p", x_label, "accuracy, %", percent_range(lines), log_x=True))


def _forgetting(one: Group) -> Chart:
    """Draw, for each old task, its best accuracy so far minus the one at the end."""

    def lost(run: Result, task: int) -> float | None:
        known = [value for row in run.accuracy_matrix if (value := row[task]) is not None]
        return max(known[:-1]) - known[-1] if len(known) > 1 else None

    stats = [Stat.of(lost(run, task) for run in one.runs) for task in range(one.tasks - 1)]
    names = [f"task {task + 1}" for task in range(one.tasks - 1)]
    title = "Forgetting of each task at the end, p = 1"
    return _bars(names, stats, title=title, x_label="points lost since the task's best")


def _classes(one: Group) -> Chart:
    """Draw the accuracy of each class; of many classes those with the lowest."""
    names = list(one.first.final.per_class)
    stats = {name: Stat.of(run.final.per_class.get(name) for run in one.runs) for name in names}
    title = "Accuracy of each class, p = 1"
    if len(names) > MAX_BARS:
        names = sorted(names, key=lambda name: stat.mean if (stat := stats[name]) else 0.0)[:MAX_BARS]
        title = f"The {MAX_BARS} of {len(stats)} classes with the lowest accuracy, p = 1"
    return _bars(names, [stats[name] for name in names], title=title, x_label="accuracy, %", full=100.0)


def _bars(names: Sequence[str], stats: Sequence[Stat | None], *, title: str, x_label: str, full: float = 0.0) -> Chart:
    values = [None if stat is None else 100 * stat.mean for stat in stats]
    std = [None if stat is None or stat.std is None else 100 * stat.std for stat in stats]
    return bar_chart(names, values, std, title=title, x_label=x_label, full=full)


def _mean(values: Sequence[float | None]) -> float | None:
    stat = Stat.of(values)
    return None if stat is None else stat.mean
