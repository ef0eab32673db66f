"""`itaml run`: one method through one benchmark."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itaml.cli.options import (
    Compile,
    DataRoot,
    Device,
    Json,
    Precision,
    Quiet,
    Recipe,
    Set,
    Threads,
    parse_split,
    set_threads,
)
from itaml.cli.processes import is_main, several

REPEATED_WITHIN = 3.0  # seconds in which a second signal is torchrun's copy of the first

if TYPE_CHECKING:
    from itaml.cli.progress import LearningProgress
    from itaml.experiment.result import Result
    from itaml.experiment.run_config import RunConfig


def command(
    benchmark: Annotated[str, typer.Argument(help="Benchmark to run; see `itaml list benchmarks`.")],
    method: Annotated[str, typer.Option("--method", "-m", help="Method to run; see `itaml list methods`.")] = "itaml",
    preset: Annotated[str, typer.Option(help="Preset of the method's settings; see `itaml list presets`.")] = "best",
    recipe: Recipe = None,
    seed: Annotated[int, typer.Option(help="Root of all random seeds; the same seed repeats a run to the bit.")] = 0,
    overrides: Set = None,
    split: Annotated[
        str | None, typer.Option(help="Classes of each task, such as 4,3,2,1; the benchmark's own by default.")
    ] = None,
    order_seed: Annotated[
        int | None, typer.Option(help="Shuffle the classes with this seed; in order by default.")
    ] = None,
    p: Annotated[
        int | None,
        typer.Option("-p", "--continuum", help="Samples per continuum, besides 1; the benchmark's own by default."),
    ] = None,
    validation: Annotated[
        float,
        typer.Option(help="Evaluate on this share of the training data instead of the test data, to choose settings."),
    ] = 0.0,
    out: Annotated[Path | None, typer.Option(help="Folder of this run; a folder in --runs by default.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder of all runs.")] = Path("runs"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete an existing run and start again.")] = False,
    data_root: DataRoot = None,
    image_size: Annotated[int | None, typer.Option(help="Side in pixels of images read from files.")] = None,
    on_bad_image: Annotated[str, typer.Option(help="What to do with unreadable images: skip or fail.")] = "skip",
    device: Device = "auto",
    precision: Precision = "auto",
    compiled: Compile = False,
    threads: Threads = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="Save a checkpoint after an epoch if the last one is older than this.")
    ] = 30.0,
    log: Annotated[list[str] | None, typer.Option(help="Also log to csv, tensorboard or mlflow. Repeatable.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one method on a benchmark, task by task, and evaluate after each task.

    The folder of the run holds its settings, checkpoint, event log and result.json.

    Several processes share one run under torchrun, with the same result up to rounding:
    torchrun --nproc-per-node 2 -m itaml run digits
    """
    from itaml import distributed
    from itaml.config import Compute, build, parse_overrides
    from itaml.data.root import data_root as find_root
    from itaml.experiment.run_config import default_folder, resolve
    from itaml.learners.compute import check_compute

    chosen = parse_overrides(overrides or [])
    if order_seed is not None:
        chosen["seeds.order"] = order_seed
    config = resolve(
        benchmark,
        method=method,
        preset=preset,
        recipe=recipe,
        seed=seed,
        overrides=chosen,
        split=parse_split(split) if split is not None else None,
        p=(1, p) if p not in (None, 1) else None if p is None else (1,),
        validation=validation,
        image_size=image_size,
        on_bad_image=on_bad_image,
        compute=build(Compute, {"device": device, "precision": precision, "compile": compiled}, what="option"),
    )
    distributed.on_main(lambda: check_compute(config.compute))
    set_threads(threads, backbone=config.settings.get("backbone"))
    folder = out or default_folder(config, runs)
    options: dict[str, Any] = {"data_root": find_root(data_root), "resume": resume, "force": force}
    options |= {"logs": (log or []) if is_main() else [], "checkpoint_seconds": checkpoint_seconds}
    quiet = quiet or not is_main()
    result = _go(config, folder, quiet=quiet or as_json, **options)
    if as_json:
        print(json.dumps({"folder": str(folder), **result.to_dict()}))
    elif not quiet:
        _print_final(result, folder, config)


def _go(config: RunConfig, folder: Path, *, quiet: bool, logs: list[str], **options: Any) -> Result:
    from itaml.cli.progress import LearningProgress
    from itaml.data.benchmarks import benchmark
    from itaml.errors import InterruptedRunError
    from itaml.experiment.loggers import open_loggers
    from itaml.experiment.runner import run_experiment

    tasks = len(config.split) if config.split else benchmark(config.benchmark).tasks
    progress = LearningProgress(tasks, live=sys.stderr.isatty() and not quiet)
    callbacks = [] if quiet else [progress, _table(progress, config.p)]
    with open_loggers(logs, config, folder) as also, _graceful_interrupt(progress, quiet=quiet) as stop, progress:
        try:
            return run_experiment(config, folder, callbacks=[*callbacks, *also], stop=stop, **options)
        except InterruptedRunError as error:
            raise InterruptedRunError(f"{error}; it is saved in {folder}: repeat the command with --resume") from error


def _table(progress: LearningProgress, sizes: Sequence[int]) -> Any:
    """Return a callback that prints a row of the accuracy table after each task."""
    from itaml.cli.run_tables import AccuracyTable
    from itaml.events import Event
    from itaml.experiment.event_log import RunStarted, TaskDone

    table = AccuracyTable(sizes)

    def callback(event: Event) -> None:
        if isinstance(event, RunStarted):
            progress.tasks = progress.time.tasks = event.tasks
            progress.say("accuracy in per cent on all classes seen so far, after each task:")
            progress.say(table.header())
        elif isinstance(event, TaskDone):
            progress.say(table.line(event.row))

    return callback


@contextmanager
def _graceful_interrupt(progress: LearningProgress, *, quiet: bool) -> Iterator[Any]:
    """Let the first Ctrl-C end the run after the epoch under way; the second ends it at once.

    torchrun sends its processes the signal that a terminal has sent them too, and SIGTERM when one of them has failed.
    """
    requested: float | None = None
    repeated = REPEATED_WITHIN if several() else 0.0

    def on_signal(number: int, frame: object) -> None:
        nonlocal requested
        now = time.monotonic()
        if requested is not None and now - requested >= repeated:
            raise KeyboardInterrupt
        requested = now if requested is None else requested
        if not quiet and not (several() and number == signal.SIGTERM):
            progress.say("stopping after this epoch; Ctrl-C again to stop at once")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: requested is not None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_final(result: Result, folder: Path, config: RunConfig) -> None:
    from itaml.cli.formatting import count
    from itaml.cli.run_tables import final_text

    print(f"\n{result.name}: after {count(len(result.tasks), 'task')}, on {result.evaluated_on}")
    print(final_text(result, config.p))
    print(f"\nthe run is in {folder}")
