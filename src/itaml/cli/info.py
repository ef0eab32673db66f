"""`itaml info`: what a model knows and how it came to know it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from itaml.cli.options import Json


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    exemplars: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw the pictures that the model keeps into this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a model's tasks, classes, pictures, accuracy history and size."""
    from itaml.library.library import Library

    library = Library.open(model, device="cpu", precision="fp32")
    if exemplars is not None:
        library.draw_exemplars(exemplars)
    info = library.info()
    if as_json:
        print(json.dumps(info))
        return
    _print(info)
    if exemplars is not None:
        print(f"\nthe exemplars are drawn in {exemplars}")


def _print(info: dict[str, Any]) -> None:
    from itaml.cli.words import count, listed, percent, size

    kept = f"{count(len(info['versions_kept']), 'version')} kept"
    print(f"{info['path']}: version {info['version']}, format {info['format']}, {size(info['bytes'])}, {kept}")
    if not info["tasks"]:
        print("it has not learned anything yet")
        return
    channels, height, width = info["shape"]
    print(f"network {info['backbone']} with {info['parameters']:,} weights")
    print(f"pictures of {width} x {height} pixels, {'in colour' if channels == 3 else 'grey'}")
    print(f"keeps {info['exemplars']} exemplars and {info['held_back']} held back, of at most {info['memory']}\n")
    print(f"{'task':>4}  {'learned':25}  {'pictures':>8}  {'exemplars':>9}  classes")
    for task in info["tasks"]:
        figures = f"{task['learned']:25}  {task['pictures']:>8}  {task['exemplars']:>9}"
        print(f"{task['index'] + 1:>4}  {figures}  {listed(task['classes'])}")
    print("\naccuracy in per cent after each learn, on pictures held back, each alone among all classes:")
    print(f"{'learned':25}  {'new data':>8}  task by task")
    for learn in info["learns"]:
        tasks = "  ".join(percent(task["after"]) for task in learn["tasks"])
        print(f"{learn['date']:25}  {percent(learn['validation']):>8}  {tasks}")
