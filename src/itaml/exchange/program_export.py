"""Export a model as a program of `torch.export` (`.pt2`), which torch reads without this package."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from itaml.exchange.export_check import MOST_CHECKED, Run, compare, kept_images
from itaml.exchange.onnx_export import ExportReport, trace

if TYPE_CHECKING:
    from itaml.modelstore.image_classifier import ImageClassifier

METADATA = "itaml.json"  # name of the metadata inside the file


def export_program(classifier: ImageClassifier, path: str | os.PathLike[str]) -> ExportReport:
    """Write a model as a `.pt2` file; its metadata is the extra file `itaml.json`.

    Raises:
        DataError: nothing was learned yet.
        SettingsError: the method cannot be exported.
        CheckpointError: the program does not predict what the model predicts.
    """
    target = Path(path)
    program, metadata = trace(classifier)
    images = kept_images(classifier, kind="exemplar", limit=MOST_CHECKED).first(MOST_CHECKED).images
    difference = compare(classifier, program_runner(program), images)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{os.getpid()}.{target.name}")  # torch insists on the suffix
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(program, unfinished, extra_files={METADATA: json.dumps(metadata)})
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return ExportReport(target, target.stat().st_size, len(images), difference)


def program_runner(program: torch.export.ExportedProgram) -> Run:
    """Return a function that runs a program on images (n, h, w, channels)."""
    module = program.module()

    def run(images: object) -> object:
        with torch.no_grad():
            return tuple(output.numpy() for output in module(torch.as_tensor(images)))

    return run  # type: ignore[return-value]
