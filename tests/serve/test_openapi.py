"""The OpenAPI document is valid and complete, and the service keeps to it whatever it is sent."""

from __future__ import annotations

import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from serve_support import Running, running

schemathesis = pytest.importorskip("schemathesis")

REFUSED = "/v1/export.onnx"  # 501 is a right answer of it, and an error of the server for schemathesis


@pytest.fixture(scope="module")
def service(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = running(
        Path(shutil.copytree(original, tmp_path_factory.mktemp("openapi") / "digits")),
        limits={"waiting_jobs": 1, "seconds": 30.0},
    )
    yield found
    found.stop()


def tried(service: Running, examples: int) -> Counter[int]:
    """Send generated requests to every operation, valid and invalid ones; return how often each status came back.

    That valid requests succeed is not checked: the schema cannot say that a file must be an image, nor which classes
    there are.
    """
    from schemathesis import GenerationMode
    from schemathesis.checks import load_all_checks
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    load_all_checks()
    base = str(service.client.base_url)
    schema = schemathesis.openapi.from_url(f"{base}/openapi.json")
    statuses: Counter[int] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path == REFUSED:
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @seed(0)
            @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def run(case: Any) -> None:
                response = case.call(base_url=base)
                statuses[response.status_code] += 1
                case.validate_response(response, excluded_checks=[positive_data_acceptance])

            try:
                run()
            except Exception as error:
                if type(error).__name__ != "Unsatisfiable":  # nothing can be wrong in a request without parameters
                    raise
    return statuses


def test_the_document_is_complete(service: Running) -> None:
    document = service.client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            assert {"400", "503"} <= set(operation["responses"])
            for status, response in operation["responses"].items():
                if status >= "400" and path != "/readyz":
                    schema = response["content"]["application/json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/ErrorResponse"}
    page = service.client.get("/docs")
    assert "POST /v1/predict" in page.text
    assert "http://" not in page.text.replace("https://", "http://")


def test_generated_requests_get_documented_answers(service: Running) -> None:
    statuses = tried(service, examples=5)
    assert sum(statuses.values()) >= 100
    assert max(statuses) <= 503
    assert not {500, 502, 504} & set(statuses)


@pytest.mark.slow
def test_two_thousand_generated_requests_get_documented_answers(service: Running) -> None:
    statuses = tried(service, examples=100)
    assert sum(statuses.values()) >= 2000
    assert not {500, 502, 504} & set(statuses)


def test_a_client_that_goes_away_does_not_matter(service: Running) -> None:
    address = service.client.base_url
    with socket.create_connection((address.host, address.port or 80)) as connection:
        connection.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n")
        connection.sendall(b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n")
    assert service.client.get("/healthz").json() == {"status": "ok"}
