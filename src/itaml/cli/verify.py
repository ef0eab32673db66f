"""`itaml verify`: is every byte of a model as it was written?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from itaml.cli.formatting import count
from itaml.cli.options import Json, Quiet
from itaml.errors import CheckpointError


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check every file of a model against its checksum; exits with 1 if anything is wrong."""
    from itaml.modelstore.repair import verify

    checked, problems = verify(model)
    if as_json:
        print(json.dumps({"model": str(model), "files": checked, "problems": problems}))
    if problems:
        raise CheckpointError("; ".join(problems))
    if not quiet and not as_json:
        print(f"{model}: {count(checked, 'file')}, all as written")
