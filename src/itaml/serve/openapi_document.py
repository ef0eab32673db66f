"""The OpenAPI document: bodies that routes read themselves, every error, the token; and a plain page about it."""

from __future__ import annotations

import html
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse

from itaml.serve.access_rules import CHANGING, OPEN
from itaml.serve.api_schemas import UNKNOWN_PATTERN, ErrorResponse, Mode, PredictBody, PredictResponse
from itaml.serve.learn_routes import ZIP
from itaml.serve.multipart_stream import FIELD_BYTES
from itaml.serve.service_options import ServiceOptions

Json = dict[str, Any]
MEANINGS = {
    "400": "The request cannot be meant.",
    "401": "The token is missing or wrong.",
    "403": "A page of another site asks for a change.",
    "404": "There is no such class, job, version or exemplar.",
    "409": "Not possible now: another change is running, or the model cannot do this.",
    "413": "A limit is exceeded.",
    "415": "The body is of a type that is not read here.",
    "422": "A parameter or a field is missing or wrong.",
    "429": "Too many requests of this client.",
    "501": "Not installed, or not possible with this model.",
    "503": "Not ready, shutting down, or too busy.",
}
FILES: Json = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
TEXT: Json = {"type": "string", "minLength": 1, "maxLength": 255}
LEARN_FIELDS: Json = {
    "images": FILES,
    "class": {**TEXT, "description": "The class of all images."},
    "classes": {"type": "array", "items": TEXT, "description": "The class of each image, in their order."},
    "archive": {"type": "string", "format": "binary", "description": "A zip file with a folder for each class."},
    "epochs": {"type": "integer", "minimum": 1, "maximum": 10_000},
}
BODIES: dict[str, Json] = {
    "/v1/learn": {"type": "object", "properties": LEARN_FIELDS, "additionalProperties": False},
    "/v1/check": {
        "type": "object",
        "properties": {"images": FILES},
        "required": ["images"],
        "additionalProperties": True,  # the fields of a learn, which say nothing about images
    },
    "/v1/relabel": {
        "type": "object",
        "properties": {"images": FILES, "to": {**TEXT, "maxLength": FIELD_BYTES}},
        "required": ["images", "to"],
        "additionalProperties": False,
    },
    "/v1/predict": {
        "type": "object",
        "properties": {
            "images": FILES,
            "mode": {"enum": list(get_args(Mode)), "description": "Counts more than that of the address."},
            "top": {"type": "integer", "minimum": 1, "maximum": 1000},
            "unknown": {"type": "string", "pattern": UNKNOWN_PATTERN},
        },
        "required": ["images"],
        "additionalProperties": False,
    },
}
OTHER_TYPES = {
    "/metrics": {"text/plain": {"schema": {"type": "string"}}},
    "/v1/jobs/{id}/events": {"text/event-stream": {"schema": {"type": "string"}}},
    "/v1/classes/{name}/exemplars/{id}": {"image/webp": {"schema": {"type": "string", "format": "binary"}}},
    "/v1/export.onnx": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


def describe(app: FastAPI, options: ServiceOptions) -> None:
    """Have an application return a complete document at /openapi.json, and a page about it at /docs."""
    cache: list[Json] = []

    def document() -> Json:
        if not cache:
            cache.append(_document(app, options))
        return cache[0]

    app.openapi = document  # type: ignore[method-assign]

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_page(document()))


def _document(app: FastAPI, options: ServiceOptions) -> Json:
    found = get_openapi(title=app.title, version=app.version, routes=app.routes, summary="A model that keeps learning")
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    for model in (ErrorResponse, PredictBody, PredictResponse):
        made = model.model_json_schema(ref_template="#/components/schemas/{model}", by_alias=True)
        schemas |= {**made.pop("$defs", {}), model.__name__: made}
    schemas["PredictBody"]["properties"]["images"]["maxItems"] = options.limits.images
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    if options.token is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            _complete(path, method.upper(), operation, options)
    return found


def _complete(path: str, method: str, operation: Json, options: ServiceOptions) -> None:
    """Add what FastAPI cannot know to an operation."""
    responses: Json = operation["responses"]
    if path in OTHER_TYPES:
        responses["200"]["content"] = OTHER_TYPES[path]
    if "{id}" in path and "exemplars" in path:
        responses["304"] = {"description": "The exemplar that the client has is the present one."}
    if path == "/v1/predict":
        responses["200"]["content"] = {"application/json": {"schema": _ref("PredictResponse")}}
    if path == "/readyz":
        responses["503"] = {"description": MEANINGS["503"], "content": responses["200"]["content"]}
    if path in BODIES:
        content: Json = {"multipart/form-data": {"schema": BODIES[path]}}
        if path == "/v1/predict":
            content["application/json"] = {"schema": _ref("PredictBody")}
        if path == "/v1/learn":
            content[ZIP] = {"schema": LEARN_FIELDS["archive"]}
        operation["requestBody"] = {"required": True, "content": content}
    changes = method in CHANGING and path != "/v1/predict"
    if options.token is not None and (changes or (options.protect_reading and path not in OPEN)):
        operation["security"] = [{"token": []}]
    for status in _errors(path, method, changes=changes):
        if path != "/readyz" or status != "503":
            responses[status] = _error(status)
    for response in responses.values():
        response.setdefault("headers", {})["X-Request-Id"] = {"schema": {"type": "string"}, "required": True}


def _errors(path: str, method: str, *, changes: bool) -> list[str]:
    found = ["400", "413", "503"]
    found += ["401"] if path not in OPEN else []
    found += [] if path in ("/healthz", "/readyz") else ["429"]
    found += ["404"] if "{" in path or path in ("/v1/rollback", "/v1/relabel") else []
    found += ["422"] if method == "POST" or "{" in path else []
    found += ["403", "409"] if changes else []
    found += ["409"] if path == "/v1/predict" else []
    found += ["415"] if path in BODIES else []
    found += ["501"] if path == "/v1/export.onnx" else []
    return sorted(set(found))


def _error(status: str) -> Json:
    content = {"application/json": {"schema": _ref("ErrorResponse")}}
    headers = {"Retry-After": {"schema": {"type": "string"}}} if status == "429" else {}
    return {"description": MEANINGS[status], "content": content, "headers": headers}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _page(document: Json) -> str:
    """Return a page without scripts that lists the operations."""
    rows = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            names = [parameter["name"] for parameter in operation.get("parameters", ())]
            types = operation.get("requestBody", {}).get("content", {})
            cells = [
                f"{method.upper()} {path}",
                operation.get("summary", ""),
                ", ".join(names),
                ", ".join(types),
                ", ".join(operation["responses"]),
            ]
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("address", "", "parameters", "body", "responses"))
    title = f"{html.escape(document['info']['title'])} {html.escape(document['info']['version'])}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'
        f'<h1>{title}</h1><p>The whole description, for programs: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></body></html>"
    )
