"""The options of a service: where it listens, who may change the model, and its limits."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from itaml.config import Settings, build
from itaml.data.decoding import MAX_PIXELS
from itaml.errors import UsageError
from itaml.safe_files import read_regular

VARIABLE = "ITAML_SERVE_OPTIONS"  # how the options reach worker processes
TOKEN_FILE_LIMIT = 4096  # bytes
SHORTEST_TOKEN = 8
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Limits(Settings):
    """What one request, and one client, may ask for."""

    body_bytes: Positive = 64 << 20  # of a request other than learn
    upload_bytes: Positive = 1 << 30  # of a learn, and of what its archive unpacks to
    images: Positive = 256  # of a request other than learn
    upload_images: Positive = 20_000  # of a learn
    pixels: Positive = MAX_PIXELS  # of one image
    seconds: Seconds = 60.0  # until a request is answered
    upload_seconds: Seconds = 600.0  # until an upload is complete
    waiting_images: Positive = 4096  # in the queue for prediction
    waiting_jobs: Positive = 8
    rate: Annotated[float, Field(ge=0)] = 100.0  # requests per second of one client; 0 is no limit


class ServiceOptions(Settings):
    """Everything that a worker process has to know."""

    model: Path
    staging: Path  # folder of uploads and jobs
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    workers: Positive = 1
    threads: Positive | None = None
    learn_threads: Positive | None = None
    token: str | None = Field(default=None, repr=False)
    protect_reading: bool = False
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()  # accepted in the Host header besides those of this machine
    behind_proxy: bool = False  # a proxy on this machine says which client asks
    batch_milliseconds: Annotated[float, Field(ge=0)] = 3.0  # that a request may wait for others
    keep_jobs: Positive = 100  # finished jobs whose record is kept
    limits: Limits = Limits()


def from_environment() -> ServiceOptions:
    """Return the options that the starting process has put into the environment."""
    return ServiceOptions.model_validate_json(os.environ[VARIABLE])


def to_environment(options: ServiceOptions) -> None:
    """Put the options where worker processes find them."""
    os.environ[VARIABLE] = options.model_dump_json()


def staging_of(model: Path) -> Path:
    """Return the folder next to a model in which uploads and jobs are kept."""
    path = Path(os.path.abspath(model))
    return path.with_name(f"{path.name}.serve")


def is_loopback(host: str) -> bool:
    """Say whether only programs of this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """Return the token in a file: its text without white space around it.

    Raises:
        UsageError: the file cannot be read, or holds no token.
    """
    try:
        return check_token(read_regular(path, limit=TOKEN_FILE_LIMIT).decode().strip())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the token file {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def check_token(token: str) -> str:
    """Return a token that can be sent in a header.

    Raises:
        UsageError: it is too short, or holds other characters than visible ASCII.
    """
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"a token has {SHORTEST_TOKEN} or more visible ASCII characters and no space")
    return token


def check_exposure(options: ServiceOptions, *, insecure: bool) -> None:
    """Refuse to let everybody in the network change a model.

    Raises:
        UsageError: the address can be reached from other machines and there is no token.
    """
    if not is_loopback(options.host) and options.token is None and not insecure:
        raise UsageError(
            f"--host {options.host} lets other machines change the model: give --token or --token-file, "
            "or --insecure if that is meant"
        )


def parse_limits(values: dict[str, object]) -> Limits:
    """Return limits; those that are None have their default.

    Raises:
        SettingsError: a value that is not possible.
    """
    return build(Limits, {name: value for name, value in values.items() if value is not None}, what="limit")
