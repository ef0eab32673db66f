"""The ASGI application: routes, errors in one form, and the gate around everything."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from itaml._version import __version__
from itaml.errors import ItamlError
from itaml.serve import edit_routes, learn_routes, model_routes, predict_routes, service_routes
from itaml.serve.access_log import set_up_logging
from itaml.serve.api_errors import CODES, ApiError, api_error, error_body
from itaml.serve.gate import Gate
from itaml.serve.openapi_document import describe
from itaml.serve.service import Service
from itaml.serve.service_options import ServiceOptions, from_environment

logger = logging.getLogger(__name__)


def build_application(options: ServiceOptions) -> Gate:
    """Return the application of one worker process; the model is loaded when it starts."""
    service = Service(options)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        _notice_signals(service)
        yield
        service.stop()

    app = FastAPI(title="itaml", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = service
    for module in (service_routes, predict_routes, learn_routes, model_routes, edit_routes):
        app.include_router(module.router)
    _add_error_handlers(app)
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
            expose_headers=["X-Request-Id"],
        )
    describe(app, options)
    return Gate(app, service)


def worker() -> Gate:
    """Return the application with the options of the environment, for uvicorn."""
    set_up_logging()
    return build_application(from_environment())


def _notice_signals(service: Service) -> None:
    """Have long responses end when the process is asked to end; uvicorn's own handlers are called afterwards."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def handler(signum: int, frame: Any, before: Any = before) -> None:
            service.stopping.set()
            if callable(before):
                before(signum, frame)

        if callable(before):
            signal.signal(number, handler)


def _add_error_handlers(app: FastAPI) -> None:
    def answer(request: Request, error: ApiError) -> JSONResponse:
        body = error_body(error.code, error.message, request.state.request_id)
        return JSONResponse(body, error.status, headers=error.headers)

    @app.exception_handler(ApiError)
    async def on_api_error(request: Request, error: ApiError) -> JSONResponse:
        return answer(request, error)

    @app.exception_handler(ItamlError)
    async def on_library_error(request: Request, error: ItamlError) -> JSONResponse:
        found = api_error(error)
        if found.status >= 500:
            logger.error("request %s: %s", request.state.request_id, error)
        return answer(request, found)

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
        return answer(request, ApiError(422, f"{where}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> JSONResponse:
        code = CODES.get(error.status_code, "error")
        message = "there is nothing at this address" if error.status_code == 404 else str(error.detail)
        return answer(request, ApiError(error.status_code, message, code=code, headers=dict(error.headers or {})))

    @app.exception_handler(Exception)
    async def on_bug(request: Request, error: Exception) -> JSONResponse:
        return answer(request, ApiError(500, "an error inside the service; its log has the details"))
