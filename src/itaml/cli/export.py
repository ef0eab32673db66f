"""`itaml export`: write a model as one file that other programs can run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.formatting import count, percent
from itaml.cli.options import Json, Quiet, Threads, set_threads

if TYPE_CHECKING:
    from itaml.exchange.onnx_export import ExportReport


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    file: Annotated[Path, typer.Argument(help="File to write: .onnx, or .pt2 for torch.export.")],
    *,
    int8: Annotated[
        bool, typer.Option("--int8", help="ONNX with 8-bit numbers; prints the accuracy that this costs.")
    ] = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a model as one file that ONNX Runtime or torch can run without itaml.

    The file takes a batch of RGB images (n, height, width, 3) of uint8, of any size: the resize and the normalisation
    are inside. It holds the class names, the tasks and the threshold for unknown images. Before it is written its
    predictions are compared with the model's.
    """
    set_threads(threads)
    from itaml.modelstore.image_classifier import ImageClassifier

    report = ImageClassifier.open(model).export(file, int8=int8)
    if as_json:
        print(json.dumps({"model": str(model), **_plain(report)}))
    elif not quiet:
        _print(report)


def _plain(report: ExportReport) -> dict[str, object]:
    return {**vars(report), "path": str(report.path)}


def _print(report: ExportReport) -> None:
    print(f"wrote {report.path} ({report.size / 1e6:.1f} MB)")
    print(
        f"compared with the model on {count(report.images, 'image')}: "
        f"probabilities differ by {report.difference:.1e} at most"
        + (" before the change to int8" if report.int8_accuracy is not None else "")
    )
    if report.int8_accuracy is not None:
        print(
            f"accuracy on {count(report.measured, f'{report.measured_on} image')}: {percent(report.accuracy)} % before "
            f"and {percent(report.int8_accuracy)} % with int8"
        )
