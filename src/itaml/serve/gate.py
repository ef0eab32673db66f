"""What every request passes: a request id, who may do it, limits of rate, body and time, headers, the log."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from itaml.serve.access_log import log_request
from itaml.serve.access_rules import AccessRules
from itaml.serve.api_errors import ApiError, error_body
from itaml.serve.body_limit import BodyLimit
from itaml.serve.rate_limit import RateLimit
from itaml.serve.service import Service

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
SLOW = ("/v1/learn", "/v1/relabel", "/v1/export.onnx")
UNLIMITED_RATE = ("/healthz", "/readyz")
POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(self), microphone=(), geolocation=()"),
)
NO_STORE = (b"cache-control", b"no-store")


class Gate:
    """ASGI application around the routes."""

    def __init__(self, app: Application, service: Service) -> None:
        self.app, self.service = app, service
        self.rules = AccessRules(service.options)
        self.rate = RateLimit(service.limits.rate / service.options.workers)
        self.bodies = BodyLimit(service.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            await _Exchange(self, scope, receive, send).run()
        else:
            await self.app(scope, receive, send)


class _Exchange:
    """One request and its response."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self.gate, self.send, self.method = gate, send, scope["method"]
        self.scope = {**scope, "method": "GET"} if self.method == "HEAD" else scope  # uvicorn leaves out the body
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        self.request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex.encode()
        self.body = gate.bodies.of(scope["path"], self.headers, receive)
        self.status = 0  # of the response; 0 until it starts
        self.start = time.perf_counter()
        self.scope.setdefault("state", {})["request_id"] = self.request_id.decode()

    async def run(self) -> None:
        """Answer the request, whatever happens."""
        try:
            await self._answer()
        except ApiError as error:
            await self._refuse(error)
        except Exception as error:
            if not self.status:
                await self._refuse(ApiError(500, "an error inside the service; its log has the details"))
            logger.error("request %s failed", self.request_id.decode(), exc_info=error)
        finally:
            self.body.release()
            self._note()

    async def _answer(self) -> None:
        path = self.scope["path"]
        if path not in UNLIMITED_RATE:
            self.gate.rate.check(self._client())
        self.gate.rules.check(self.method, path, self.headers)
        self.body.check_length()
        limits = self.gate.service.limits
        seconds = None if path.endswith("/events") else limits.seconds
        if path in SLOW or path.endswith("/merge"):
            seconds = limits.upload_seconds + limits.seconds
        try:
            async with asyncio.timeout(seconds):
                await self.gate.app(self.scope, self.body.receive, self._send)
        except TimeoutError:
            raise ApiError(503, "the request took too long", code="timeout") from None

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            more = [*HEADERS, (b"x-request-id", self.request_id)]
            if not any(name == b"cache-control" for name, _ in message["headers"]):
                more.append(NO_STORE)
            message["headers"] = [*message["headers"], *more]
        await self.send(message)

    async def _refuse(self, error: ApiError) -> None:
        if self.status:  # too late for another answer
            return
        body = json.dumps(error_body(error.code, error.message, self.request_id.decode())).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
        if not self.body.complete:
            headers.append((b"connection", b"close"))  # the rest of the body is not read
        await self._send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def _client(self) -> str:
        client = self.scope.get("client")
        return client[0] if client else ""

    def _note(self) -> None:
        seconds = time.perf_counter() - self.start
        route = getattr(self.scope.get("route"), "path_format", "other")
        self.gate.service.metrics.count_request(route, self.method, self.status, seconds)
        log_request(
            request_id=self.request_id.decode(),
            client=self._client(),
            method=self.method,
            path=self.scope["path"][:200],
            status=self.status,
            bytes=self.body.size,
            milliseconds=round(1000 * seconds, 2),
        )
