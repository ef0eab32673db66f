"""A service for tests: in a thread of this process, over a tiny model, with a client."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from itaml.modelstore.image_classifier import ImageClassifier
from modelstore_support import Bytes, digits_of

PATIENCE = 60.0  # seconds


def png(pixels: Bytes) -> bytes:
    """Return pixels as a file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def digit_files(label: int, count: int = 6, *, skip: int = 0) -> list[bytes]:
    """Return images of a digit as files."""
    return [png(pixels) for pixels in digits_of((label,), limit=count, skip=skip)[0]]


def noise(seed: int = 0, side: int = 8) -> bytes:
    """Return an image of noise as a file."""
    return png(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


def make_model(path: Path) -> Path:
    """Make a model that knows `digit 0` and `digit 1` of a first task, `digit 2` and `digit 3` of a second."""
    classifier = ImageClassifier.create(path, method="lda", backbone="pixels", image_size=8, memory=200)
    for labels in ((0, 1), (2, 3)):
        images, digits = digits_of(labels, limit=20)
        classifier.learn([Image.fromarray(one) for one in images], [f"digit {digit}" for digit in digits])
    return path


def form(images: list[bytes], **fields: str | list[str]) -> dict[str, Any]:
    """Return the arguments of a multipart request."""
    files: list[tuple[str, Any]] = [("images", (f"{number}.png", data)) for number, data in enumerate(images)]
    return {"files": files, "data": fields}


@dataclass(eq=False)
class Running:
    """A service in a thread."""

    server: Any
    thread: threading.Thread
    client: httpx.Client
    service: Any

    def stop(self) -> None:
        """Stop it gracefully."""
        if self.thread.is_alive():
            self.client.close()
            self.service.stopping.set()
            self.server.should_exit = True
            self.thread.join(PATIENCE)
            assert not self.thread.is_alive(), "the service does not stop"

    def wait(self, job: str, *states: str) -> dict[str, Any]:
        """Wait until a job is in one of some states (over, if none is given); return it."""
        wanted = states or ("done", "failed", "cancelled")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found: dict[str, Any] = self.client.get(f"/v1/jobs/{job}").json()
            if found["state"] in wanted:
                return found
            time.sleep(0.05)
        raise AssertionError(f"the job is {found}")

    def learn(self, images: list[bytes], **fields: str | list[str]) -> dict[str, Any]:
        """Teach images and wait; return the job."""
        response = self.client.post("/v1/learn", **form(images, **fields))
        assert response.status_code == 202, response.text
        return self.wait(response.json()["job"]["id"])


def running(model: Path, **options: Any) -> Running:
    """Start a service over a model and wait until it is ready."""
    import uvicorn

    from itaml.serve.application import build_application
    from itaml.serve.http_protocol import LimitedHttpProtocol
    from itaml.serve.service_options import Limits, ServiceOptions

    limits = Limits(**{"rate": 0, **options.pop("limits", {})})
    given = ServiceOptions(model=model, staging=model.with_name("staging"), limits=limits, **options)
    app = build_application(given)
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        http=LimitedHttpProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + PATIENCE
    while not server.started and time.monotonic() < end:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE)
    while client.get("/readyz").status_code != 200 and time.monotonic() < end:
        time.sleep(0.02)
    return Running(server, thread, client, app.service)
