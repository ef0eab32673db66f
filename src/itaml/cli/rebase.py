"""`itaml rebase`: learn a model again with another backbone or method, from the images that it keeps."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.options import Device, Json, Precision, Quiet, Threads

if TYPE_CHECKING:
    from itaml.cli.progress import LearningProgress
    from itaml.events import Callback, Event
    from itaml.modelstore.rebasing import RebaseReport


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    backbone: Annotated[
        str | None, typer.Option(help="The new backbone, such as efficientnet-lite1; the present one by default.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="The new method (see `itaml list methods`); the present one by default.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a model again with another backbone, method or both, from the images that it keeps.

    Classes, tasks and history stay. Only images that the model keeps are learned again, so a model that has seen many
    more images than it keeps may lose accuracy: the table at the end shows it. `itaml rollback` undoes it. The old
    backbone need not be installed any more.

    Example: itaml rebase pets --backbone efficientnet-lite1
    """
    logging.getLogger("itaml").addHandler(logging.NullHandler())
    from itaml.config import Compute, build
    from itaml.events import ignore
    from itaml.learners.compute import check_compute, check_threads
    from itaml.modelstore.rebasing import rebase

    compute = build(Compute, {"device": device, "precision": precision}, what="option")
    check_compute(compute)
    check_threads(threads)

    def run(callback: Callback) -> RebaseReport:
        return rebase(model, backbone=backbone, method=method, compute=compute, threads=threads, callback=callback)

    if quiet or as_json:
        report = run(ignore)
    else:
        from itaml.cli.progress import LearningProgress

        with LearningProgress(None, live=sys.stderr.isatty()) as progress:
            report = run(_shown(progress))
    if as_json:
        print(json.dumps(_as_json(model, report)))
    elif not quiet:
        _print(model, report)


def _shown(progress: LearningProgress) -> Callback:
    from itaml.cli.formatting import listed
    from itaml.modelstore.rebasing import TaskLearnedAgain

    def callback(event: Event) -> None:
        if isinstance(event, TaskLearnedAgain):
            progress.say(f"learned task {event.task + 1} of {event.tasks} again: {listed(event.classes)}")
        else:
            progress(event)

    return callback


def _as_json(model: Path, report: RebaseReport) -> dict[str, object]:
    return {
        "model": str(model),
        "version": report.version,
        "before": dict(zip(("method", "backbone"), report.before, strict=True)),
        "after": dict(zip(("method", "backbone"), report.after, strict=True)),
        "classes": report.classes,
        "images": report.images,
        "seconds": report.seconds,
        "tasks": [score.model_dump(mode="json") for score in report.tasks],
        "notes": list(report.notes),
    }


def _print(model: Path, report: RebaseReport) -> None:
    from itaml.cli.formatting import count, percent, printable
    from itaml.cli.progress import duration
    from itaml.cli.tables import print_table

    for note in report.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    what = " on ".join(name for name in report.after if name)
    learned = f"{count(report.classes, 'class')} from {count(report.images, 'image')}"
    print(f"{model} is {what} now, at version {report.version}: learned {learned} in {duration(report.seconds)}\n")
    print("accuracy in per cent, each image alone among all classes:")
    rows = [
        [str(score.task + 1), str(score.images), percent(score.before), percent(score.after)] for score in report.tasks
    ]
    print_table(["task", "images", "before", "after"], rows, align="rrrr")
