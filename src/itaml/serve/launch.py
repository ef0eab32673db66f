"""Start the service: check what was asked for, open the port, and run uvicorn with one process or several."""

from __future__ import annotations

import importlib
import inspect
import socket
from collections.abc import Callable
from typing import Any

from itaml.errors import ItamlError, MissingExtraError, UsageError
from itaml.modelstore.model_folder import ModelFolder
from itaml.serve.access_log import set_up_logging
from itaml.serve.service_options import ServiceOptions, check_exposure, to_environment

PACKAGES = ("fastapi", "uvicorn", "httptools", "python_multipart")
GRACE = 10  # seconds that requests have to end after the service was asked to
HEALTH_SECONDS = 120  # after which a worker process that says nothing is replaced; a busy machine starts slowly
BACKLOG = 2048


def serve(
    options: ServiceOptions,
    *,
    insecure: bool = False,
    create: bool = False,
    announce: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a model until the process is asked to end.

    Args:
        options: of the service.
        insecure: let other machines change the model without a token.
        create: start with an empty model if there is none.
        announce: called with the address once the port is open.

    Raises:
        MissingExtraError: the extra `serve` is not installed.
        UsageError: there is no model, or the address is open to everybody without a token.
        ItamlError: the port or the staging folder cannot be used.
    """
    check_installed()
    check_exposure(options, insecure=insecure)
    _check_model(options, create=create)
    with _listening(options) as listener:
        port = listener.getsockname()[1]
        to_environment(options)
        set_up_logging()
        announce(address(options.host, port))
        _run(options, listener)


def check_installed() -> None:
    """Refuse to start without the packages of the extra.

    Raises:
        MissingExtraError: one of them is not installed.
    """
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise MissingExtraError(f"itaml serve needs {name}: pip install 'itaml[serve]'") from error


def address(host: str, port: int) -> str:
    """Return the address of the page."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"


def _run(options: ServiceOptions, listener: socket.socket) -> None:
    import uvicorn  # noqa: PLC0415 (optional)
    from uvicorn.supervisors import Multiprocess  # noqa: PLC0415

    from itaml.serve.http_protocol import LimitedHttpProtocol  # noqa: PLC0415

    patience = {"timeout_worker_healthcheck": HEALTH_SECONDS}
    known = inspect.signature(uvicorn.Config).parameters
    newer: dict[str, Any] = {name: value for name, value in patience.items() if name in known}
    config = uvicorn.Config(
        "itaml.serve.application:worker",
        factory=True,
        workers=options.workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=options.behind_proxy,
        forwarded_allow_ips="127.0.0.1",
        timeout_graceful_shutdown=GRACE,
        http=LimitedHttpProtocol,
        **newer,
    )
    server = uvicorn.Server(config)
    if options.workers > 1:
        older: dict[str, Any] = {"target": server.run} if "target" in inspect.signature(Multiprocess).parameters else {}
        Multiprocess(config, sockets=[listener], **older).run()
    else:
        server.run(sockets=[listener])


def _listening(options: ServiceOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ItamlError(
            f"cannot listen at {options.host}, port {options.port}: {reason}; give another --port"
        ) from error
    listener.set_inheritable(True)
    return listener


def _check_model(options: ServiceOptions, *, create: bool) -> None:
    from itaml.modelstore.image_classifier import ImageClassifier  # noqa: PLC0415 (imports torch)
    from itaml.serve.job_queue import staging_problem  # noqa: PLC0415

    folder = ModelFolder(options.model)
    if not folder.exists():
        if not create:
            raise UsageError(
                f"there is no model in {options.model}; `itaml learn {options.model} IMAGES` makes one, "
                "and --create starts with an empty one"
            )
        ImageClassifier.create(options.model)
    folder.current()
    problem = staging_problem(options.staging)
    if problem is not None:
        raise ItamlError(f"the staging folder {options.staging} cannot be written: {problem}; give another --staging")
