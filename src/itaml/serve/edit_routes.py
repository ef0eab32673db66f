"""Corrections: rename, merge, forget, relabel, rollback; and `POST /v1/check`, which changes nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from torch import Tensor

from itaml.errors import UsageError
from itaml.modelstore.class_editing import EditReport, find_class
from itaml.modelstore.duplicates import known_images
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.image_reading import digests_of
from itaml.modelstore.loaded_model import factory
from itaml.modelstore.model_folder import ModelFolder
from itaml.modelstore.repair import rollback
from itaml.serve.api_errors import ApiError
from itaml.serve.api_schemas import CheckResponse
from itaml.serve.edit_job import Edit, apply, apply_in_process
from itaml.serve.image_uploads import UploadedImage, read_memory_form
from itaml.serve.learn_fields import check_label
from itaml.serve.model_schemas import ChangeResponse, ForgetBody, MergeBody, RenameBody, RollbackBody
from itaml.serve.predict_routes import NOTHING_LEARNED, decode_all
from itaml.serve.served_model import ServedModel
from itaml.serve.service import Service, service_of

router = APIRouter(tags=["correct"])
Change = Callable[[], EditReport]


async def _changed(service: Service, change: Change, message: Callable[[EditReport], str]) -> dict[str, Any]:
    """Make a correction in the thread for changes, and answer when the new version is in use."""
    report = await asyncio.get_running_loop().run_in_executor(service.changes, change)
    await service.watch.latest()
    return {"version": report.version, "message": message(report)}


def _here(service: Service, change: Callable[[ImageClassifier], EditReport]) -> Change:
    """Return a correction that is made at once, in this process."""
    return lambda: change(ImageClassifier.open(service.options.model, threads=service.options.threads))


def _elsewhere(service: Service, edit: Edit) -> Change:
    """Return a correction that has to learn, which is made in a process of its own."""
    threads = service.options.learn_threads or 1
    return lambda: apply_in_process(service.options.model, edit, threads=threads)


@router.post("/v1/classes/{name:path}/rename", response_model=ChangeResponse, summary="Rename a class")
async def rename(request: Request, name: str, body: RenameBody) -> dict[str, Any]:
    """Give a class another name."""
    check_label(body.to)
    service = service_of(request)
    return await _changed(
        service,
        _here(service, lambda model: model.rename(name, body.to)),
        lambda report: f"{report.classes[0]} is called {report.classes[1]} now",
    )


@router.post("/v1/classes/{name:path}/merge", response_model=ChangeResponse, summary="Make two classes one")
async def merge(request: Request, name: str, body: MergeBody) -> dict[str, Any]:
    """Make a class a part of another one."""
    service = service_of(request)
    served = await service.watch.latest()
    source, target = find_class(served.classes, name), find_class(served.classes, body.into)
    edit = Edit(action="merge", source=source, target=target)
    trains = factory(served.model.manifest.method).traits.trains_gradients
    return await _changed(
        service,
        _elsewhere(service, edit) if trains else _here(service, lambda model: apply(model, edit)),
        lambda report: f"{report.classes[0]} is a part of {report.classes[1]} now",
    )


@router.post("/v1/classes/{name:path}/forget", response_model=ChangeResponse, summary="Forget a class")
async def forget(request: Request, name: str, body: ForgetBody) -> dict[str, Any]:
    """Remove a class."""
    service = service_of(request)
    return await _changed(
        service,
        _here(service, lambda model: model.forget(name, purge=body.purge)),
        lambda report: f"forgot {', '.join(report.classes)}",
    )


@router.post("/v1/relabel", response_model=ChangeResponse, summary="Move images to another class")
async def relabel(request: Request) -> dict[str, Any]:
    """Move images that the model keeps to another class, and learn them there."""
    service = service_of(request)
    form = await read_memory_form(request, service.limits, fields=("to",))
    if len(form.texts.get("to", [])) != 1:
        raise ApiError(422, "give one field 'to': the class that the images are of")
    target = form.texts["to"][0]
    served = await service.watch.latest()
    _check_learned(served)
    find_class(served.classes, target)
    pixels = await decode_all(service, served, form.images)
    bad = next((part for part in pixels if isinstance(part, str)), None)
    if bad is not None:
        raise ApiError(400, f"an image cannot be read: {bad}", code="unreadable_images")
    draft = service.jobs.jobs.draft()
    try:
        for number, image in enumerate(form.images):
            draft.image(number).write_bytes(image.data)
        files = tuple(str(draft.image(number)) for number in range(len(form.images)))
        return await _changed(
            service,
            _elsewhere(service, Edit(action="relabel", target=target, images=files)),
            lambda report: f"{len(files)} images moved from {', '.join(report.classes[:-1])} to {report.classes[-1]}",
        )
    finally:
        shutil.rmtree(draft.path, ignore_errors=True)


@router.post("/v1/rollback", response_model=ChangeResponse, summary="Return to an earlier version")
async def roll_back(request: Request, body: RollbackBody) -> dict[str, Any]:
    """Undo the last changes, for good."""
    service = service_of(request)
    loop = asyncio.get_running_loop()
    version = await loop.run_in_executor(service.changes, _roll_back, service.options.model, body)
    await service.watch.latest()
    return {"version": version, "message": f"the model is at version {version} again"}


def _roll_back(path: Path, body: RollbackBody) -> int:
    if (body.steps is None) == (body.version is None):
        raise ApiError(422, "give either steps or version")
    folder = ModelFolder(path)
    now = folder.current().number
    earlier = [number for number in reversed(folder.numbers()) if number < now]
    if body.version is not None:
        if body.version not in earlier:
            raise ApiError(404, f"version {body.version} is not kept, or not before {now}", code="unknown_version")
        steps = earlier.index(body.version) + 1
    else:
        steps = body.steps or 1
    if steps > len(earlier):
        raise ApiError(409, f"only {len(earlier)} earlier versions are kept", code="no_earlier_version")
    for _ in range(steps):
        try:
            now = rollback(path)[1]
        except UsageError as error:
            raise ApiError(409, str(error), code="no_earlier_version") from error
    return now


@router.post("/v1/check", response_model=CheckResponse, summary="Check images before they are learned", tags=["learn"])
async def check(request: Request) -> dict[str, Any]:
    """Say which images can be read, came twice, or are known to the model; nothing is changed."""
    service = service_of(request)
    form = await read_memory_form(request, service.limits, fields=None)
    served = await service.watch.latest()
    decoded = await decode_all(service, served, form.images)
    known = {} if served.empty else await asyncio.to_thread(known_images, served.model)
    return {"images": _checked(form.images, decoded, set(known))}


def _checked(images: list[UploadedImage], decoded: list[Tensor | str], known: set[bytes]) -> list[dict[str, Any]]:
    seen: set[bytes] = set()
    found = []
    for image, part in zip(images, decoded, strict=True):
        state, reason = "ok", None
        if isinstance(part, str):
            state, reason = "unreadable", part
        else:
            (digest,) = digests_of(part[None])
            if digest in seen:
                state, reason = "duplicate", "the same image is in this upload already"
            elif digest in known:
                state, reason = "known", "the model has this image already"
            seen.add(digest)
        found.append({"name": image.name or "", "state": state, "reason": reason})
    return found


def _check_learned(served: ServedModel) -> None:
    if served.empty:
        raise ApiError(409, NOTHING_LEARNED, code="empty_model")
