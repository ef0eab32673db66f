"""Exported models: made once for a version, in a process of its own, and kept in the staging folder."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from itaml.serve.api_errors import ApiError
from itaml.serve.onnx_job import NOT_POSSIBLE
from itaml.serve.served_model import ServedModel
from itaml.serve.service_options import ServiceOptions

FOLDER = "exports"
_one_at_a_time = asyncio.Lock()


async def onnx_file(served: ServedModel, options: ServiceOptions) -> Path:
    """Return the ONNX file of a version, made now if there is none.

    Raises:
        ApiError: the model cannot be exported.
    """
    folder = options.staging / FOLDER
    path = folder / f"{served.version}-{(served.pointer.checksum or '')[:32]}.onnx"
    async with _one_at_a_time:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            await _export(options.model, path)
            for old in folder.glob("*.onnx"):
                if old != path:
                    old.unlink(missing_ok=True)
    return path


async def _export(model: Path, path: Path) -> None:
    command = [sys.executable, "-m", "itaml.serve.onnx_job", str(model), str(path)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        said, _ = await process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode == NOT_POSSIBLE:
        raise ApiError(501, said.decode(errors="replace"), code="not_exportable")
    if process.returncode:
        message = said.decode(errors="replace") or "the model could not be exported"
        raise ApiError(503, message, code="export_failed")
