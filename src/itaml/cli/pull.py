"""`itaml pull`: download a model from the Hugging Face Hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from itaml.cli.formatting import count
from itaml.cli.options import Json, Quiet


def command(
    repo: Annotated[str, typer.Argument(help="Repository: user/name.")],
    model: Annotated[Path, typer.Argument(help="Folder to make.")],
    *,
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit; the newest by default.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Download a model to a new folder, and check every file against its checksum before it gets its place."""
    from itaml.exchange.model_hub import pull

    checked = pull(repo, model, revision=revision)
    if as_json:
        print(json.dumps({"model": str(model), "repo": repo, "files": checked}))
    elif not quiet:
        print(f"{model}: {count(checked, 'file')} of {repo}, all as written")
