"""`itaml learn`: teach a model new classes from folders of pictures."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itaml.cli.options import Device, Json, Precision, Quiet, Set, Threads, set_threads

if TYPE_CHECKING:
    from itaml.events import Event, Listener
    from itaml.library.gather import GatheredFiles
    from itaml.library.learning import LearnReport
    from itaml.library.library import Library

FIXED = ("backbone", "image_size", "memory", "preset", "seed")  # options that hold for a model's life


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model; it is made if it does not exist.")],
    data: Annotated[list[Path], typer.Argument(help="Folders that hold one folder of pictures for each class.")],
    *,
    backbone: Annotated[
        str | None, typer.Option(help="Network of a new model; chosen for the pictures by default.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Side in pixels that pictures of a new model are scaled to; chosen by default.")
    ] = None,
    memory: Annotated[
        int | None, typer.Option(help="Pictures a new model keeps in all, so as not to forget; 2000 by default.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes through the pictures; chosen by their number by default.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="How a new model learns: best (default), paper, released.")] = None,
    seed: Annotated[int | None, typer.Option(help="Root of a new model's random draws; 0 by default.")] = None,
    overrides: Set = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Teach a model the classes in folders of pictures; the folder names become the class names.

    The first call makes the model, later calls add to it: new classes become a new task, and pictures of classes that
    it knows refresh these. At the end a table shows what is known, and what was forgotten. If anything goes wrong,
    the model stays as it was.

    Example: itaml learn pets ./photos, where ./photos holds the folders cat and dog.
    """
    set_threads(threads)
    logging.getLogger("itaml").addHandler(logging.NullHandler())  # the report tells of pictures that were left out
    from itaml.library.gather import gather_folders

    given = {"backbone": backbone, "image_size": image_size, "memory": memory, "preset": preset, "seed": seed}
    wanted = {name: value for name, value in given.items() if value is not None}
    gathered = gather_folders(data)  # before the model is made, so that a wrong folder leaves nothing behind
    library = _open_or_create(model, gathered, wanted, overrides or [], {"device": device, "precision": precision})
    report = _learn(library, gathered, epochs=epochs, quiet=quiet or as_json)
    if as_json:
        record = report.record.model_dump(mode="json")
        print(json.dumps({"model": str(model), "version": library.version, **record, "notes": list(report.notes)}))
    elif not quiet:
        _print_report(library, report)


def _open_or_create(
    path: Path, gathered: GatheredFiles, wanted: dict[str, Any], overrides: list[str], compute: dict[str, Any]
) -> Library:
    from itaml.config import Compute, build, parse_overrides
    from itaml.errors import UsageError
    from itaml.library.folder import ModelFolder
    from itaml.library.learning import begun
    from itaml.library.library import Library
    from itaml.library.record import Facts, Options

    settings = parse_overrides(overrides)
    if ModelFolder(path).exists():
        library = Library.open(path, **compute)
        if library.classes:
            fixed = [f"--{name.replace('_', '-')}" for name in FIXED if name in wanted] + ["--set"] * bool(settings)
            if fixed:
                raise UsageError(
                    f"{path} was made with its own settings, which cannot change: leave out {', '.join(fixed)}"
                )
            return library
    facts = Facts(options=build(Options, {**wanted, "settings": settings}, what="option"))
    begun(facts, gathered, build(Compute, compute, what="option"))  # what cannot work leaves nothing behind
    return Library.create(path, **compute, **wanted, settings=settings)


def _learn(library: Library, gathered: GatheredFiles, *, epochs: int | None, quiet: bool) -> LearnReport:
    from itaml.cli.progress import LearningProgress
    from itaml.errors import InterruptedRunError
    from itaml.events import ignore

    try:
        if quiet:
            return library.learn(gathered, epochs=epochs, listen=ignore)
        with LearningProgress(1, live=sys.stderr.isatty()) as progress:
            return library.learn(gathered, epochs=epochs, listen=_shown(progress))
    except KeyboardInterrupt:
        raise InterruptedRunError(f"stopped; {library.path} is as it was before") from None


def _shown(progress: Any) -> Listener:
    """Return a listener that shows one learn, whichever task of the model it is."""
    from itaml.events import BatchDone, EpochDone, TaskStarted
    from itaml.library.pixels import PicturesRead

    def listen(event: Event) -> None:
        if isinstance(event, PicturesRead):
            if event.done == event.total:
                progress.say(f"read {event.total:,} pictures")
        elif isinstance(event, TaskStarted | BatchDone | EpochDone):
            progress(replace(event, task=0))
        else:
            progress(event)

    return listen


def _print_report(library: Library, report: LearnReport) -> None:
    from itaml.cli.progress import duration
    from itaml.cli.words import count, listed, percent, printable

    record = report.record
    for note in report.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    total, names = sum(record.pictures.values()), listed(record.new)
    what = f"{count(len(record.new), 'new class')} ({names})" if record.new else f"more of {listed(record.known)}"
    print(f"learned {what} from {count(total, 'picture')} in {duration(record.seconds)}")
    print(f"{library.path} now knows {count(len(library.classes), 'class')} in {count(len(library.tasks), 'task')}\n")
    print("accuracy in per cent on pictures held back from training, each alone among all classes:")
    print(f"{'task':>4}  {'pictures':>8}  {'before':>6}  {'after':>6}  classes")
    for score, task in zip(record.tasks, library.tasks, strict=True):
        figures = f"{score.pictures:>8}  {percent(score.before):>6}  {percent(score.after):>6}"
        print(f"{score.task + 1:>4}  {figures}  {listed(task.classes)}")
    validated = count(record.validation_pictures, "validation picture")
    print(f"{'new data':>14}  {'':>6}  {percent(record.validation):>6}  {validated}")
