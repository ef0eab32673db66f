"""`itaml list`: the registered methods, benchmarks, backbones, presets and recipes."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from itaml.cli.options import Json

KINDS = ("methods", "benchmarks", "backbones", "presets", "recipes")
FORMER = {"models": "backbones"}  # names of 0.2, which go on working


def command(
    kind: Annotated[str, typer.Argument(help="methods, benchmarks, backbones, presets or recipes.")],
    as_json: Json = False,
) -> None:
    """List the available methods, benchmarks, backbones, presets or recipes."""
    from itaml.errors import UnknownNameError
    from itaml.registry import unknown

    kind = FORMER.get(kind, kind)
    if kind not in KINDS:
        raise UnknownNameError(unknown("list of", kind, KINDS))
    rows = _rows(kind)
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    from itaml.cli.tables import print_table

    align = "".join("w" if key == "summary" else "r" if isinstance(rows[0][key], int) else "l" for key in rows[0])
    print_table(list(rows[0]), [[str(value) for value in row.values()] for row in rows], align=align)


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
    if kind == "recipes":
        from itaml.experiment.shared_recipe import recipe_names, recipe_summary

        return [{"name": name, "summary": recipe_summary(name)} for name in recipe_names()]
    registry = LEARNERS if kind == "methods" else MODELS
    return [{"name": entry.name, "summary": entry.summary} for entry in registry]
