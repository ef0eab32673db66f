"""`itaml serve`: what it refuses, what it prints, several processes, and how it ends."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from itaml.cli.main import main
from itaml.errors import MissingExtraError
from itaml.serve import launch
from itaml.serve.access_log import JsonLines
from serve_support import PATIENCE, digit_files, form


def failed(*words: object) -> str:
    """Run the command in this process; return what it says when it fails."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), pytest.raises(SystemExit) as ended:
        main(["serve", *map(str, words)])
    assert ended.value.code in (1, 2)
    return said.getvalue()


def test_wrong_requests_are_refused_in_one_sentence(model: Path, tmp_path: Path) -> None:
    assert "--create" in failed(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    assert "--token" in failed(model, "--host", "0.0.0.0")
    assert "not both" in failed(model, "--token", "12345678", "--token-file", tmp_path / "x")
    assert "8 or more" in failed(model, "--token", "short")
    assert "--protect-reading needs" in failed(model, "--protect-reading")
    assert "cannot be read" in failed(model, "--token-file", tmp_path / "missing")
    assert "cannot be written" in failed(model, "--staging", "/dev/null/x")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "give another --port" in failed(model, "--port", taken.getsockname()[1])


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "PACKAGES", ("no_such_package",))
    with pytest.raises(MissingExtraError, match=r"itaml\[serve\]"):
        launch.check_installed()


def test_logs_are_lines_of_json() -> None:
    import logging

    record = logging.LogRecord("itaml.x", logging.INFO, "f", 1, "a %s\nb", ("name",), None)
    record.itaml_fields = {"status": 200}
    line = JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["message"], found["status"], found["level"]) == ("a name\nb", 200, "info")


@pytest.fixture
def command(model: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """Start the command with two processes; return it and a client."""
    process = subprocess.Popen(
        [sys.executable, "-m", "itaml", "serve", str(model), "--port", "0", "--workers", "2", "--rate", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    address = re.fullmatch(r".* is served at (http://127\.0\.0\.1:\d+)/ \(stop with Ctrl-C\)\n", line)
    assert address is not None, line
    client = httpx.Client(base_url=address[1], timeout=4 * PATIENCE, headers={"Connection": "close"})
    yield process, client
    client.close()
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.mark.slow
def test_two_processes_share_a_model_and_end_gracefully(
    command: tuple[subprocess.Popen[str], httpx.Client], model: Path
) -> None:
    process, client = command
    end = time.monotonic() + 4 * PATIENCE
    while client.get("/readyz").status_code != 200 and time.monotonic() < end:
        time.sleep(0.1)
    job = client.post("/v1/learn", **form(digit_files(4, 6), **{"class": "digit 4"})).json()["job"]["id"]
    while client.get(f"/v1/jobs/{job}").json()["state"] != "done" and time.monotonic() < end:
        time.sleep(0.1)
    versions = {client.get("/v1/model").json()["version"] for _ in range(20)}
    assert versions == {3}
    for _ in range(20):
        assert client.post("/v1/predict", **form(digit_files(4, 1, skip=30))).status_code == 200
    time.sleep(2.5)  # the processes write their counters once a second
    assert "itaml_images_total 20\n" in client.get("/metrics").text
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=4 * PATIENCE)
    assert process.returncode in (0, -signal.SIGTERM)
    lines = [json.loads(line) for line in log.splitlines()]
    answered = [line for line in lines if line["logger"] == "itaml.serve.access"]
    assert {line["status"] for line in answered} <= {200, 202, 503}
    assert len({line["request_id"] for line in answered}) == len(answered)
    assert not Path(f"/proc/{process.pid}").exists() or os.name != "posix"
