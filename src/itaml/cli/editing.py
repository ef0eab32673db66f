"""`itaml forget`, `rename`, `merge` and `relabel`: correct what a model has learned."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.formatting import count, listed, printable
from itaml.cli.options import Json, Quiet
from itaml.errors import UsageError

if TYPE_CHECKING:
    from itaml.modelstore.class_editing import EditReport
    from itaml.modelstore.image_classifier import ImageClassifier

Model = Annotated[Path, typer.Argument(help="Folder of the model.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def forget(
    model: Model,
    classes: Annotated[list[str], typer.Argument(metavar="CLASS", help="The classes to forget.")],
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove them from the version before and from the history too, for good.")
    ] = False,
    yes: Yes = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Remove classes from a model: what it has learned of them, their exemplars and their validation images.

    It asks first; where nobody can be asked, it needs --yes. `itaml rollback` undoes it, unless --purge was given.
    """
    classifier = _open(model)
    if not purge:  # the version before may have classes to purge that this one has not
        classes = _known(classifier, *classes)
    if not yes:
        lost = "this cannot be undone" if purge else "itaml rollback undoes it"
        _ask(f"{model} would forget {listed(classes)}; {lost}")
    report = classifier.forget(*classes, purge=purge)
    _print_report(model, report, f"forgot {listed(report.classes)}", quiet=quiet, as_json=as_json)


def rename(
    model: Model,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The class.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Give a class another name; nothing else changes. `itaml rollback` undoes it."""
    report = _open(model).rename(old, new)
    message = f"class {printable(report.classes[0])} is called {printable(report.classes[1])} now"
    _print_report(model, report, message, quiet=quiet, as_json=as_json)


def merge(
    model: Model,
    source: Annotated[str, typer.Argument(metavar="CLASS", help="The class that becomes part of another one.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The class that has the images of both afterwards.")],
    yes: Yes = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make two classes one.

    It asks first; where nobody can be asked, it needs --yes. `itaml rollback` undoes it.
    """
    classifier = _open(model)
    source, into = _known(classifier, source, into)
    if not yes:
        _ask(f"{model} would make {printable(source)} a part of {printable(into)}; itaml rollback undoes that")
    report = classifier.merge(source, into)
    message = f"{printable(report.classes[0])} is a part of {printable(report.classes[1])} now"
    _print_report(model, report, message, quiet=quiet, as_json=as_json)


def relabel(
    model: Model,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE", help="Image files, folders or patterns.")],
    to: Annotated[str, typer.Option("--to", metavar="CLASS", help="The class that they are of.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Move images that the model keeps from their class to another one, and learn them there.

    Images are recognised by their content. `itaml rollback` undoes it.
    """
    from itaml.cli.predict import expand

    classifier = _open(model)
    files = list(expand(images, sys.stdin, []))
    if not files:
        raise UsageError(f"no images in {', '.join(images)}")
    report = classifier.relabel(files, to=to)
    *sources, target = report.classes
    message = f"{count(len(files), 'image')} moved from {listed(sources)} to {printable(target)}"
    _print_report(model, report, message, quiet=quiet, as_json=as_json)


def _open(model: Path) -> ImageClassifier:
    logging.getLogger("itaml").addHandler(logging.NullHandler())
    from itaml.modelstore.image_classifier import ImageClassifier

    return ImageClassifier.open(model)


def _known(classifier: ImageClassifier, *names: str) -> list[str]:
    """Return the classes that are meant; one that the model does not know is an error before anything is asked."""
    from itaml.modelstore.class_editing import find_class

    return [find_class(classifier.classes, name) for name in names]


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"{question}; add --yes if that is meant")
    typer.confirm(f"{question}. Go on?", abort=True)


def _print_report(model: Path, report: EditReport, message: str, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "model": str(model),
                    "action": report.action,
                    "classes": list(report.classes),
                    "version": report.version,
                    "known": list(report.known),
                    "notes": list(report.notes),
                }
            )
        )
    elif not quiet:
        knows = count(len(report.known), "class") if report.known else "nothing"
        print(f"{message}; {model} is at version {report.version} and knows {knows}")
