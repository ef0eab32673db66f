"""The learning process: learns the staged images of one job, niced and with few threads.

usage: python -m itaml.serve.learn_job JOB_FOLDER MODEL THREADS

It ends by itself when the service ends, which it notices by the end of its standard input; the job is then continued by
the next service, from the last checkpoint of the learn.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from itaml.errors import DataError, ItamlError
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.learning import LearnReport
from itaml.modelstore.lock import LockedError, locked
from itaml.modelstore.manifest import LearnRecord, Manifest
from itaml.serve.job_progress import JobProgress
from itaml.serve.job_records import LOCK, BaseVersion, JobFolder, JobRecord, StagedImage, now
from itaml.serve.measurement import ClassCounts, forgotten, measure
from itaml.serve.served_model import ServedModel, load

NICE = 19
PARKED = 75  # exit code of a process whose service is gone
PATIENCE = 600.0  # seconds to wait for another process that changes the model


def main(arguments: list[str]) -> int:
    """Run the job of a folder."""
    folder, model, threads = JobFolder(Path(arguments[0])), Path(arguments[1]), int(arguments[2])
    threading.Thread(target=_end_with_service, daemon=True).start()
    _take_low_priority(threads)
    logging.getLogger("itaml").addHandler(logging.NullHandler())
    try:
        with _waiting_for(folder.path / LOCK):
            _run(folder, model, threads)
    except ItamlError as error:
        folder.update(state="failed", finished=now(), error=" ".join(str(error).split())[:1000])
    return 0


def _end_with_service() -> None:
    while os.read(0, 1):  # not by sys.stdin, whose lock would be held when the interpreter ends
        pass
    os._exit(PARKED)


def _take_low_priority(threads: int) -> None:
    import torch  # noqa: PLC0415 (after the priority is set, which the start of threads inherits)

    if hasattr(os, "nice"):
        os.nice(NICE)
    torch.set_num_threads(threads)


def _waiting_for(lock: Path) -> Any:
    """Return the lock of the job; a process that a killed service left behind holds it for moments only."""
    return _Patient(lock)


class _Patient:
    def __init__(self, path: Path) -> None:
        self.path, self.held = path, locked(path)

    def __enter__(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.held.__enter__()
            except LockedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
                self.held = locked(self.path)
            else:
                return

    def __exit__(self, *error: Any) -> None:
        self.held.__exit__(*error)


def _run(folder: JobFolder, path: Path, threads: int) -> None:
    record, images = folder.read(), folder.read_upload()
    progress = JobProgress(folder, len(images))
    progress.phase("staging")
    _check_files(folder, images)
    before = load(path)
    if record.base is None:
        base = BaseVersion(number=before.version, learns=len(before.model.manifest.learns))
        record = folder.write(record.model_copy(update={"base": base}))
    done = applied(record, images, before)
    if done is None:
        measured = measure(before.model)
        report = _learn(folder, path, images, record.epochs, progress, threads)
        progress.phase("verifying")
        after = load(path, like=before)
        result = _result(folder, images, report, measured, after)
    else:  # the new version was written, but the process ended before it could say so
        progress.phase("verifying")
        result = _resumed_result(done, before)
    progress.phase("done")
    folder.update(state="done", finished=now(), error=None, result=result)


def _check_files(folder: JobFolder, images: list[StagedImage]) -> None:
    for number, image in enumerate(images):
        data = folder.image(number).read_bytes()
        if len(data) != image.size or hashlib.sha256(data).hexdigest() != image.sha256:
            raise ItamlError(f"the staged image {image.name} is damaged; send the images again")


def _learn(
    folder: JobFolder,
    path: Path,
    images: list[StagedImage],
    epochs: int | None,
    progress: JobProgress,
    threads: int,
) -> LearnReport:
    files = [str(folder.image(number)) for number in range(len(images))]
    labels = [image.label for image in images]
    classifier = ImageClassifier.open(path, threads=threads)
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return classifier.learn(files, labels, epochs=epochs, callback=progress)
        except LockedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
        except DataError as error:
            raise DataError(_with_names(str(error), folder, images)) from error


def _with_names(text: str, folder: JobFolder, images: list[StagedImage]) -> str:
    """Return a sentence with the names that images were sent under, instead of their staged files."""
    for number, image in enumerate(images):
        text = text.replace(str(folder.image(number)), image.name)
    return text


def applied(record: JobRecord, images: list[StagedImage], served: ServedModel) -> LearnRecord | None:
    """Return the learn of this job if the version in use is the one that it wrote before it was interrupted."""
    manifest: Manifest = served.model.manifest
    if record.base is None or not record.resumed or served.version != record.base.number + 1:
        return None
    if len(manifest.learns) != record.base.learns + 1:
        return None
    last = manifest.learns[-1]
    labels = {image.label for image in images}
    ours = {*last.new, *last.known} <= labels and last.date >= (record.started or "")[:19]
    return last if ours else None


def _result(
    folder: JobFolder, images: list[StagedImage], report: LearnReport, before: ClassCounts, after: ServedModel
) -> dict[str, Any]:
    measured = measure(after.model)
    names = {str(folder.image(number)): image.name for number, image in enumerate(images)}
    return {
        **_facts(report.record, after, measured),
        "unreadable": [{"name": names.get(path, "?"), "reason": reason} for path, reason in report.unreadable],
        "notes": [_with_names(note, folder, images) for note in report.notes],
        "before": {"accuracy": before.accuracy, "classes": before.by_class},
        "forgotten": forgotten(before, measured),
    }


def _resumed_result(last: LearnRecord, served: ServedModel) -> dict[str, Any]:
    note = "the service was interrupted after the new version was written; what was known before is not measured"
    return {
        **_facts(last, served, measure(served.model)),
        "unreadable": [],
        "notes": [note],
        "before": {"accuracy": None, "classes": {}},
        "forgotten": {},
    }


def _facts(record: LearnRecord, served: ServedModel, measured: ClassCounts) -> dict[str, Any]:
    return {
        "version": served.version,
        "new_classes": list(record.new),
        "refreshed_classes": list(record.known),
        "images": record.images,
        "duplicates": record.duplicates,
        "after": {"accuracy": measured.accuracy, "classes": measured.by_class},
        "seconds": record.seconds,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
