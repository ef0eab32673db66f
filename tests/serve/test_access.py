"""Who may do what, and how much: tokens, names of the service, other sites, rates, bodies, headers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from itaml.errors import UsageError
from itaml.serve.access_rules import AccessRules, host_name
from itaml.serve.api_errors import ApiError
from itaml.serve.http_protocol import send_at_once
from itaml.serve.launch import _listening
from itaml.serve.rate_limit import RateLimit
from itaml.serve.service_options import ServiceOptions, check_exposure, check_token, read_token, staging_of
from serve_support import Running, digit_files, form, noise

Start = Callable[..., Running]
TOKEN = "a-token-of-the-tests"


def options(**values: object) -> ServiceOptions:
    return ServiceOptions.model_validate({"model": "model", "staging": "staging", **values})


def refused(rules: AccessRules, method: str, path: str, **headers: str) -> int:
    """Return the status with which a request is refused, 0 if it is not."""
    given = {"host": "localhost:8000", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        rules.check(method, path, {name.encode(): value.encode() for name, value in given.items()})
    except ApiError as error:
        return error.status
    return 0


def test_a_token_guards_changes_and_with_protect_reading_everything() -> None:
    rules = AccessRules(options(token=TOKEN))
    right = f"Bearer {TOKEN}"
    for path in ("/v1/learn", "/v1/check", "/v1/rollback", "/v1/classes/a/forget", "/v1/jobs/x/cancel"):
        assert refused(rules, "POST", path) == 401
        for wrong in ("Bearer nonsense", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer "):
            assert refused(rules, "POST", path, authorization=wrong) == 401
        assert refused(rules, "POST", path, authorization=right) == 0
        assert refused(rules, "POST", path, authorization=right, origin="http://evil.example") == 0
    assert refused(rules, "POST", "/v1/predict") == 0
    assert refused(rules, "GET", "/v1/model") == 0
    strict = AccessRules(options(token=TOKEN, protect_reading=True))
    for path in ("/v1/model", "/v1/jobs", "/metrics", "/openapi.json", "/docs"):
        assert refused(strict, "GET", path) == 401
        assert refused(strict, "GET", path, authorization=right) == 0
    assert refused(strict, "POST", "/v1/predict") == 401
    for path in ("/", "/static/page.js", "/v1/session", "/healthz", "/readyz"):
        assert refused(strict, "GET", path) == 0


def test_without_a_token_pages_of_other_sites_cannot_change_the_model() -> None:
    rules = AccessRules(options())
    assert refused(rules, "POST", "/v1/learn") == 0
    assert refused(rules, "POST", "/v1/learn", origin="http://localhost:8000") == 0
    assert refused(rules, "POST", "/v1/learn", origin="http://localhost:9000") == 403
    assert refused(rules, "POST", "/v1/learn", origin="http://evil.example") == 403
    assert refused(rules, "POST", "/v1/learn", origin="null") == 403
    assert refused(rules, "POST", "/v1/learn", sec_fetch_site="cross-site") == 403
    assert refused(rules, "GET", "/v1/model", origin="http://evil.example") == 0
    friendly = AccessRules(options(cors_origins=("http://friend.example",)))
    assert refused(friendly, "POST", "/v1/learn", origin="http://friend.example") == 0
    assert refused(friendly, "POST", "/v1/learn", origin="http://evil.example") == 403


def test_a_local_service_answers_to_its_own_names_only() -> None:
    """A page of another site could otherwise reach it by a name that leads to this machine."""
    rules = AccessRules(options())
    for host in ("localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LOCALHOST"):
        assert refused(rules, "GET", "/v1/model", host=host) == 0
    for host in ("evil.example", "evil.example:8000", "", "localhost.evil.example"):
        assert refused(rules, "GET", "/v1/model", host=host) == 400
    named = AccessRules(options(allowed_hosts=("photos.example.org",)))
    assert refused(named, "GET", "/v1/model", host="photos.example.org") == 0
    assert refused(AccessRules(options(host="0.0.0.0", token=TOKEN)), "GET", "/v1/model", host="anything") == 0
    assert host_name("[2001:db8::1]:80") == "2001:db8::1"


def test_other_machines_are_let_in_with_a_token_only() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org"):
        with pytest.raises(UsageError, match="--token"):
            check_exposure(options(host=host), insecure=False)
        check_exposure(options(host=host), insecure=True)
        check_exposure(options(host=host, token=TOKEN), insecure=False)
    for host in ("127.0.0.1", "::1", "localhost", "127.1.2.3"):
        check_exposure(options(host=host), insecure=False)


def test_tokens_are_read_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    assert read_token(tmp_path / "token") == TOKEN
    assert TOKEN not in repr(options(token=TOKEN))
    for wrong in ("short", "with a space in it", "ümlaut-token", ""):
        with pytest.raises(UsageError, match="8 or more"):
            check_token(wrong)
    with pytest.raises(UsageError, match="cannot be read"):
        read_token(tmp_path / "missing")
    assert staging_of(tmp_path / "pets") == tmp_path / "pets.serve"


def test_a_client_that_asks_too_often_waits() -> None:
    clock = [0.0]
    limit = RateLimit(2.0, clock=lambda: clock[0])
    for _ in range(20):  # ten seconds' worth at once
        limit.check("one")
    with pytest.raises(ApiError, match="2 requests per second") as error:
        limit.check("one")
    assert (error.value.status, error.value.headers) == (429, {"Retry-After": "1"})
    limit.check("another")
    clock[0] = 0.5
    limit.check("one")
    with pytest.raises(ApiError):
        limit.check("one")
    for _ in range(1000):
        RateLimit(0).check("one")


def test_limits_of_a_running_service(start: Start) -> None:
    service = start(
        token=TOKEN, limits={"rate": 3.0, "body_bytes": 4000, "images": 3, "upload_bytes": 3000, "pixels": 99}
    )
    client = service.client
    images = digit_files(0, 4)
    assert client.post("/v1/learn", **form(images, **{"class": "a"})).status_code == 401
    head = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/v1/session").json()["token_required"] == {"read": False, "change": True}
    many = client.post("/v1/predict", **form(images))
    assert (many.status_code, many.json()["error"]["code"]) == (413, "too_many_images")
    large = client.post("/v1/predict", **form([bytes(5000)]))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "too_large")

    def chunks() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
        for _ in range(8):
            yield bytes(1000)

    chunked = client.post("/v1/predict", content=chunks(), headers={"content-type": "multipart/form-data; boundary=x"})
    assert chunked.status_code == 413
    upload = client.post("/v1/learn", headers=head, **form([bytes(4000)], **{"class": "a"}))
    assert upload.status_code == 413
    assert list(service.service.jobs.jobs.path.iterdir()) == []  # nothing is left of it
    small = client.post("/v1/predict", **form(digit_files(0, 1))).json()["predictions"][0]
    assert small["error"] is None
    pixels = client.post("/v1/predict", **form([noise(0, side=10)])).json()["predictions"][0]
    assert pixels["error"] == "cannot be read: 10 x 10 pixels are more than the limit of 99"
    answers = [client.get("/v1/session").status_code for _ in range(40)]
    assert set(answers) == {200, 429}
    assert client.get("/healthz").status_code == 200


def test_every_response_has_security_headers_and_a_request_id(reader: httpx.Client) -> None:
    for path in ("/", "/v1/model", "/v1/nothing", "/static/nothing", "/docs", "/openapi.json"):
        response = reader.get(path, headers={"X-Request-Id": "mine-1.2_3"})
        assert response.headers["x-request-id"] == "mine-1.2_3"
        assert "default-src 'self'" in response.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "server" not in response.headers
        assert "access-control-allow-origin" not in response.headers
    assert reader.get("/healthz", headers={"X-Request-Id": "a b"}).headers["x-request-id"] != "a b"
    assert reader.get("/v1/model", headers={"host": "evil.example"}).status_code == 400
    wrong = reader.delete("/v1/model")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")


def test_another_origin_may_be_allowed(start: Start) -> None:
    client = start(cors_origins=("http://friend.example",)).client
    ask = {"Origin": "http://friend.example", "Access-Control-Request-Method": "POST"}
    response = client.options("/v1/predict", headers=ask)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "http://friend.example"
    other = client.get("/v1/model", headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in other.headers


def test_a_head_without_end_is_cut_off(reader: httpx.Client) -> None:
    for line in (b"X-Long: " + b"x" * (200 << 10), b"X-Many: x\r\n" * 20_000, b"x" * (200 << 10)):
        with socket.create_connection((reader.base_url.host, reader.base_url.port or 80)) as connection:
            connection.settimeout(30)
            answer = b""
            with contextlib.suppress(OSError):  # the service closes the connection while it is written to
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + line)
                answer = connection.recv(1000)
            assert b" 200 " not in answer
    assert reader.get("/healthz").status_code == 200


def test_a_head_that_comes_too_slowly_is_cut_off(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("itaml.serve.http_protocol.HEAD_SECONDS", 0.2)
    client = start().client
    for begun in (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"):
        with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as connection:
            connection.settimeout(30)
            connection.sendall(begun)
            assert connection.recv(1000) == b""  # closed without an answer
    assert client.get("/healthz").status_code == 200


def test_head_requests_have_the_headers_of_get_and_no_body(reader: httpx.Client) -> None:
    for path in ("/", "/healthz", "/v1/model", "/v1/nothing"):
        full, head = reader.get(path), reader.head(path)
        assert (head.status_code, head.content) == (full.status_code, b"")
        for name in ("content-type", "content-length", "content-security-policy"):
            assert head.headers[name] == full.headers[name]
    assert reader.head("/v1/predict").status_code == 405


def test_responses_are_sent_at_once() -> None:
    """On the listening socket that `itaml serve` opens, for which asyncio does not do it."""
    with _listening(options(port=0)) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            transport = asyncio.Transport(extra={"socket": accepted})
            send_at_once(transport)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    send_at_once(asyncio.Transport(extra={}))
