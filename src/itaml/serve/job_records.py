"""Jobs on disk: a folder for each, with its record, its progress and the staged images.

```
STAGING/
  runner.lock            held by the worker process that runs jobs
  jobs/ID/job.json       the record, with a checksum; replaced atomically
  jobs/ID/upload.json    which staged file is which image of which class
  jobs/ID/images/000000  the images, numbered
  jobs/ID/progress.json  how far the learn is, replaced often
  jobs/ID/cancel         there if somebody cancelled the job
  jobs/ID/lock           held by the learning process
```

A job is staged under a hidden name and renamed when everything is synced, so that it is there completely or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from itaml.config import Settings
from itaml.errors import CheckpointError
from itaml.safe_files import read_json, sync_folder, write_json

RECORD, UPLOAD, IMAGES, PROGRESS, CANCEL, LOCK = "job.json", "upload.json", "images", "progress.json", "cancel", "lock"
State = Literal["queued", "running", "done", "failed", "cancelled"]
OVER = ("done", "failed", "cancelled")


class BaseVersion(Settings):
    """The version that a learn started from."""

    number: int
    learns: int  # in its history


class StagedImage(Settings):
    """An image of an upload; its file has the number of its place."""

    name: str  # as it was sent, for messages
    label: str
    size: int
    sha256: str


class JobRecord(Settings):
    """What is known of a job apart from its progress."""

    id: str
    created: str
    state: State = "queued"
    images: int
    epochs: int | None = None  # as asked for
    started: str | None = None  # for the first time
    finished: str | None = None
    attempts: int = 0
    crashes: int = 0  # attempts that ended without a result while the service went on
    resumed: bool = False
    base: BaseVersion | None = None
    error: str | None = None
    result: dict[str, Any] | None = None


def now() -> str:
    """Return the date and time."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def job_id(text: str) -> str | None:
    """Return the id of a job in its one form, None if it is not one; nothing else is ever part of a path."""
    try:
        return str(uuid.UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


class JobFolder:
    """The folder of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        """The job's id."""
        return self.path.name

    def image(self, number: int) -> Path:
        """Return where an image is staged."""
        return self.path / IMAGES / f"{number:06d}"

    def read(self) -> JobRecord:
        """Return the record.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        try:
            return JobRecord(**read_json(self.path / RECORD, what="the record of a job"))
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{self.path / RECORD} is not the record of a job") from error

    def write(self, record: JobRecord) -> JobRecord:
        """Replace the record; return it."""
        write_json(self.path / RECORD, record.model_dump(mode="json"), checksum=True)
        return record

    def update(self, **changes: Any) -> JobRecord:
        """Replace some values of the record."""
        return self.write(self.read().model_copy(update=changes))

    def write_upload(self, images: Sequence[StagedImage]) -> None:
        """Write which staged file is which image."""
        entries = [image.model_dump(mode="json") for image in images]
        write_json(self.path / UPLOAD, {"images": entries}, checksum=True)

    def read_upload(self) -> list[StagedImage]:
        """Return which staged file is which image (see `read` for errors)."""
        return [StagedImage(**entry) for entry in read_json(self.path / UPLOAD, what="an upload")["images"]]

    def write_progress(self, values: dict[str, Any]) -> None:
        """Replace the progress; it need not survive a power cut."""
        draft = self.path / f".{PROGRESS}"
        draft.write_text(json.dumps(values), encoding="utf-8")
        draft.replace(self.path / PROGRESS)

    def read_progress(self) -> dict[str, Any]:
        """Return the progress, nothing if there is none yet."""
        try:
            found = json.loads((self.path / PROGRESS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled the job."""
        return (self.path / CANCEL).exists()

    def cancel(self) -> None:
        """Ask for the end of the job."""
        (self.path / CANCEL).touch()

    def drop_images(self) -> None:
        """Remove the staged images of a job that is over."""
        shutil.rmtree(self.path / IMAGES, ignore_errors=True)
        with suppress(OSError):
            (self.path / UPLOAD).unlink(missing_ok=True)


class JobsFolder:
    """All jobs of a model."""

    def __init__(self, staging: Path) -> None:
        self.path = staging / "jobs"

    def get(self, text: str) -> JobFolder | None:
        """Return a job by its id, None if there is none."""
        known = job_id(text)
        found = None if known is None else JobFolder(self.path / known)
        return found if found is not None and found.path.is_dir() else None

    def draft(self) -> JobFolder:
        """Return a new folder under a hidden name, to be filled and published."""
        folder = self.path / f".{uuid.uuid4()}"
        (folder / IMAGES).mkdir(parents=True)
        return JobFolder(folder)

    def publish(self, draft: JobFolder) -> JobFolder:
        """Make a draft a job."""
        sync_folder(draft.path / IMAGES)
        sync_folder(draft.path)
        target = draft.path.with_name(draft.path.name.removeprefix("."))
        draft.path.rename(target)
        sync_folder(self.path)
        return JobFolder(target)

    def all(self) -> list[tuple[JobFolder, JobRecord]]:
        """Return all jobs whose record can be read, the newest first."""
        found = []
        with suppress(FileNotFoundError):
            for entry in os.scandir(self.path):
                if job_id(entry.name) is not None:
                    folder = JobFolder(Path(entry.path))
                    with suppress(CheckpointError):
                        found.append((folder, folder.read()))
        return sorted(found, key=lambda job: (job[1].created, job[1].id), reverse=True)

    def sweep(self, *, keep: int, age: float) -> None:
        """Remove old records, and drafts of uploads that ended `age` seconds ago or more."""
        over = [folder for folder, record in self.all() if record.state in OVER]
        for folder in over[:keep]:
            folder.drop_images()
        for folder in over[keep:]:
            shutil.rmtree(folder.path, ignore_errors=True)
        with suppress(FileNotFoundError):
            for entry in os.scandir(self.path):
                if entry.name.startswith(".") and entry.stat().st_mtime < datetime.now(UTC).timestamp() - age:
                    shutil.rmtree(entry.path, ignore_errors=True)
