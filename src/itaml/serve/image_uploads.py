"""Images of a request in memory: from a multipart form, or base64 in JSON."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from fastapi import Request
from pydantic import ValidationError

from itaml.safe_files import parse_json
from itaml.serve.api_errors import ApiError
from itaml.serve.api_schemas import PredictBody
from itaml.serve.multipart_stream import Writer, boundary_of, read_form
from itaml.serve.service_options import Limits

EXTRA_FIELDS = 8  # parts of a form besides its images and their classes


@dataclass(frozen=True)
class UploadedImage:
    """An image as it was sent: its name, its bytes, or why there are none."""

    name: str | None
    data: bytes
    error: str | None = None


@dataclass(eq=False)
class MemoryForm:
    """A form whose files are kept in memory."""

    limits: Limits
    files: list[tuple[str, bytearray]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)

    def file(self, field: str, name: str) -> Writer:
        """Begin an image."""
        if field != "images":
            raise ApiError(422, f"there is no file field {field!r:.60}; images are in the field 'images'")
        if len(self.files) >= self.limits.images:
            raise too_many(self.limits.images)
        content = bytearray()
        self.files.append((name, content))
        return content.extend

    def text(self, field: str, value: str) -> None:
        """Take a text field."""
        if field == "images":
            raise ApiError(422, "the field 'images' must be files, with a file name")
        self.texts.setdefault(field, []).append(value)

    @property
    def images(self) -> list[UploadedImage]:
        """The images in order."""
        return [UploadedImage(name, bytes(content)) for name, content in self.files]


def too_many(limit: int) -> ApiError:
    """Return the error for a request with too many images."""
    return ApiError(413, f"the request has more than the limit of {limit} images", code="too_many_images")


async def read_memory_form(request: Request, limits: Limits, fields: tuple[str, ...] | None = ()) -> MemoryForm:
    """Read a multipart form with images.

    Args:
        request: the request.
        limits: of the service.
        fields: names of the text fields that may be in it; None: any, which are ignored.

    Raises:
        ApiError: it is not such a form, or above a limit.
    """
    boundary = boundary_of(request.headers.get("content-type", ""))
    if boundary is None:
        raise ApiError(415, "send the images as multipart/form-data")
    form = MemoryForm(limits)
    await read_form(request.stream(), boundary, form, parts=2 * limits.images + EXTRA_FIELDS)
    for name in form.texts:
        if fields is not None and name not in fields:
            raise ApiError(422, f"there is no field {name!r:.60}")
    if not form.files:
        raise ApiError(422, "the request has no images: send them as files in the field 'images'")
    return form


async def read_predict_body(request: Request, limits: Limits) -> PredictBody:
    """Read the JSON of a prediction request.

    Raises:
        ApiError: it is not such JSON, or above a limit.
    """
    data = b"".join([chunk async for chunk in request.stream()])
    try:
        body = PredictBody.model_validate(parse_json(data))
    except ValidationError as error:
        raise validation_error(error) from error
    except ValueError as error:
        raise ApiError(422, "the body is not JSON") from error
    if len(body.images) > limits.images:
        raise too_many(limits.images)
    return body


def validation_error(error: ValidationError) -> ApiError:
    """Return the answer to a body of another form, which names the first field that is wrong."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return ApiError(422, f"{where or 'the body'}: {first['msg']}")


def from_base64(text: str) -> UploadedImage:
    """Return an image that was sent as base64, or as a data URL with base64."""
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.endswith(";base64"):
            return UploadedImage(None, b"", "the data URL is not base64")
    try:
        return UploadedImage(None, base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return UploadedImage(None, b"", "not valid base64")
