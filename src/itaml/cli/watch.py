"""`itaml watch`: the progress of a run, from its event log alone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.options import Json

if TYPE_CHECKING:
    from itaml.experiment.event_reader import EventReader, RunState

HEIGHT = 12  # lines of the chart
MARKS = ("o", "x", "+", "*")


def command(
    run: Annotated[Path, typer.Argument(help="Folder of a run, in progress or finished.")],
    *,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between updates.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Print the present state and exit.")] = False,
    as_json: Json = False,
) -> None:
    """Show the progress of a run: accuracy after each task as curves, the loss, the time left.

    On a terminal the view is updated in place; when piped, one line is printed per event. The command ends with the
    run. With --json, the state is printed as one JSON object per line.
    """
    from itaml.errors import DataError
    from itaml.experiment.event_reader import follow_run

    if not run.is_dir() or not ((run / "config.json").exists() or (run / "events.jsonl").exists()):
        raise DataError(f"{run} is not the folder of a run")
    reader, state = follow_run(run)
    if as_json:
        _lines(reader, state, every=every, once=once, show=state_json, show_once=state_json)
    elif sys.stdout.isatty():
        _live(reader, state, every=every, once=once)
    else:
        _lines(reader, state, every=every, once=once, show=status, show_once=lambda now: "\n".join(view(now)))


def _lines(
    reader: EventReader,
    state: RunState,
    *,
    every: float,
    once: bool,
    show: Callable[[RunState], str],
    show_once: Callable[[RunState], str],
) -> None:
    """Print one line per event; with `once`, the present state alone."""
    if once:
        for event in reader.read():
            state.take(event)
        print(show_once(state))
        return
    while True:
        for event in reader.read():
            state.take(event)
            print(show(state), flush=True)
        if state.done:
            return
        time.sleep(every)


def _live(reader: EventReader, state: RunState, *, every: float, once: bool) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            for event in reader.read():
                state.take(event)
            live.update(Text("\n".join(view(state))), refresh=True)
            if state.done or once:
                return
            time.sleep(every)


def state_json(state: RunState) -> str:
    """Return the state of a run as one line of JSON; tasks are counted from 0 as in the event log."""
    derived = {"done": state.done, "share": state.share, "seconds_left": state.seconds_left}
    numbers = {
        "rows": [row.to_dict() for row in state.rows],
        "final": None if state.final is None else state.final.to_dict(),
    }
    plain = {item.name: getattr(state, item.name) for item in fields(state)}
    return json.dumps(plain | numbers | derived)


def view(state: RunState) -> list[str]:
    """Return the whole view: status, chart and losses, with an empty line between those that there are."""
    parts = [part for part in ([status(state)], chart(state), losses(state)) if part]
    return [line for index, part in enumerate(parts) for line in ([""] * bool(index) + part)]


def status(state: RunState) -> str:
    """Return one line: the run, its progress, its latest numbers, the time left."""
    from itaml.cli.formatting import count, percent, printable
    from itaml.cli.progress import duration

    if not state.name:
        return "waiting for the run to begin"
    parts = [printable(state.name)]
    if state.done:
        parts.append(f"finished after {count(len(state.rows), 'task')}")
    elif state.epochs and len(state.rows) <= state.task:
        parts.append(f"task {state.task + 1}/{state.tasks} epoch {state.epoch}/{state.epochs}")
    elif state.rows:
        parts.append(f"task {len(state.rows)}/{state.tasks} learned")
    if state.loss is not None and not state.done:
        parts.append(f"loss {state.loss:.3f}")
    if state.rows:
        parts += [f"class p={p} {percent(at.classes, 2)}" for p, at in state.rows[-1].continuum.items()]
    if state.seconds_left and not state.done:
        parts.append(f"{duration(state.seconds_left)} left")
    return "  ".join(parts)


def chart(state: RunState, *, height: int = HEIGHT) -> list[str]:
    """Draw accuracy after each task as text: one column per task, 0 to 100 per cent, one mark per protocol."""
    from itaml.metrics.metric_registry import metrics

    if not state.rows:
        return []
    plotted = (metric for metric in metrics(state.rows[0].continuum) if metric.plotted)
    curves = {metric.name: [metric.after(row) for row in state.rows] for metric in plotted}
    curves = {name: values for name, values in curves.items() if any(value is not None for value in values)}
    step = 4 if state.tasks <= 20 else 2
    grid = [[" "] * (step * max(state.tasks, len(state.rows)) + 1) for _ in range(height + 1)]
    shown = list(zip(curves, MARKS, strict=False))
    for name, mark in reversed(shown):  # the first is the most important and is drawn last
        for task, value in enumerate(curves[name]):
            if value is not None:
                grid[round((1 - value) * height)][step * task + 2] = mark
    lines = [
        f"{100 - 100 * line / height:>4.0f} |{''.join(cells)}".rstrip()
        if line % 3 == 0
        else f"     |{''.join(cells)}".rstrip()
        for line, cells in enumerate(grid)
    ]
    numbers = "".join(f"{task + 1:>{step}}" for task in range(max(state.tasks, len(state.rows))))
    legend = "   ".join(f"{mark} {name}" for name, mark in shown)
    return ["accuracy in per cent after each task", *lines, f"      {numbers[1:]}", f"      {legend}"]


def losses(state: RunState, *, limit: int = 60) -> list[str]:
    """Draw the loss of the current task as a row of blocks."""
    values = state.losses[-limit:]
    if not values or state.done:
        return []
    blocks, top = "▁▂▃▄▅▆▇█", max(values) or 1.0
    return [f"loss of task {state.task + 1}: " + "".join(blocks[min(7, int(8 * value / top))] for value in values)]
