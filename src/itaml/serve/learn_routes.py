"""`POST /v1/learn` and jobs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from itaml.errors import CheckpointError
from itaml.serve.api_errors import ApiError
from itaml.serve.api_schemas import JobEntry, JobResponse, JobsResponse
from itaml.serve.job_records import OVER, JobFolder
from itaml.serve.job_view import job_values
from itaml.serve.multipart_stream import boundary_of, read_form
from itaml.serve.service import Service, service_of
from itaml.serve.staging import StagedForm, discard, finish

router = APIRouter(tags=["learn"])
PAUSE = 0.2  # seconds between two events
PATIENCE = 3.0  # seconds to wait for the end of a cancelled job
EXTRA_FIELDS = 8
BEAT = 15.0  # seconds without news after which an empty comment keeps a connection open
ZIP = "application/zip"


@router.post("/v1/learn", status_code=202, response_model=JobResponse, summary="Teach classes from images")
async def learn(request: Request) -> dict[str, Any]:
    """Stage the images, and return the job that learns them."""
    service = service_of(request)
    content_type = request.headers.get("content-type", "")
    boundary = boundary_of(content_type)
    if boundary is None and content_type.partition(";")[0].strip().lower() != ZIP:
        raise ApiError(415, f"send the images as multipart/form-data, or a zip file as {ZIP}")
    if service.jobs.waiting() >= service.limits.waiting_jobs:
        raise ApiError(409, "too many jobs are waiting; try again when one is done", code="too_many_jobs")
    form = StagedForm(service.jobs.jobs.draft(), service.limits)
    try:
        async with asyncio.timeout(service.limits.upload_seconds):
            await _receive(request, boundary, form)
        served = await service.watch.latest()
        folder = await asyncio.to_thread(finish, form, service.jobs.jobs, served.classes)
    except BaseException:
        discard(form)
        raise
    service.jobs.wake()
    return {"job": values(folder)}


async def _receive(request: Request, boundary: bytes | None, form: StagedForm) -> None:
    """Write a form, or a body that is an archive, to the draft of a job."""
    if boundary is None:
        write = form.file("archive", "archive.zip")
        async for chunk in request.stream():
            write(chunk)
    else:
        parts = 2 * form.limits.upload_images + EXTRA_FIELDS
        await read_form(request.stream(), boundary, form, parts=parts)


@router.get("/v1/jobs", response_model=JobsResponse, summary="List jobs, the newest first")
async def jobs(request: Request) -> dict[str, Any]:
    """Return all jobs whose record is kept."""
    found = await asyncio.to_thread(service_of(request).jobs.jobs.all)
    return {"jobs": [job_values(folder, record) for folder, record in found]}


@router.get("/v1/jobs/{id}", response_model=JobEntry, summary="Show a job")
async def job(request: Request, id: str) -> dict[str, Any]:
    """Return a job with its progress."""
    service = service_of(request)
    found = values(folder_of(service, id))
    if found["state"] == "done":
        await service.watch.latest()  # so that whoever reads the model next sees what was learned
    return found


@router.post("/v1/jobs/{id}/cancel", response_model=JobEntry, summary="Cancel a job")
async def cancel(request: Request, id: str) -> dict[str, Any]:
    """End a job; the model stays as it is, unless the job was done already."""
    service = service_of(request)
    folder = folder_of(service, id)
    if values(folder)["state"] in OVER:
        return values(folder)
    folder.cancel()
    service.jobs.wake()
    for _ in range(int(PATIENCE / PAUSE)):
        if values(folder)["state"] in OVER:
            break
        await asyncio.sleep(PAUSE)
    return values(folder)


@router.get("/v1/jobs/{id}/events", summary="Follow a job", response_class=StreamingResponse)
async def events(request: Request, id: str) -> StreamingResponse:
    """Send the job as server-sent events whenever it changes, until it is over."""
    service = service_of(request)
    folder = folder_of(service, id)
    stream = _events(service, folder, request)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _events(service: Service, folder: JobFolder, request: Request) -> AsyncIterator[str]:
    last, said = "", time.monotonic()
    while not service.stopping.is_set() and not await request.is_disconnected():
        found = values(folder)
        text = json.dumps(found)
        if found["state"] in OVER:
            if found["state"] == "done":
                await service.watch.latest()
            yield f"event: end\ndata: {text}\n\n"
            return
        if text != last:
            yield f"event: progress\ndata: {text}\n\n"
            last, said = text, time.monotonic()
        elif time.monotonic() - said > BEAT:
            yield ": the job waits\n\n"
            said = time.monotonic()
        await asyncio.sleep(PAUSE)


def folder_of(service: Service, id: str) -> JobFolder:
    """Return the folder of a job.

    Raises:
        ApiError: there is no such job.
    """
    folder = service.jobs.jobs.get(id)
    if folder is None:
        raise ApiError(404, "there is no such job", code="unknown_job")
    return folder


def values(folder: JobFolder) -> dict[str, Any]:
    """Return a job in the form of the API.

    Raises:
        ApiError: it was removed meanwhile.
    """
    try:
        return job_values(folder, folder.read())
    except CheckpointError as error:
        raise ApiError(404, "there is no such job", code="unknown_job") from error
