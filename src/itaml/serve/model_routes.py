"""What the model is and knows: `GET /v1/model`, `/v1/confusion`, `/v1/classes/...` and `/v1/export.onnx`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response

from itaml.errors import CheckpointError
from itaml.modelstore.class_editing import find_class
from itaml.serve.api_errors import ApiError
from itaml.serve.measurement import ClassCounts, measure
from itaml.serve.model_schemas import ClassResponse, ConfusionResponse, ModelResponse
from itaml.serve.model_view import class_values, exemplar, model_values, thumbnail_bytes
from itaml.serve.onnx_files import onnx_file
from itaml.serve.served_model import ServedModel
from itaml.serve.service import service_of

router = APIRouter(tags=["model"])
_measuring = threading.Lock()
_measured: dict[int, tuple[ServedModel, ClassCounts]] = {}


async def measured_of(served: ServedModel) -> ClassCounts:
    """Return how well a version knows its classes; measured once, in a thread."""

    def once() -> ClassCounts:
        with _measuring:
            known = _measured.get(0)
            if known is None or known[0] is not served:
                known = _measured[0] = (served, measure(served.model))
            return known[1]

    return await asyncio.to_thread(once)


@router.get("/v1/model", response_model=ModelResponse, summary="Show what the model knows")
async def model(request: Request) -> dict[str, Any]:
    """Return classes, tasks, history and versions."""
    served = await service_of(request).watch.latest()
    measured = await measured_of(served)
    return await asyncio.to_thread(model_values, served, measured)


@router.get("/v1/confusion", response_model=ConfusionResponse, summary="Show which classes are mixed up")
async def confusion(request: Request) -> dict[str, Any]:
    """Return how often images of each class that were not trained on are predicted as each class."""
    measured = await measured_of(await service_of(request).watch.latest())
    counts = None if measured.source is None else measured.counts.tolist()
    return {"classes": list(measured.classes), "counts": counts, "source": measured.source}


@router.get("/v1/classes/{name:path}/exemplars/{id}", summary="Show an exemplar", response_class=Response)
async def exemplar_image(request: Request, name: str, id: str, size: int = Query(96, ge=16, le=512)) -> Response:
    """Return an exemplar as WebP."""
    served = await service_of(request).watch.latest()
    found = find_class(served.classes, name)
    tag = f'"{served.version}-{(served.pointer.checksum or "")[:16]}-{size}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    number = int(id) if id.isascii() and id.isdigit() and len(id) < 10 else -1
    try:
        data = await asyncio.to_thread(_thumbnail, served, found, number, size)
    except CheckpointError:  # the version was replaced meanwhile
        data = None
    if data is None:
        raise ApiError(404, "there is no such exemplar", code="unknown_exemplar")
    return Response(data, media_type="image/webp", headers=headers)


def _thumbnail(served: ServedModel, name: str, number: int, size: int) -> bytes | None:
    pixels = exemplar(served, name, number)
    return None if pixels is None else thumbnail_bytes(pixels, size)


@router.get("/v1/classes/{name:path}", response_model=ClassResponse, summary="Show a class")
async def class_(request: Request, name: str) -> dict[str, Any]:
    """Return a class and the addresses of its exemplars."""
    served = await service_of(request).watch.latest()
    found = find_class(served.classes, name)
    return class_values(served, found, await measured_of(served))


@router.get("/v1/export.onnx", summary="Export the model", response_class=Response)
async def export(request: Request) -> Response:
    """Return the model as an ONNX file; the first call for a version takes some seconds."""
    service = service_of(request)
    served = await service.watch.latest()
    if served.empty:
        raise ApiError(501, "the model has not learned anything yet, so there is nothing to export")
    path = await onnx_file(served, service.options)
    name = f"{served.folder.path.resolve().name}-{served.version}.onnx"
    return FileResponse(path, media_type="application/octet-stream", filename=name)
