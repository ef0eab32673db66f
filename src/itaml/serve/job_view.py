"""Jobs in the form of the API."""

from __future__ import annotations

from typing import Any

from itaml.serve.job_progress import EMPTY
from itaml.serve.job_records import OVER, JobFolder, JobRecord


def job_values(folder: JobFolder, record: JobRecord) -> dict[str, Any]:
    """Return a job with its progress."""
    state = record.state
    if state == "queued" and folder.cancelled:
        state = "cancelled"
    progress = {**EMPTY, "images_total": record.images, **folder.read_progress()}
    if record.epochs is not None and not progress["epochs"]:
        progress["epochs"] = record.epochs
    if state == "done":
        progress |= {"phase": "done", "progress": 1.0}
    if state in OVER:
        progress["seconds_left"] = None
    return {
        "id": record.id,
        "kind": "learn",
        "state": state,
        **{name: progress[name] for name in EMPTY},
        "created": record.created,
        "finished": record.finished,
        "error": record.error,
        "resumed": record.resumed,
        "result": record.result,
    }
