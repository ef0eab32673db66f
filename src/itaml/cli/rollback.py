"""`itaml rollback`: return to the state before the last learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from itaml.cli.options import Json, Quiet


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Return a model to the state before its last learn, for good; also mends a model that is damaged."""
    from itaml.cli.words import count
    from itaml.library.library import Library, rollback

    before, now = rollback(model)
    classes = len(Library.open(model, device="cpu").classes)
    if as_json:
        print(json.dumps({"model": str(model), "from": before, "to": now, "classes": classes}))
    elif not quiet:
        source = "a damaged version" if before is None else f"version {before}"
        print(f"{model} went from {source} back to version {now}, which knows {count(classes, 'class')}")
