"""`itaml predict`: predict the class of images."""

from __future__ import annotations

import glob
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from itaml.cli.options import Device, Json, Precision, Threads, set_threads
from itaml.cli.prediction_output import plain_prediction, print_csv, print_jsonl, print_predictions
from itaml.errors import DataError, UsageError
from itaml.text import finite_or_none

if TYPE_CHECKING:
    from itaml.exchange.exported_classifier import ExportedClassifier
    from itaml.modelstore.predictions import Grouping, Unknown

LABEL_FORMATS = ("label-studio", "coco", "cvat")
WRITERS = {"table": print_predictions, "csv": print_csv, "jsonl": print_jsonl}


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model, or a file that `itaml export` wrote (.onnx).")],
    images: Annotated[
        list[str],
        typer.Argument(help="Image files, folders or patterns such as 'new/*.jpg'; - reads a list of files."),
    ],
    *,
    continuum: Annotated[
        bool, typer.Option("--continuum", help="All images are of one task: find it from all of them together.")
    ] = False,
    group_by: Annotated[
        str | None, typer.Option(metavar="folder", help="The images in each folder are of one task.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="The images are in order and their task changes now and then: find where."),
    ] = False,
    mean_run: Annotated[
        float | None,
        typer.Option(min=1, help="With --stream: images of one task in a row on average; else estimated."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes to tell for each image.")] = 1,
    unknown: Annotated[
        str,
        typer.Option(
            metavar="auto|never|NUMBER",
            help="Predict `unknown` where an image looks like no class, never, or if the confidence is below NUMBER.",
        ),
    ] = "auto",
    rank: Annotated[
        str | None,
        typer.Option(metavar="uncertain", help="Order images by how much labelling them would teach, most first."),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--format", help="table, csv, jsonl (one JSON object per line), label-studio, coco or cvat."),
    ] = "table",
    runtime: Annotated[
        str, typer.Option(metavar="auto|onnx", help="onnx exports the model and predicts with ONNX Runtime alone.")
    ] = "auto",
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Predict the class of images: one line each with file, class, confidence and task.

    Each image stands alone unless --continuum, --group-by folder or --stream says which belong to one task; then
    all of them help to find it, which makes the predictions better.
    """
    _check(form, rank, runtime, as_json=as_json)
    group = _grouping(continuum, group_by, stream)
    if mean_run is not None and group != "stream":
        raise UsageError("--mean-run is for --stream")
    threshold = _unknown(unknown)
    set_threads(threads)
    logging.getLogger("itaml").addHandler(logging.NullHandler())  # unreadable images have rows of their own
    from itaml.cli.formatting import count, printable
    from itaml.modelstore.image_classifier import ImageClassifier
    from itaml.modelstore.image_listing import notes_about

    exported = runtime == "onnx" or model.suffix == ".onnx"
    if exported and (group != "each" or rank):
        raise UsageError(
            "an exported model predicts each image alone: leave out --continuum, --group-by, --stream, --rank"
        )
    classifier: ImageClassifier | ExportedClassifier
    if exported:
        classifier = _open_exported(model, threads)
    else:
        classifier = ImageClassifier.open(model, device=device, precision=precision)
    left_out: list[str] = []
    files = list(expand(images, sys.stdin, left_out))
    notes = notes_about(left_out)
    if not files:
        raise DataError("; ".join([f"no images in {', '.join(images)}", *notes]))
    grouped: dict[str, Any] = {"group": group, "mean_run": mean_run, "rank": "uncertain" if rank else None}
    predictions = classifier.predict(files, top=top, unknown=threshold, **({} if exported else grouped))
    if as_json:
        about = {
            "model": str(model),
            "version": getattr(classifier, "version", None),
            "unknown_threshold": finite_or_none(classifier.unknown_threshold),
        }
        print(
            json.dumps(
                {
                    **about,
                    "predictions": [plain_prediction(prediction, top) for prediction in predictions],
                    "notes": notes,
                }
            )
        )
    else:
        if form in LABEL_FORMATS:
            from itaml.exchange.label_export import EXPORTERS

            print(EXPORTERS[form](predictions, classifier.classes))
        else:
            WRITERS[form](predictions, top)
        for note in notes:
            print(f"note: {printable(note)}", file=sys.stderr)
    failed = [prediction for prediction in predictions if prediction.error]
    if failed:
        one = f"{failed[0].file}: {failed[0].error}"
        raise DataError(f"{len(failed)} of {count(len(predictions), 'image')} could not be read, such as {one}")


def _check(form: str, rank: str | None, runtime: str, *, as_json: bool) -> None:
    if as_json and form != "table":
        raise UsageError(f"--json and --format {form} exclude each other")
    if form not in (*WRITERS, *LABEL_FORMATS):
        raise UsageError(f"--format is one of {', '.join((*WRITERS, *LABEL_FORMATS))}, not {form!r}")
    if runtime not in ("auto", "onnx"):
        raise UsageError(f"--runtime is auto or onnx, not {runtime!r}")
    if rank not in (None, "uncertain"):
        raise UsageError(f"--rank takes uncertain, not {rank!r}")


def _open_exported(model: Path, threads: int | None) -> ExportedClassifier:
    """Open an exported model; a folder is exported first, to a file that is gone afterwards."""
    import tempfile

    from itaml.exchange.exported_classifier import ExportedClassifier
    from itaml.exchange.onnx_export import export_onnx
    from itaml.modelstore.image_classifier import ImageClassifier

    if model.suffix == ".onnx":
        return ExportedClassifier(model, threads=threads)
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(ImageClassifier.open(model), Path(folder) / "model.onnx")
        return ExportedClassifier(Path(folder) / "model.onnx", threads=threads)


def _grouping(continuum: bool, group_by: str | None, stream: bool) -> Grouping:
    if group_by not in (None, "folder"):
        raise UsageError(f"--group-by takes folder, not {group_by!r}")
    if continuum + stream + (group_by is not None) > 1:
        raise UsageError("--continuum, --group-by and --stream exclude each other")
    return "all" if continuum else "stream" if stream else "folder" if group_by else "each"


def _unknown(value: str) -> Unknown:
    if value == "auto":
        return "auto"
    if value == "never":
        return "never"
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise UsageError(f"--unknown is auto, never or a number between 0 and 1, not {value!r}")
    return number


def expand(arguments: Iterable[str], stdin: TextIO, left_out: list[str]) -> Iterator[str]:
    """Yield the files that are meant: files, the images in folders, what patterns match, and `-` a list.

    Args:
        arguments: as they are on the command line.
        stdin: where the list for `-` is read.
        left_out: gets the files in folders that are not of a known image format.

    Raises:
        UsageError: a name is neither a file nor a folder, or a pattern matches nothing.
    """
    from itaml.modelstore.image_listing import list_images

    for argument in arguments:
        if argument == "-":
            yield from (line for line in stdin.read().splitlines() if line.strip())
        elif os.path.isdir(argument):
            listing = list_images(argument)
            left_out.extend(os.path.join(argument, name) for name in listing.others)
            yield from (os.path.join(argument, name) for name in listing.images)
        elif os.path.lexists(argument):
            yield argument
        elif glob.has_magic(argument):
            found = sorted(name for name in glob.glob(argument, recursive=True) if os.path.isfile(name))
            if not found:
                raise UsageError(f"the pattern {argument!r} matches no file")
            yield from found
        else:
            raise UsageError(f"there is no file or folder {argument!r}")
