"""Uploads of a learn: written to numbered files while they arrive, synced, and published as a job by one rename."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from itaml.data.decoding import open_image
from itaml.errors import DataError
from itaml.modelstore.class_names import match_names
from itaml.serve.api_errors import ApiError
from itaml.serve.image_uploads import too_many
from itaml.serve.job_records import IMAGES, JobFolder, JobRecord, JobsFolder, StagedImage, now
from itaml.serve.learn_fields import parse_epochs, parse_labels
from itaml.serve.multipart_stream import Writer
from itaml.serve.service_options import Limits
from itaml.serve.zip_archive import read_archive

ARCHIVE = "archive"


class Hash(Protocol):
    """What `hashlib` returns."""

    def update(self, data: bytes, /) -> None:
        """Take bytes."""

    def hexdigest(self) -> str:
        """Return the digest."""


@dataclass(eq=False)
class OpenFile:
    """A staged file that is being written."""

    name: str
    path: Path
    file: BinaryIO
    size: int = 0
    digest: Hash = field(default_factory=hashlib.sha256)

    @classmethod
    def create(cls, name: str, path: Path) -> OpenFile:
        """Open a new file."""
        return cls(name, path, open(path, "xb"))

    def write(self, data: bytes) -> None:
        """Take bytes."""
        self.file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def close(self) -> None:
        """Close the file; `sync` is for later, when many have arrived."""
        self.file.close()

    def sync(self) -> None:
        """Have the disk keep it."""
        self.close()
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())

    def staged(self, label: str) -> StagedImage:
        """Return what is kept about it."""
        return StagedImage(name=self.name, label=label, size=self.size, sha256=self.digest.hexdigest())


@dataclass(eq=False)
class StagedForm:
    """A form whose files go to the draft of a job."""

    draft: JobFolder
    limits: Limits
    files: list[OpenFile] = field(default_factory=list)
    archive: OpenFile | None = None
    texts: dict[str, list[str]] = field(default_factory=dict)

    def file(self, field: str, name: str) -> Writer:
        """Begin an image or the archive."""
        if field == "archive" and self.archive is None:
            self.archive = OpenFile.create(name, self.draft.path / ARCHIVE)
            return self.archive.write
        if field != "images":
            raise ApiError(422, f"there is no file field {field!r:.60}, or it came twice; use 'images' or 'archive'")
        if len(self.files) >= self.limits.upload_images:
            raise too_many(self.limits.upload_images)
        if self.files:
            self.files[-1].close()
        self.files.append(self.open(len(self.files), name))
        return self.files[-1].write

    def open(self, number: int, name: str) -> OpenFile:
        """Open the file of an image."""
        return OpenFile.create(name, self.draft.image(number))

    def text(self, field: str, value: str) -> None:
        """Take a text field."""
        if field not in ("classes", "class", "epochs"):
            raise ApiError(422, f"there is no field {field!r:.60}; use 'class' or 'classes', and 'epochs'")
        self.texts.setdefault(field, []).append(value)


def finish(form: StagedForm, jobs: JobsFolder, known: tuple[str, ...]) -> JobFolder:
    """Check an upload that has arrived, sync it, and make it a job.

    Args:
        form: the upload.
        jobs: where jobs are.
        known: the classes of the model.

    Raises:
        ApiError: there is nothing in it that could be learned.
    """
    epochs, images = parse_epochs(form.texts), _staged(form)
    try:
        match_names(sorted({image.label for image in images}), known)
    except DataError as error:
        raise ApiError(400, str(error).replace("class folders", "classes").replace("the folder", "it")) from error
    if not any(_is_image(form.draft, number) for number in range(len(images))):
        raise ApiError(400, "none of the images can be read; are they images?", code="unreadable_images")
    form.draft.write_upload(images)
    record = JobRecord(id=form.draft.id.removeprefix("."), created=now(), images=len(images), epochs=epochs)
    form.draft.write(record)
    return jobs.publish(form.draft)


def discard(form: StagedForm) -> None:
    """Remove an upload that is not to become a job."""
    for part in (*form.files, *([] if form.archive is None else [form.archive])):
        part.close()
    shutil.rmtree(form.draft.path, ignore_errors=True)


def _staged(form: StagedForm) -> list[StagedImage]:
    if form.archive is not None:
        if form.files or "class" in form.texts or "classes" in form.texts:
            raise ApiError(422, "an archive has its classes inside: send it alone")
        form.archive.close()
        images = read_archive(form.draft.path / ARCHIVE, form.open, form.limits)
        (form.draft.path / ARCHIVE).unlink()
        return images
    if not form.files:
        raise ApiError(422, "the request has no images: send files in the field 'images', or a zip file in 'archive'")
    labels = parse_labels(form.texts, len(form.files))
    for part in form.files:
        part.sync()
    return [part.staged(label) for part, label in zip(form.files, labels, strict=True)]


def _is_image(draft: JobFolder, number: int) -> bool:
    try:
        with open_image(str(draft.path / IMAGES / f"{number:06d}")):
            return True
    except Exception:  # on hostile bytes Pillow's readers raise nearly anything
        return False
