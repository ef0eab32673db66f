"""Errors of the service: one form in JSON, and the HTTP status of each kind of error."""

from __future__ import annotations

from typing import Any

from itaml.errors import DataError, ItamlError, MissingExtraError, SettingsError, UnknownNameError, UsageError
from itaml.modelstore.lock import LockedError

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "unprocessable",
    429: "too_many_requests",
    500: "internal_error",
    501: "not_implemented",
    503: "unavailable",
}


class ApiError(Exception):
    """A request that is refused: its status, a code for programs and a sentence for people."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.code = code or CODES.get(status, "error")
        self.headers = headers or {}


def error_body(code: str, message: str, request_id: str) -> dict[str, Any]:
    """Return the JSON of an error."""
    return {"error": {"code": code, "message": message, "request_id": request_id}}


def api_error(error: ItamlError) -> ApiError:
    """Return the answer to a request that the library refused."""
    message = " ".join(str(error).split()).replace("`itaml merge` makes two classes one", "merge the two instead")
    if isinstance(error, LockedError):
        return ApiError(409, "another change of the model is running; try again when it is done", code="locked")
    if isinstance(error, UnknownNameError):
        return ApiError(404, message, code="unknown_class")
    if isinstance(error, MissingExtraError):
        return ApiError(501, message, code="missing_extra")
    if isinstance(error, SettingsError):
        return ApiError(409, message, code="not_possible")
    if isinstance(error, DataError | UsageError):
        return ApiError(400, message)
    return ApiError(503, "the model cannot be read or written at the moment; the log of the service says why")
