"""The card of a model: a README that says what it knows, what it learned from, how good it is, and its limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from itaml._version import __version__
from itaml.errors import DataError

if TYPE_CHECKING:
    from itaml.modelstore.image_classifier import ImageClassifier

SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")
MOST_NAMED = 50  # classes of a task that are named


def model_card(classifier: ImageClassifier, *, name: str, licence: str = "other", repo: str | None = None) -> str:
    """Return the card of a model as Markdown with YAML metadata, as model hubs show it.

    Args:
        classifier: a model that has learned something.
        name: the title.
        licence: an SPDX identifier in lower case, such as `apache-2.0`; the images that the model keeps are part of it.
        repo: where the model can be pulled from.

    Raises:
        DataError: nothing was learned yet.
    """
    if not classifier.classes:
        raise DataError(f"{classifier.path} has not learned anything yet, so there is nothing to describe")
    info = classifier.info()
    parts = [
        _metadata(info, licence),
        f"# {_text(name)}",
        f"An image classifier of {len(classifier.classes)} classes that can learn more, made with itaml {__version__}.",
        _classes(classifier),
        _accuracy(info),
        _made(info),
        _use(repo),
        _limits(info),
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(info: Mapping[str, Any], licence: str) -> str:
    lines = [
        "---",
        f"license: {json.dumps(licence)}",
        "library_name: itaml",
        "pipeline_tag: image-classification",
        "tags:",
        *(f"- {json.dumps(tag)}" for tag in ("image-classification", "continual-learning", "itaml", info["method"])),
        "---",
    ]
    return "\n".join(lines)


def _classes(classifier: ImageClassifier) -> str:
    rows = []
    for task in classifier.tasks:
        named = ", ".join(map(_text, task.classes[:MOST_NAMED]))
        more = f" and {len(task.classes) - MOST_NAMED} others" if len(task.classes) > MOST_NAMED else ""
        rows.append((str(task.index + 1), named + more, str(task.images), str(task.exemplars), task.learned[:10]))
    table = _table(("task", "classes", "images learned", "images kept", "date"), rows)
    return f"## Classes and data\n\n{table}"


def _accuracy(info: Mapping[str, Any]) -> str:
    scores: list[dict[str, Any]] = next((learn["tasks"] for learn in reversed(info["learns"]) if learn["tasks"]), [])
    rows = [
        (str(score["task"] + 1), str(score["images"]), "" if score["after"] is None else f"{100 * score['after']:.1f}")
        for score in scores
    ]
    said = (
        "Measured at the last learn on images that were not learned (validation images, or exemplars that were left "
        "out one by one), each alone among all classes known then:"
    )
    if not rows:
        return "## Accuracy\n\nIt was not measured: there were too few images to keep some apart."
    return f"## Accuracy\n\n{said}\n\n{_table(('task', 'images', 'accuracy in per cent'), rows)}"


def _made(info: Mapping[str, Any]) -> str:
    _, height, width = info["shape"]
    lines = [
        f"* method: `{info['method']}`; network: `{info['backbone']}`; images of {height} x {width} pixels",
        f"* weights of its own and of the network: {info['parameters']}",
    ]
    if info["weights_sha256"]:
        lines.append(f"* SHA-256 of the pretrained weights: `{info['weights_sha256']}`")
    return "## How it was made\n\n" + "\n".join(lines)


def _use(repo: str | None) -> str:
    pull = f"itaml pull {repo} model\n" if repo else ""
    return (
        f"## Use\n\n```sh\npip install 'itaml[hub]'\n{pull}itaml predict model photo.jpg\nitaml learn model more\n```"
    )


def _limits(info: Mapping[str, Any]) -> str:
    kept = info["exemplars"] + info["validation_images"]
    lines = [
        "* It names the classes above and `unknown`, and was measured on images like those it learned from. On others "
        "it may be worse.",
        "* The threshold for `unknown` refuses about one in twenty images of known classes.",
        f"* Its files hold {kept} images, or features of images, that it learned from: who has the model has those.",
        "* It was not examined for bias, and is not meant for decisions about people.",
    ]
    return "## Limits\n\n" + "\n".join(lines)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = [list(head), *map(list, rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def _text(name: str) -> str:
    """Return a name as text that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(name.split()))
