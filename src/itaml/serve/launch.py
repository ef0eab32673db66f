"""Start the service: check what was asked for, open the port, and run uvicorn with one process or several."""

from __future__ import annotations

from itaml.errors import ItamlError, MissingExtraError, UsageError
from itaml.modelstore.model_folder import ModelFolder
from itaml.serve.access_log import set_up_logging
from itaml.serve.service_options import ServiceOptions, check_exposure, to_environment

GRACE = 10  # seconds that requests have to end after the service was asked to


def serve(options: ServiceOptions, *, insecure: bool = False, create: bool = False) -> None:
    """Serve a model until the process is asked to end.

    Raises:
        MissingExtraError: the extra `serve` is not installed.
        UsageError: there is no model, or the address is open to everybody without a token.
        ItamlError: the port or the staging folder cannot be used.
    """
    try:
        import uvicorn  # noqa: PLC0415 (optional)

        from itaml.serve import application  # noqa: F401, PLC0415 (checks that all packages are there)
    except ImportError as error:
        raise MissingExtraError("itaml serve needs FastAPI and uvicorn: pip install 'itaml[serve]'") from error
    check_exposure(options, insecure=insecure)
    _check_model(options, create=create)
    to_environment(options)
    set_up_logging()
    uvicorn.run(
        "itaml.serve.application:worker",
        factory=True,
        host=options.host,
        port=options.port,
        workers=options.workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=options.behind_proxy,
        forwarded_allow_ips="127.0.0.1",
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=64 << 10,
    )


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


def address(options: ServiceOptions) -> str:
    """Return the address of the page."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{options.port}/"
