"""`POST /v1/predict`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from torch import Tensor

from itaml.data.decoding import BadImageError
from itaml.errors import SettingsError
from itaml.modelstore.argument_checks import check_unknown
from itaml.modelstore.predictions import ImagePrediction, Unknown
from itaml.serve.api_errors import ApiError
from itaml.serve.api_schemas import UNKNOWN_PATTERN, Mode, PredictFields
from itaml.serve.image_uploads import (
    UploadedImage,
    from_base64,
    read_memory_form,
    read_predict_body,
    validation_error,
)
from itaml.serve.multipart_stream import boundary_of
from itaml.serve.served_model import PredictOptions, ServedModel
from itaml.serve.service import Service, service_of
from itaml.text import finite_or_none

router = APIRouter()
NOTHING_LEARNED = "the model has not learned anything yet; teach it with POST /v1/learn"


@router.post("/v1/predict", summary="Predict the class of images", tags=["predict"])
async def predict(
    request: Request,
    mode: Mode = "alone",
    top: int = Query(3, ge=1, le=1000),
    unknown: str = Query("auto", pattern=UNKNOWN_PATTERN),
) -> JSONResponse:
    """Predict each image alone, as one continuum, or as an ordered stream; one entry per image, in order."""
    service = service_of(request)
    with service.batcher.arriving():
        images, options = await _read(request, service, PredictOptions(mode, top, parse_unknown(unknown)))
        served = await service.watch.ready()
        if served.empty:
            raise ApiError(409, NOTHING_LEARNED, code="empty_model")
        if service.batcher.waiting + len(images) > service.limits.waiting_images:
            raise ApiError(503, "too many images are waiting; try again later", headers={"Retry-After": "1"})
        decoded = await decode_all(service, served, images)
    pixels = [part for part in decoded if isinstance(part, Tensor)]
    found = await service.batcher.predict(served, pixels, options) if pixels else []
    predictions = _in_order(images, decoded, found, alone=options.mode == "alone")
    service.metrics.count_predictions(predictions)
    threshold = finite_or_none(served.model.unknown_threshold)
    return JSONResponse({"model_version": served.version, "unknown_threshold": threshold, "predictions": predictions})


async def _read(
    request: Request, service: Service, options: PredictOptions
) -> tuple[list[UploadedImage], PredictOptions]:
    content_type = request.headers.get("content-type", "")
    if boundary_of(content_type) is not None:
        form = await read_memory_form(request, service.limits, fields=tuple(PredictFields.model_fields))
        return form.images, _with_fields(options, form.texts)
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ApiError(415, "send images as multipart/form-data, or as JSON with base64")
    body = await read_predict_body(request, service.limits)
    unknown: Unknown = options.unknown if body.unknown is None else body.unknown
    options = PredictOptions(body.mode or options.mode, body.top or options.top, unknown)
    return [from_base64(text) for text in body.images], options


def _with_fields(options: PredictOptions, texts: dict[str, list[str]]) -> PredictOptions:
    """Return the options of the address, replaced by those in the fields of a form."""
    for name, values in texts.items():
        if len(values) > 1:
            raise ApiError(422, f"{name}: give it once")
    try:
        fields = PredictFields.model_validate({name: values[0] for name, values in texts.items()})
    except ValidationError as error:
        raise validation_error(error) from error
    unknown = options.unknown if fields.unknown is None else parse_unknown(fields.unknown)
    return PredictOptions(fields.mode or options.mode, fields.top or options.top, unknown)


def parse_unknown(text: str) -> Unknown:
    """Return when an image is unknown: auto, never or a number.

    Raises:
        ApiError: it is none of these.
    """
    value: Any = text
    if text not in ("auto", "never"):
        try:
            value = float(text)
        except ValueError:
            raise ApiError(422, "unknown must be auto, never or a number between 0 and 1") from None
    try:
        check_unknown(value)
    except SettingsError as error:
        raise ApiError(422, str(error)) from error
    found: Unknown = value
    return found


async def decode_all(service: Service, served: ServedModel, images: list[UploadedImage]) -> list[Tensor | str]:
    """Decode images in the pool of threads; return the reason for those that cannot be read."""

    def one(image: UploadedImage) -> Tensor | str:
        if image.error is not None:
            return image.error
        try:
            return served.decode(image.data, max_pixels=service.limits.pixels)
        except BadImageError as error:
            return error.reason

    loop = asyncio.get_running_loop()
    return list(await asyncio.gather(*(loop.run_in_executor(service.decoders, one, image) for image in images)))


def _in_order(
    images: list[UploadedImage], decoded: list[Tensor | str], found: list[ImagePrediction], *, alone: bool
) -> list[dict[str, Any]]:
    """Put predictions and errors in the order of the images; alone, each is a group of its own in its request."""
    groups = iter(range(len(found)))
    rest = (replace(one, group=next(groups)) for one in found) if alone else iter(found)
    return [
        unreadable(image.name, part) if isinstance(part, str) else entry(image.name, next(rest))
        for image, part in zip(images, decoded, strict=True)
    ]


def entry(name: str | None, prediction: ImagePrediction) -> dict[str, Any]:
    """Return a prediction in the form of the API; tasks and groups count from 1."""
    return {
        "name": name,
        "class": prediction.label,
        "known": prediction.known,
        "unknown_score": finite_or_none(prediction.unknown_score),
        "probability": _bounded(prediction.confidence),
        "task": None if prediction.task is None else prediction.task + 1,
        "group": None if prediction.group is None else prediction.group + 1,
        "top": [{"class": label, "probability": _bounded(value)} for label, value in prediction.top],
        "error": prediction.error,
    }


def _bounded(value: float) -> float:
    return min(max(value, 0.0), 1.0)  # rounding


def unreadable(name: str | None, reason: str) -> dict[str, Any]:
    """Return the entry of an image that cannot be read."""
    return {
        "name": name,
        "class": None,
        "known": False,
        "unknown_score": None,
        "probability": 0.0,
        "task": None,
        "group": None,
        "top": [],
        "error": f"cannot be read: {reason}",
    }
