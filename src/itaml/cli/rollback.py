"""`itaml rollback`: return to the state before the last learn."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from itaml.cli.formatting import count, listed
from itaml.cli.options import Json, Quiet
from itaml.errors import UsageError


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before everything learned is lost.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Return a model to the state before its last learn, for good; also mends a model that is damaged.

    If nothing would be known afterwards, it asks first; where nobody can be asked, it needs --yes.
    """
    from itaml.modelstore.repair import rollback, rollback_target

    _, target, classes = rollback_target(model)
    if not classes and not yes:
        _ask(model, target)
    before, now = rollback(model)
    if as_json:
        print(json.dumps({"model": str(model), "from": before, "to": now, "classes": len(classes)}))
    elif not quiet:
        source = "a damaged version" if before is None else f"version {before}"
        knows = f"knows {count(len(classes), 'class')} ({listed(classes)})" if classes else "knows nothing"
        print(f"{model} went from {source} back to version {now}, which {knows}")


def _ask(model: Path, target: int) -> None:
    lost = f"{model} would go back to version {target}, which knows nothing: everything learned would be lost"
    if not sys.stdin.isatty():
        raise UsageError(f"{lost}; add --yes if that is meant")
    typer.confirm(f"{lost}. Go back?", abort=True)
