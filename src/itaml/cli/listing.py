"""`itaml list`: what there is to choose from."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from itaml.cli.options import Json

KINDS = ("methods", "benchmarks", "models", "presets")


def command(
    kind: Annotated[str, typer.Argument(help="methods, benchmarks, models or presets.")],
    as_json: Json = False,
) -> None:
    """List the methods, benchmarks, models or presets there are."""
    from itaml.errors import UnknownNameError
    from itaml.registry import unknown

    if kind not in KINDS:
        raise UnknownNameError(unknown("list of", kind, KINDS))
    rows = _rows(kind)
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    keys = [key for key in rows[0] if key != "summary"]
    heading = {key: key for key in keys} | {"summary": ""}
    widths = {key: max(len(str(row[key])) for row in [heading, *rows]) for key in keys}
    for row in [heading, *rows]:
        print("  ".join([*(str(row[key]).ljust(widths[key]) for key in keys), row["summary"]]).rstrip())


def _rows(kind: str) -> list[dict[str, Any]]:
    from itaml.config import preset_summary, presets
    from itaml.data.benchmarks import BENCHMARKS
    from itaml.learners import LEARNERS
    from itaml.models import MODELS

    if kind == "benchmarks":
        return [
            {"name": b.name, "tasks": b.tasks, "model": b.model, "memory": b.memory, "p": b.p, "summary": b.summary}
            for b in BENCHMARKS.values()
        ]
    if kind == "presets":
        return [
            {"method": method, "name": name, "summary": preset_summary(method, name)}
            for method in LEARNERS.names()
            for name in presets(method)
        ]
    registry = LEARNERS if kind == "methods" else MODELS
    return [{"name": entry.name, "summary": entry.summary} for entry in registry]
