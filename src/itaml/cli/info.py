"""`itaml info`: what a model knows and how it came to know it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from itaml.cli.formatting import count, listed, percent, printable, size
from itaml.cli.options import Json
from itaml.cli.tables import print_table


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    exemplars: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw the images that the model keeps into this file.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="PAGE.html",
            help="Write a page with accuracy, confusion, thumbnails, mistakes, and labels that look wrong.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a model's tasks, classes, images, accuracy history and size."""
    from itaml.modelstore.image_classifier import ImageClassifier

    classifier = ImageClassifier.open(model, device="cpu", precision="fp32")
    legend = {} if exemplars is None else classifier.draw_exemplars(exemplars)
    if html is not None:
        classifier.write_page(html)
    info = classifier.info()
    if as_json:
        print(json.dumps(info))
        return
    _print(info)
    if html is not None:
        print(f"\nthe page is {html}")
    if exemplars is not None:
        print(f"\nthe exemplars are drawn in {exemplars}")
        for number, name in legend.items():
            print(f"class {number} there is {printable(name)}, which no font of this machine can write")


def _print(info: dict[str, Any]) -> None:
    from itaml.cli.learn import measured_on
    from itaml.modelstore.manifest import TaskScore

    kept = f"{count(len(info['versions_kept']), 'version')} kept"
    print(f"{info['path']}: version {info['version']}, format {info['format']}, {size(info['bytes'])}, {kept}")
    if not info["tasks"]:
        print("it has not learned anything yet")
        return
    channels, height, width = info["shape"]
    network = f"network {info['backbone']} with {info['parameters']:,} weights" if info["backbone"] else "no network"
    print(f"method {info['method']}, {network}")
    print(f"images of {width} x {height} pixels, {'in colour' if channels == 3 else 'grey'}, {info['pixels']['dtype']}")
    kinds = f"{count(info['exemplars'], 'exemplar')} and {count(info['validation_images'], 'validation image')}"
    print(f"keeps {kinds}, of at most {info['memory']:,}, in {size(info['exemplar_bytes'])}\n")
    rows = [
        [str(t["index"] + 1), t["learned"], str(t["images"]), str(t["exemplars"]), listed(t["classes"])]
        for t in info["tasks"]
    ]
    print_table(["task", "learned", "images", "exemplars", "classes"], rows, align="rlrrl")
    scores = [TaskScore(**task) for learn in info["learns"] for task in learn["tasks"]]
    print(f"\naccuracy in per cent after each learn, on {measured_on(scores)}, each alone among all classes:")
    history = [
        [
            learn["date"],
            percent(learn["validation"]),
            percent(learn["accuracy"]),
            "  ".join(percent(task["after"]) for task in learn["tasks"]),
        ]
        for learn in info["learns"]
    ]
    history += [
        [edit["date"], "rebased", "", "  ".join(percent(task["after"]) for task in edit["tasks"])]
        for edit in info["edits"]
        if edit["tasks"]
    ]
    history.sort(key=lambda row: row[0])
    if history:
        print_table(["learned", "new data", "all tasks", "task by task"], history, align="lrrl")
    for edit in info["edits"]:
        if edit["detail"]:
            print(f"rebased on {edit['date']}: {printable(edit['detail'])}")
