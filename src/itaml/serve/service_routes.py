"""The page, and what tells about the service itself: session, health, metrics, documents."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from itaml._version import __version__
from itaml.serve.api_errors import ApiError
from itaml.serve.api_schemas import SessionResponse
from itaml.serve.model_schemas import StatusResponse
from itaml.serve.service import service_of
from itaml.serve.static_files import PAGE, StaticFile, static_files

router = APIRouter(tags=["service"])
STATIC = static_files()
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """Return the page."""
    return _static(request, STATIC[PAGE])


@router.get("/static/{file}", include_in_schema=False)
async def static(request: Request, file: str) -> Response:
    """Return a file of the page."""
    found = STATIC.get(file)
    if found is None:
        raise ApiError(404, "there is no such file")
    return _static(request, found)


def _static(request: Request, file: StaticFile) -> Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.data, media_type=file.media_type, headers=headers)


@router.get("/v1/session", response_model=SessionResponse, summary="Show what a client needs to know first")
async def session(request: Request) -> dict[str, Any]:
    """Return whether a token is needed, the version of the program, and limits."""
    options = service_of(request).options
    needed = options.token is not None
    limits = options.limits.model_dump(include={"body_bytes", "images", "pixels", "upload_bytes", "upload_images"})
    required = {"read": needed and options.protect_reading, "change": needed}
    return {"token_required": required, "version": __version__, "limits": limits}


@router.get("/healthz", response_model=StatusResponse, summary="Say whether the process works")
async def health() -> dict[str, str]:
    """Return `ok`."""
    return {"status": "ok"}


@router.get("/readyz", response_model=StatusResponse, summary="Say whether requests can be answered")
async def ready(request: Request) -> JSONResponse:
    """Return 200 once the model is loaded, 503 before that and during shutdown."""
    service = service_of(request)
    if service.stopping.is_set():
        return JSONResponse({"status": "stopping"}, 503)
    loaded = service.watch.served is not None
    return JSONResponse({"status": "ok" if loaded else "loading"}, 200 if loaded else 503)


@router.get("/metrics", summary="Show counters for Prometheus", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return all counters in the text format of Prometheus."""
    service = service_of(request)
    gauges = await asyncio.to_thread(service.gauges)
    return Response(service.metrics.text(gauges), media_type=METRICS_TYPE)
