"""A service that answers as `itaml serve` does, without a model: every state of the page can be set from a test.

The class of an image is read from its file name ("mug-03.jpg" is a mug); `odd-...` is unknown, `broken-...` cannot be
read. A learn takes `steps` events. It is the API of docs/serve.md as far as the page uses it.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.datastructures import UploadFile

from generated_photos import KINDS, jpeg

STATIC = files("itaml.serve") / "static"
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
PHASES = ("staging", "reading", "features", "training", "saving", "verifying")
DATE = "2026-05-0{}T09:30:00+00:00"


class FakeService:
    """The state of the fake: change its attributes to change what the page sees."""

    def __init__(self, classes: dict[str, int] | None = None) -> None:
        self.classes: dict[str, int] = dict(classes or {})  # name -> task
        self.images: dict[str, int] = {name: 12 + 3 * place for place, name in enumerate(self.classes)}
        self.version = max(self.classes.values(), default=0)
        self.history = [self._entry(number) for number in range(1, self.version + 1)]
        self.token: str | None = None
        self.protect_reading = False
        self.limits = {"body_bytes": 32_000_000, "images": 64, "pixels": 50_000_000}
        self.fail: dict[str, tuple[int, str]] = {}  # path -> status and message
        self.delay = 0.0  # seconds before every answer
        self.step_seconds = 0.01
        self.steps = 12
        self.hold: str | None = None  # a phase in which a learn stays until this is None again
        self.learn_fails: str | None = None
        self.jobs: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str]] = []
        self.uploads: list[list[tuple[str, str]]] = []  # of each learn: file names with classes

    def _entry(self, number: int) -> dict[str, Any]:
        names = [name for name, task in self.classes.items() if task == number]
        accuracy = round(0.97 - 0.012 * number, 4)
        return {
            "version": number, "date": DATE.format(min(number, 9)), "action": "learn",
            "classes": names, "accuracy": accuracy,
        }  # fmt: skip

    def model(self) -> dict[str, Any]:
        """Return what `GET /v1/model` says."""
        tasks = sorted(set(self.classes.values()))
        return {
            "name": "workshop", "version": self.version, "empty": not self.classes,
            "classes": [
                {"name": name, "task": task, "images": self.images[name], "exemplars": 8, "accuracy": 0.96}
                for name, task in self.classes.items()
            ],
            "tasks": [
                {"number": task, "classes": [name for name, of in self.classes.items() if of == task],
                 "learned": DATE.format(min(task, 9))}
                for task in tasks
            ],
            "history": self.history,
            "versions": [
                {"version": number, "date": DATE.format(min(max(number, 1), 9)), "current": number == self.version}
                for number in range(max(0, self.version - 1), self.version + 1)
            ],
            "backbone": "efficientnet-lite0", "method": "lda", "image_size": 224, "unknown": True,
        }  # fmt: skip

    def prediction(self, name: str, place: int, mode: str) -> dict[str, Any]:
        """Return what the model says about one image."""
        stem = name.rsplit(".", 1)[0].partition("-")[0]
        entry: dict[str, Any] = {"name": name, "error": None, "known": True, "task": 1, "group": None}
        if stem == "broken":
            return {**entry, "class": None, "known": False, "probability": None, "top": [], "task": None,
                    "error": "The file is not an image that can be read."}  # fmt: skip
        names = sorted(self.classes, key=lambda known: (known != stem, known)) or ["unknown"]
        right = stem in self.classes and not (mode == "alone" and name.startswith("mug-07"))
        order = names if right or stem == "odd" else [*names[1:], names[0]]
        share = 0.41 if stem == "odd" else 0.93 - 0.04 * (place % 5)
        shares = [share, (1 - share) * 0.7, (1 - share) * 0.3]
        top = [{"class": known, "probability": value} for known, value in zip(order, shares, strict=False)]
        entry |= {"class": order[0], "probability": share, "task": self.classes.get(order[0]), "top": top}
        if stem == "odd" or not self.classes:
            entry |= {"class": "unknown", "known": False}
        if mode == "stream":
            entry["group"] = 1 + place // 4
        return entry

    def learn(self, pairs: list[tuple[str, str]]) -> dict[str, Any]:
        """Start a job."""
        job = {
            "id": f"job-{len(self.jobs) + 1}", "kind": "learn", "state": "running", "phase": "staging", "epoch": 0,
            "epochs": 8, "images_done": 0, "images_total": len(pairs), "images_per_second": 31.0, "seconds_left": None,
            "progress": 0.0, "created": DATE.format(5), "finished": None, "error": None, "resumed": False,
            "result": None,
        }  # fmt: skip
        self.jobs.insert(0, job)
        self.uploads.append(pairs)
        return job

    def advance(self, job: dict[str, Any], step: int) -> None:
        """Bring a job one step on; the last one changes the model."""
        if job["state"] != "running":
            return
        share = (step + 1) / self.steps
        phase = PHASES[min(len(PHASES) - 1, int(share * len(PHASES)))]
        done = round(share * job["images_total"])
        job |= {"progress": share, "phase": phase, "images_done": done, "epoch": round(8 * share),
                "seconds_left": (self.steps - step) * max(self.step_seconds, 1)}  # fmt: skip
        if share < 1:
            return
        if self.learn_fails:
            job |= {"state": "failed", "error": self.learn_fails, "finished": DATE.format(6)}
            return
        job |= {"state": "done", "phase": "done", "seconds_left": 0, "finished": DATE.format(6)}
        job["result"] = self._learned(self.uploads[-1])

    def _learned(self, pairs: list[tuple[str, str]]) -> dict[str, Any]:
        names = sorted({label for _, label in pairs})
        before = dict.fromkeys(self.classes, 0.96)
        new = [name for name in names if name not in self.classes]
        self.version += 1
        task = max(self.classes.values(), default=0) + 1
        for name in names:
            self.classes.setdefault(name, task)
            self.images[name] = self.images.get(name, 0) + sum(label == name for _, label in pairs)
        self.history.append({**self._entry(self.version), "classes": names})
        after = {name: 0.95 if name in before else 0.98 for name in self.classes}
        return {
            "version": self.version, "new_classes": new, "refreshed_classes": [n for n in names if n in before],
            "images": {name: sum(label == name for _, label in pairs) for name in names}, "duplicates": 1,
            "unreadable": [], "notes": [], "before": {"accuracy": 0.96 if before else None, "classes": before},
            "after": {"accuracy": 0.958, "classes": after}, "forgotten": dict.fromkeys(before, 0.01), "seconds": 8.1,
        }  # fmt: skip


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": "refused", "message": message, "request_id": "r1"}}, status)


def application(fake: FakeService) -> FastAPI:
    """Return the application that answers from `fake`."""
    app = FastAPI()

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        path = request.url.path
        fake.requests.append((request.method, path))
        await asyncio.sleep(fake.delay if path.startswith("/v1") else 0)
        change = request.method == "POST" and path != "/v1/predict"
        guarded = change or (fake.protect_reading and path.startswith("/v1") and path != "/v1/session")
        if fake.token and guarded and request.headers.get("authorization") != f"Bearer {fake.token}":
            return _error(401, "This needs the token of the server.")
        if path in fake.fail:
            return _error(*fake.fail[path])
        response: Response = await call_next(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    _page_routes(app)
    _model_routes(app, fake)
    _job_routes(app, fake)
    return app


def _page_routes(app: FastAPI) -> None:
    @app.get("/")
    def page() -> Response:
        return static("index.html")

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return Response((STATIC / name).read_bytes(), media_type=TYPES[name.rsplit(".", 1)[1]])

    @app.get("/healthz")
    def health() -> dict[str, str]:
        return {"status": "ok"}


def _model_routes(app: FastAPI, fake: FakeService) -> None:
    @app.get("/v1/session")
    def session() -> dict[str, Any]:
        needed = {"read": bool(fake.token) and fake.protect_reading, "change": bool(fake.token)}
        return {"token_required": needed, "version": "0.2.0", "limits": fake.limits}

    @app.get("/v1/model")
    def model() -> dict[str, Any]:
        return fake.model()

    @app.get("/v1/confusion")
    def confusion() -> dict[str, Any]:
        names = list(fake.classes)
        counts = [[11 if row == column else int(abs(row - column) == 1) for column in range(len(names))]
                  for row in range(len(names))]  # fmt: skip
        return {"classes": names, "counts": counts or None, "source": "leave-one-out"}

    @app.get("/v1/classes/{name}")
    def one(name: str) -> dict[str, Any]:
        urls = [{"id": str(number), "url": f"/v1/classes/{name}/exemplars/{number}"} for number in range(8)]
        return {"name": name, "task": 1, "images": 12, "accuracy": 0.96, "exemplars": urls}

    @app.get("/v1/classes/{name}/exemplars/{number}")
    def exemplar(name: str, number: int) -> Response:
        return Response(jpeg(name if name in KINDS else "mug", number, 96), media_type="image/jpeg")

    @app.post("/v1/classes/{name}/{action}")
    async def edit(name: str, action: str, request: Request) -> dict[str, Any]:
        body = await request.json()
        task = fake.classes.pop(name)
        if action == "rename":
            fake.classes[body["to"]] = task
            fake.images[body["to"]] = fake.images.pop(name)
        fake.version += 1
        fake.history.append({**fake._entry(fake.version), "action": action, "classes": [name]})
        return {"version": fake.version, "message": f"{action}: {name}"}

    @app.post("/v1/rollback")
    async def rollback(request: Request) -> dict[str, Any]:
        fake.version = (await request.json())["version"]
        fake.classes = {name: task for name, task in fake.classes.items() if task <= fake.version}
        fake.history = fake.history[: fake.version]
        return {"version": fake.version, "message": f"The model is back at version {fake.version}."}


async def _pairs(request: Request) -> list[tuple[str, str]]:
    async with request.form() as form:
        names = [part.filename or "" for part in form.getlist("images") if isinstance(part, UploadFile)]
        labels = [str(label) for label in form.getlist("classes")] or [""] * len(names)
    return list(zip(names, labels, strict=True))


def _job_routes(app: FastAPI, fake: FakeService) -> None:
    @app.post("/v1/predict")
    async def predict(request: Request, mode: str = "alone") -> dict[str, Any]:
        names = [name for name, _ in await _pairs(request)]
        found = [fake.prediction(name, place, mode) for place, name in enumerate(names)]
        return {"model_version": fake.version, "predictions": found}

    @app.post("/v1/check")
    async def check(request: Request) -> dict[str, Any]:
        states = {"broken": ("unreadable", "The file is cut off."), "known": ("known", "The model has it as mug.")}
        stems = [(name, *states.get(name.partition("-")[0], ("ok", None))) for name, _ in await _pairs(request)]
        return {"images": [{"name": name, "state": state, "reason": reason} for name, state, reason in stems]}

    @app.post("/v1/learn", status_code=202)
    async def learn(request: Request) -> dict[str, Any]:
        return {"job": fake.learn(await _pairs(request))}

    @app.get("/v1/jobs")
    def jobs() -> dict[str, Any]:
        return {"jobs": fake.jobs}

    @app.get("/v1/jobs/{job_id}")
    def job_of(job_id: str) -> dict[str, Any]:
        return next(job for job in fake.jobs if job["id"] == job_id)

    @app.post("/v1/jobs/{job_id}/cancel")
    def cancel(job_id: str) -> dict[str, Any]:
        job = job_of(job_id)
        job |= {"state": "cancelled", "finished": DATE.format(6)}
        return job

    @app.get("/v1/jobs/{job_id}/events")
    def events(job_id: str) -> StreamingResponse:
        return StreamingResponse(_events(fake, job_of(job_id)), media_type="text/event-stream")


async def _events(fake: FakeService, job: dict[str, Any]) -> AsyncIterator[str]:
    for step in range(round(job["progress"] * fake.steps), fake.steps):
        if job["state"] != "running":
            break
        await asyncio.sleep(fake.step_seconds)
        fake.advance(job, step)
        yield f"event: progress\ndata: {json.dumps(job)}\n\n"
        while job["state"] == "running" and fake.hold == job["phase"]:
            await asyncio.sleep(0.02)
    yield f"event: end\ndata: {json.dumps(job)}\n\n"


class Running:
    """A server in a thread, at a free port, that can be stopped and started again."""

    def __init__(self, fake: FakeService) -> None:
        self.fake = fake
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start, at the same port as before if there was one."""
        config = uvicorn.Config(application(self.fake), port=self.port, log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Stop, and wait until the port is closed."""
        self._server.should_exit = True
        self._thread.join()

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def running(fake: FakeService) -> Iterator[Running]:
    """Run a fake service for the time of a block."""
    server = Running(fake)
    try:
        yield server
    finally:
        server.stop()
