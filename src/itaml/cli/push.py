"""`itaml push`: upload a model to the Hugging Face Hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from itaml.cli.formatting import count
from itaml.cli.options import Json, Quiet
from itaml.errors import UsageError


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    repo: Annotated[str | None, typer.Argument(help="Repository: user/name.")] = None,
    *,
    licence: Annotated[
        str, typer.Option("--licence", "--license", help="For the model card, such as apache-2.0.")
    ] = "other",
    public: Annotated[bool, typer.Option("--public", help="A repository that is made can be seen by all.")] = False,
    to_folder: Annotated[
        Path | None, typer.Option(help="Write the model with its card to a new folder, and upload nothing.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Upload a model with a card that says what it knows; log in first with `hf auth login`.

    The images that a model keeps, so as not to forget, are part of it and are uploaded too. Repositories are private
    unless --public is given.
    """
    if (repo is None) == (to_folder is None):
        raise UsageError("name a repository (user/name), or a folder with --to-folder")
    from itaml.exchange.model_hub import push, write_for_hub
    from itaml.modelstore.image_classifier import ImageClassifier

    classifier = ImageClassifier.open(model)
    kept = sum(task.exemplars + task.validation_images for task in classifier.tasks)
    if to_folder is not None:
        write_for_hub(classifier, to_folder, name=model.resolve().name, licence=licence)
        place = str(to_folder)
    else:
        assert repo is not None
        place = push(classifier, repo, licence=licence, private=not public)
    if as_json:
        print(json.dumps({"model": str(model), "version": classifier.version, "place": place, "images": kept}))
    elif not quiet:
        print(f"wrote version {classifier.version} to {place}, with {count(kept, 'image')} that it keeps")
