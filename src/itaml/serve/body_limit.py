"""Limits of request bodies, enforced while they arrive: of each request, and of all requests in memory together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from itaml.serve.api_errors import ApiError
from itaml.serve.service_options import Limits

TOGETHER = 8  # largest bodies that may be in memory at the same time
SMALL = 1 << 16  # bytes of a request without images
WITH_IMAGES = ("/v1/predict", "/v1/check", "/v1/relabel")
UPLOAD = "/v1/learn"
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class BodyLimit:
    """Knows how much is in memory."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.in_memory = 0

    def of(self, path: str, headers: Mapping[bytes, bytes], receive: Receive) -> LimitedBody:
        """Return the body of a request."""
        limit = self.limits.upload_bytes if path == UPLOAD else SMALL
        if path in WITH_IMAGES:
            limit = self.limits.body_bytes
        return LimitedBody(self, headers, receive, limit, staged=path == UPLOAD)


class LimitedBody:
    """The body of a request."""

    def __init__(
        self, owner: BodyLimit, headers: Mapping[bytes, bytes], receive: Receive, limit: int, *, staged: bool
    ) -> None:
        self.owner, self.limit, self.staged = owner, limit, staged
        self.size = 0
        self._receive = receive
        self._length = headers.get(b"content-length", b"")
        self.complete = self._length in (b"", b"0") and b"transfer-encoding" not in headers

    def check_length(self) -> None:
        """Refuse a body by what the head of the request says of it.

        Raises:
            ApiError: it is too large.
        """
        if self._length.isdigit() and int(self._length) > self.limit:
            raise self._too_large()

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next part of the body.

        Raises:
            ApiError: there is too much of it.
        """
        message = await self._receive()
        if message["type"] == "http.request":
            part = len(message.get("body", b""))
            self.size += part
            if self.size > self.limit:
                raise self._too_large()
            if not self.staged:
                self.owner.in_memory += part
                if self.owner.in_memory > TOGETHER * self.owner.limits.body_bytes:
                    raise ApiError(503, "too many large requests at the same time", headers={"Retry-After": "1"})
            self.complete = not message.get("more_body", False)
        return message

    def release(self) -> None:
        """Say that the request is over."""
        if not self.staged:
            self.owner.in_memory -= self.size

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the body has more than the limit of {self.limit} bytes")
