"""`itaml watch`: how a run goes, from its event log alone."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from itaml.run.follow import EventTail, RunState

HEIGHT = 12  # lines of the chart
MARKS = ("o", "x", "+", "*")


def command(
    run: Annotated[Path, typer.Argument(help="The folder of a run that is under way, or over.")],
    *,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between looks.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Show how it stands and end.")] = False,
) -> None:
    """Show a run while it goes on: accuracy after each task as curves, the loss, the time left.

    On a terminal the view moves; when piped it is a line an event. It ends when the run ends.
    """
    from itaml.errors import DataError
    from itaml.run.follow import follow

    if not run.is_dir() or not ((run / "config.json").exists() or (run / "events.jsonl").exists()):
        raise DataError(f"{run} is not the folder of a run")
    tail, state = follow(run)
    if sys.stdout.isatty():
        _live(tail, state, every=every, once=once)
    else:
        _piped(tail, state, every=every, once=once)


def _piped(tail: EventTail, state: RunState, *, every: float, once: bool) -> None:
    """Print one line per event; with `once`, the present state alone."""
    if once:
        for event in tail.read():
            state.take(event)
        print("\n".join(view(state)))
        return
    while True:
        for event in tail.read():
            state.take(event)
            print(status(state), flush=True)
        if state.done:
            return
        time.sleep(every)


def _live(tail: EventTail, state: RunState, *, every: float, once: bool) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            for event in tail.read():
                state.take(event)
            live.update(Text("\n".join(view(state))), refresh=True)
            if state.done or once:
                return
            time.sleep(every)


def view(state: RunState) -> list[str]:
    """Return the whole view: status, chart and losses, with an empty line between those that there are."""
    parts = [part for part in ([status(state)], chart(state), losses(state)) if part]
    return [line for index, part in enumerate(parts) for line in ([""] * bool(index) + part)]


def status(state: RunState) -> str:
    """Return one line: which run, where it is, its latest numbers, the time left."""
    from itaml.cli.progress import duration
    from itaml.cli.tables import percent

    if not state.name:
        return "waiting for the run to begin"
    words = [state.name]
    if state.done:
        words.append(f"over after {len(state.rows)} tasks")
    elif state.epochs and len(state.rows) <= state.task:
        words.append(f"task {state.task + 1}/{state.tasks} epoch {state.epoch}/{state.epochs}")
    elif state.rows:
        words.append(f"task {len(state.rows)}/{state.tasks} learned")
    if state.loss is not None and not state.done:
        words.append(f"loss {state.loss:.3f}")
    if state.rows:
        words += [f"class p={p} {percent(at['class'])}" for p, at in state.rows[-1].get("continuum", {}).items()]
    if state.seconds_left and not state.done:
        words.append(f"{duration(state.seconds_left)} left")
    return "  ".join(words)


def chart(state: RunState, *, height: int = HEIGHT) -> list[str]:
    """Draw accuracy after each task with characters: a column a task, 0 to 100 per cent, a mark a protocol."""
    if not state.rows:
        return []
    curves: dict[str, list[float | None]] = {}
    for p in state.rows[0].get("continuum", {}):
        curves[f"class p={p}"] = [row["continuum"].get(p, {}).get("class") for row in state.rows]
    for key, name in (("task_aware", "task-aware"), ("no_update", "no update")):
        values = [row.get(key) for row in state.rows]
        if any(value is not None for value in values):
            curves[name] = values
    step = 4 if state.tasks <= 20 else 2
    grid = [[" "] * (step * max(state.tasks, len(state.rows)) + 1) for _ in range(height + 1)]
    shown = list(zip(curves, MARKS, strict=False))
    for name, mark in reversed(shown):  # the first, what matters most, on top
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


def losses(state: RunState, *, most: int = 60) -> list[str]:
    """Draw the loss of the task under way as a row of blocks."""
    values = state.losses[-most:]
    if not values or state.done:
        return []
    blocks, top = "▁▂▃▄▅▆▇█", max(values) or 1.0
    return [f"loss of task {state.task + 1}: " + "".join(blocks[min(7, int(8 * value / top))] for value in values)]
