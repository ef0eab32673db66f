"""`itaml learn`: teach a model new classes from folders of images."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itaml.cli.options import Device, Json, Precision, Quiet, Set, Threads, set_threads
from itaml.cli.processes import is_main

if TYPE_CHECKING:
    from itaml.events import Callback, Event
    from itaml.modelstore.image_classifier import ImageClassifier
    from itaml.modelstore.labelled_inputs import LabelledInputs
    from itaml.modelstore.learning import LearnReport
    from itaml.modelstore.manifest import TaskScore

FIXED = ("method", "backbone", "image_size", "memory", "preset", "seed")  # options that hold for a model's life


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model; it is made if it does not exist.")],
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that hold one folder of images for each class; or labels: .csv (path,label), .json of Label "
            "Studio or COCO, .xml or .zip of CVAT."
        ),
    ],
    *,
    images: Annotated[
        Path | None, typer.Option("--images", help="For labels: the folder of the images; that of the file by default.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Method of a new model (see `itaml list methods`); chosen by default.")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Network of a new model; chosen for the images by default.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Side in pixels that images of a new model are scaled to; chosen by default.")
    ] = None,
    memory: Annotated[
        int | None, typer.Option(help="Images a new model keeps in all, so as not to forget; 2000 by default.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes through the images; chosen by their number by default.")
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
    """Teach a model the classes in folders of images; the folder names become the class names.

    The first call makes the model, later calls add to it: new classes become a new task, and images of classes that
    it knows refresh these. Images that it keeps already are not stored again; under another class, the newer label
    counts. At the end a table shows what is known, and what was forgotten. If anything goes wrong,
    the model stays as it was.

    Example: itaml learn pets ./photos, where ./photos holds the folders cat and dog.

    Several processes share one learn under torchrun: torchrun --nproc-per-node 2 -m itaml learn pets ./photos
    """
    set_threads(threads)
    logging.getLogger("itaml").addHandler(logging.NullHandler())  # the report tells of images that were left out

    given = {
        "method": method,
        "backbone": backbone,
        "image_size": image_size,
        "memory": memory,
        "preset": preset,
        "seed": seed,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    with _labelled(data, images) as labelled:  # before the model is made, so that a wrong folder leaves nothing behind
        classifier = _open_or_new(model, wanted, overrides or [], {"device": device, "precision": precision})
        report = _learn(classifier, labelled, epochs=epochs, quiet=quiet or as_json or not is_main())
    if as_json:
        record = report.record.model_dump(mode="json")
        about = {"model": str(model), "version": classifier.version, "changed": report.changed}
        print(json.dumps({**about, **record, "notes": list(report.notes)}))
    elif not quiet and is_main():
        _print_report(classifier, report)


@contextmanager
def _labelled(data: list[Path], images: Path | None) -> Iterator[LabelledInputs]:
    """Index the images of class folders, or of files of labels."""
    from itaml.errors import UsageError
    from itaml.exchange.label_files import is_label_file, labelled_files
    from itaml.modelstore.labelled_inputs import inputs_from_folders, inputs_with_labels

    files = [path for path in data if is_label_file(path)]
    if files and len(files) < len(data):
        raise UsageError("give folders or files of labels, not both")
    if images is not None and not files:
        raise UsageError("--images is for files of labels")
    if not files:
        yield inputs_from_folders(data)
        return
    with labelled_files(files, images) as found:
        inputs = inputs_with_labels(list(found.paths), list(found.labels))
        yield replace(inputs, notes=(*found.notes, *inputs.notes))


def _open_or_new(path: Path, wanted: dict[str, Any], overrides: list[str], compute: dict[str, Any]) -> ImageClassifier:
    """Open a model; one that does not exist, or has learned nothing, is written by its first learn."""
    from itaml.config import parse_overrides
    from itaml.errors import UsageError
    from itaml.modelstore.image_classifier import ImageClassifier
    from itaml.modelstore.model_folder import ModelFolder

    settings = parse_overrides(overrides)
    if ModelFolder(path).exists():
        classifier = ImageClassifier.open(path, **compute)
        if classifier.classes:
            fixed = [f"--{name.replace('_', '-')}" for name in FIXED if name in wanted] + ["--set"] * bool(settings)
            if fixed:
                raise UsageError(
                    f"{path} was made with its own settings, which cannot change: leave out {', '.join(fixed)}"
                )
            return classifier
    return ImageClassifier.unsaved(path, **compute, **wanted, settings=settings)


def _learn(classifier: ImageClassifier, labelled: LabelledInputs, *, epochs: int | None, quiet: bool) -> LearnReport:
    from itaml.cli.progress import LearningProgress
    from itaml.errors import InterruptedRunError
    from itaml.events import ignore

    before = classifier.version
    try:
        if quiet:
            return classifier.learn(labelled, epochs=epochs, callback=ignore)
        with LearningProgress(None, live=sys.stderr.isatty()) as progress:
            return classifier.learn(labelled, epochs=epochs, callback=_shown(progress))
    except KeyboardInterrupt:
        done = f"{classifier.path} is as it was before"
        if classifier.version != before:
            done = f"but {classifier.path} had learned already, and is at version {classifier.version}"
        raise InterruptedRunError(f"stopped; {done}") from None


def _shown(progress: Any) -> Callback:
    """Return a callback that shows one learn, whichever task of the model it is."""
    from itaml.cli.formatting import count
    from itaml.modelstore.image_reading import ImagesRead

    def callback(event: Event) -> None:
        if not isinstance(event, ImagesRead):
            progress(event)
        elif event.done == event.total:
            progress.say(f"read {count(event.total, 'image')}")

    return callback


def measured_on(scores: Sequence[TaskScore]) -> str:
    """Return what images accuracies were measured on."""
    kinds = {score.left_out for score in scores if score.images}
    if kinds == {True}:
        return "exemplars, each predicted as if it had not been learned (leave-one-out)"
    if kinds == {True, False}:
        return "validation images, or exemplars left out one by one where a task has none"
    return "validation images"


def _print_report(classifier: ImageClassifier, report: LearnReport) -> None:
    from itaml.cli.formatting import count, listed, percent, printable
    from itaml.cli.progress import duration
    from itaml.cli.tables import print_table

    record = report.record
    for note in report.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    if not report.changed:
        print(f"nothing to learn: all images are known already; {classifier.path} is as it was")
        return
    total, names = sum(record.images.values()), listed(record.new)
    what = f"{count(len(record.new), 'new class')} ({names})" if record.new else f"more of {listed(record.known)}"
    print(f"learned {what} from {count(total, 'image')} in {duration(record.seconds)}")
    knows = f"{count(len(classifier.classes), 'class')} in {count(len(classifier.tasks), 'task')}"
    print(f"{classifier.path} is at version {classifier.version} and knows {knows}\n")
    print(f"accuracy in per cent on {measured_on(record.tasks)}, each alone among all classes:")
    rows = [
        [str(score.task + 1), str(score.images), percent(score.before), percent(score.after), listed(task.classes)]
        for score, task in zip(record.tasks, classifier.tasks, strict=True)
    ]
    rows.append(["new data", str(record.validation_images or ""), "", percent(record.validation), ""])
    print_table(["task", "images", "before", "after", "classes"], rows, align="rrrrl")
