"""A service in a process of its own, for benchmarks: start, wait until it is ready, ask, kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from serve_client import BOUNDARY

PATIENCE = 300.0  # seconds
PAUSE = 0.05  # between two questions; they are counted, so that a benchmark that was stopped for a while is not late
LEARN_TYPE = f"multipart/form-data; boundary={BOUNDARY.decode()}"


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def learn_body(images: list[bytes], label: str) -> bytes:
    """Return the body of a request that teaches images of a class."""
    parts = [
        b'--%s\r\nContent-Disposition: form-data; name="images"; filename="%d.jpg"\r\n\r\n%s\r\n'
        % (BOUNDARY, number, data)
        for number, data in enumerate(images)
    ]
    field = b'--%s\r\nContent-Disposition: form-data; name="class"\r\n\r\n%s\r\n' % (BOUNDARY, label.encode())
    return field + b"".join(parts) + b"--%s--\r\n" % BOUNDARY


class ServiceProcess:
    """`itaml serve` as a user starts it."""

    def __init__(self, model: Path, *options: str) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "itaml", "serve", str(model), "--port", str(self.port), "--rate", "0"]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def ready(self) -> None:
        """Wait until the model is loaded."""
        for _ in range(int(PATIENCE / PAUSE)):
            try:
                if self.get("/readyz")["status"] == "ok":
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(PAUSE)
            if self.process.poll() is not None:
                raise RuntimeError(f"the service ended with code {self.process.returncode}")
        raise RuntimeError("the service does not become ready")

    def get(self, path: str) -> Any:
        """Return the JSON at an address."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as response:
            return json.loads(response.read())

    def post(self, path: str, body: Any) -> Any:
        """Send JSON; return the answer."""
        data, kind = json.dumps(body).encode(), "application/json"
        return self._send(path, data, kind)

    def learn(self, images: list[bytes], label: str) -> dict[str, Any]:
        """Send images to learn; return the job."""
        job: dict[str, Any] = self._send("/v1/learn", learn_body(images, label), LEARN_TYPE)["job"]
        return job

    def _send(self, path: str, data: bytes, kind: str) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": kind})
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.loads(response.read())

    def wait(self, job: str, *states: str) -> dict[str, Any]:
        """Wait for a state of a job, or for its end."""
        wanted = states or ("done", "failed", "cancelled")
        for _ in range(int(PATIENCE / PAUSE)):
            found: dict[str, Any] = self.get(f"/v1/jobs/{job}")
            if found["state"] in wanted:
                return found
            time.sleep(PAUSE)
        raise RuntimeError(f"the job does not end: {found}")

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Return the resident memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def kill(self) -> None:
        """Kill the process at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)
