"""deploy/nginx.conf in a real nginx on the loopback address: TLS, predictions, learns and events through the proxy.

Skipped where nginx or openssl is not installed.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from itaml.modelstore.lock import locked
from serve_support import PATIENCE, Running, digit_files, form

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "nginx.conf"
NAME = "photos.example.org"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin")
Start = Callable[..., Running]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        NGINX is None or shutil.which("openssl") is None,
        reason="nginx or openssl is not installed, so that the example is not tried",
    ),
]


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def certificate(folder: Path) -> None:
    """Write a certificate that nobody has signed, as the two files of the example."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
    words += ["-addext", f"subjectAltName=DNS:{NAME}"]
    subprocess.run(
        [*words, "-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"], check=True, capture_output=True
    )


def configuration(folder: Path, service: int, plain: int, secure: int) -> Path:
    """Write a main file around the example, in which only ports and the place of the certificate are others."""
    text = EXAMPLE.read_text(encoding="utf-8")
    text = text.replace("server 127.0.0.1:8000;", f"server 127.0.0.1:{service};")
    text = text.replace(f"/etc/letsencrypt/live/{NAME}", str(folder))
    text = re.sub(r"listen \[::\]:\d+[^;]*;", "", text)  # there may be no IPv6
    text = text.replace("listen 80;", f"listen 127.0.0.1:{plain};").replace(
        "listen 443 ", f"listen 127.0.0.1:{secure} "
    )
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    path = folder / "main.conf"
    path.write_text(
        f"pid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log {folder}/access.log;\n{places}{text}\n}}\n"
    )
    return path


@pytest.fixture
def proxied(start: Start, tmp_path: Path) -> Iterator[tuple[Running, httpx.Client, httpx.Client]]:
    """Start a service and nginx in front of it; return it, a client by TLS and one without."""
    service = start(allowed_hosts=(NAME,))
    folder = tmp_path / "nginx"
    folder.mkdir()
    certificate(folder)
    plain, secure = free_ports(2)
    file = configuration(folder, service.client.base_url.port or 80, plain, secure)
    command = [str(NGINX), "-c", str(file), "-g", "daemon off;"]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    trust = ssl.create_default_context(cafile=str(folder / "fullchain.pem"))
    trust.check_hostname = False  # the address is a number; the certificate itself is checked
    head = {"Host": NAME}
    with (
        httpx.Client(base_url=f"https://127.0.0.1:{secure}", verify=trust, headers=head, timeout=PATIENCE) as client,
        httpx.Client(base_url=f"http://127.0.0.1:{plain}", headers=head, timeout=PATIENCE) as unencrypted,
    ):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                client.get("/healthz")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield service, client, unencrypted
    process.terminate()
    process.wait(PATIENCE)


def test_the_example_for_nginx_works(proxied: tuple[Running, httpx.Client, httpx.Client], model: Path) -> None:
    service, client, unencrypted = proxied
    moved = unencrypted.get("/v1/model")
    assert (moved.status_code, moved.headers["location"]) == (301, f"https://{NAME}/v1/model")
    images = digit_files(1, 3, skip=30)
    found = client.post("/v1/predict", **form(images))
    assert found.status_code == 200, found.text
    assert found.json() == service.client.post("/v1/predict", **form(images)).json()
    assert "max-age" in found.headers["strict-transport-security"]
    assert "content-security-policy" in found.headers
    assert client.get("/metrics").status_code == 403
    assert client.get("/").status_code == 200
    with locked(model / "lock"):  # so that the job cannot end before its first event is here
        job = client.post("/v1/learn", **form(digit_files(4, 6), **{"class": "digit 4"})).json()["job"]["id"]
        with client.stream("GET", f"/v1/jobs/{job}/events") as events:
            first = next(line for line in events.iter_lines() if line.startswith("data: "))
            assert json.loads(first.removeprefix("data: "))["id"] == job
    assert service.wait(job)["state"] == "done"
    assert client.get("/v1/model").json()["version"] == 3
