"""`itaml serve`: a model as an HTTP service with a page for browsers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from itaml.errors import UsageError


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    *,
    host: Annotated[str, typer.Option(help="Address to listen at; other machines cannot reach the default.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer requests.")] = 1,
    create: Annotated[bool, typer.Option("--create", help="Start with an empty model if there is none.")] = False,
    token: Annotated[
        str | None,
        typer.Option(help="Token for all that changes the model; other users of this machine can see it here."),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the token.")] = None,
    protect_reading: Annotated[
        bool, typer.Option("--protect-reading", help="Require the token for reading and predicting too.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines change the model without a token.")
    ] = False,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Let pages of this origin use the service. Repeatable."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of this service in addresses, such as photos.example.org. Repeatable."),
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option("--behind-proxy", help="Believe a proxy on this machine which client asks (X-Forwarded-For)."),
    ] = False,
    staging: Annotated[
        Path | None, typer.Option(help="Folder for uploads and jobs; MODEL.serve beside the model by default.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of predictions; all by default.")] = None,
    learn_threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of a learn; one by default.")] = None,
    batch_milliseconds: Annotated[
        float, typer.Option(min=0, max=1000, help="How long a request may wait for others, to be predicted together.")
    ] = 3.0,
    max_body: Annotated[int | None, typer.Option(min=1, metavar="BYTES", help="Largest request but learn.")] = None,
    max_upload: Annotated[int | None, typer.Option(min=1, metavar="BYTES", help="Largest upload to learn.")] = None,
    max_images: Annotated[int | None, typer.Option(min=1, help="Most images of a request but learn.")] = None,
    max_upload_images: Annotated[int | None, typer.Option(min=1, help="Most images of a learn.")] = None,
    max_pixels: Annotated[int | None, typer.Option(min=1, help="Most pixels of one image.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0.1, help="Longest time of a request but learn.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0, help="Most requests per second of one client; 0 is no limit.")
    ] = None,
) -> None:
    """Serve a model over HTTP: predict, learn and correct it from a browser and from programs.

    The page is at the address that is printed, the API is described at /docs. Predictions go on while the model learns.
    Stop it with Ctrl-C: requests are finished, and a learn continues at the next start.
    """
    from itaml.serve.service_options import ServiceOptions, check_token, parse_limits, read_token, staging_of

    if token is not None and token_file is not None:
        raise UsageError("give --token or --token-file, not both")
    secret = read_token(token_file) if token_file is not None else None if token is None else check_token(token)
    if protect_reading and secret is None:
        raise UsageError("--protect-reading needs --token or --token-file")
    limits = {
        "body_bytes": max_body,
        "upload_bytes": max_upload,
        "images": max_images,
        "upload_images": max_upload_images,
        "pixels": max_pixels,
        "seconds": max_seconds,
        "rate": rate,
    }
    options = ServiceOptions(
        model=model,
        staging=staging or staging_of(model),
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        learn_threads=learn_threads,
        token=secret,
        protect_reading=protect_reading,
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=tuple(allowed_host or ()),
        behind_proxy=behind_proxy,
        batch_milliseconds=batch_milliseconds,
        limits=parse_limits(dict(limits)),
    )
    from itaml.serve.launch import serve

    def announce(address: str) -> None:
        print(f"{model} is served at {address} (stop with Ctrl-C)", flush=True)

    serve(options, insecure=insecure, create=create, announce=announce)
