"""Prediction over HTTP: the same as in Python, in order, with an error for each image that cannot be read."""

from __future__ import annotations

import base64
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from itaml.learners.frozen import FrozenLearner
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.serve.served_model import FEATURES, load
from serve_support import digit_files, form, noise


def predicted(client: httpx.Client, images: list[bytes], **query: Any) -> list[dict[str, Any]]:
    response = client.post("/v1/predict", params=query, **form(images))
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["predictions"]
    return found


@pytest.mark.parametrize(("mode", "group"), [("alone", "each"), ("continuum", "all"), ("stream", "stream")])
def test_predictions_are_those_of_python(
    reader: httpx.Client, original: Path, tmp_path: Path, mode: str, group: Any
) -> None:
    images = [data for label in (0, 2, 3) for data in digit_files(label, 4, skip=30)]
    files = [tmp_path / f"{number}.png" for number in range(len(images))]
    for file, data in zip(files, images, strict=True):
        file.write_bytes(data)
    expected = ImageClassifier.open(original).predict([str(file) for file in files], group=group, top=3)
    found = predicted(reader, images, mode=mode)
    assert [one["class"] for one in found] == [one.label for one in expected]
    assert [one["group"] for one in found] == [(one.group or 0) + 1 for one in expected]
    assert [one["task"] for one in found] == [(one.task or 0) + 1 for one in expected]
    assert [one["known"] for one in found] == [one.known for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one["probability"] == pytest.approx(other.confidence, abs=1e-6)
        assert one["unknown_score"] == pytest.approx(other.unknown_score, abs=1e-6)
        assert [entry["class"] for entry in one["top"]] == [name for name, _ in other.top]


def test_an_image_that_cannot_be_read_has_an_error_and_keeps_its_place(reader: httpx.Client) -> None:
    good = digit_files(1, 2, skip=30)
    found = predicted(reader, [good[0], b"not an image", good[1], b""])
    assert [one["name"] for one in found] == ["0.png", "1.png", "2.png", "3.png"]
    assert [one["error"] is None for one in found] == [True, False, True, False]
    assert found[1]["error"] == "cannot be read: not an image in a known format"
    assert found[3]["error"] == "cannot be read: the file is empty"
    assert found[1]["class"] is None
    assert not found[1]["known"]
    assert found[1]["unknown_score"] is None
    assert [one["group"] for one in found] == [1, None, 2, None]


def test_json_with_base64_and_data_urls_is_the_same(reader: httpx.Client) -> None:
    images = digit_files(2, 2, skip=30)
    words = [base64.b64encode(data).decode() for data in images]
    body = {"images": [words[0], f"data:image/png;base64,{words[1]}", "!!!", "data:image/png,abc"], "top": 2}
    response = reader.post("/v1/predict", json=body)
    assert response.status_code == 200
    found = response.json()["predictions"]
    assert [one["probability"] for one in found[:2]] == [one["probability"] for one in predicted(reader, images)]
    assert [len(one["top"]) for one in found] == [2, 2, 0, 0]
    assert [one["error"] for one in found[2:]] == [
        "cannot be read: not valid base64",
        "cannot be read: the data URL is not base64",
    ]


def test_unknown_can_be_switched_off_or_given(reader: httpx.Client) -> None:
    images = [noise(seed) for seed in range(3)]
    assert all(one["known"] for one in predicted(reader, images, unknown="never"))
    strict = predicted(reader, images, unknown="1")
    assert [one["known"] for one in strict] == [one["probability"] == 1 for one in strict]
    assert all((one["class"] == "unknown") is not one["known"] for one in strict)


def test_images_of_any_size_and_kind_are_decoded(reader: httpx.Client) -> None:
    image = Image.open(io.BytesIO(digit_files(0, 1, skip=30)[0])).resize((640, 480))
    for kind in ("JPEG", "WEBP", "BMP", "TIFF"):
        buffer = io.BytesIO()
        image.save(buffer, kind)
        assert predicted(reader, [buffer.getvalue()])[0]["error"] is None


def test_requests_at_the_same_time_get_their_own_predictions(reader: httpx.Client) -> None:
    """Whatever batches they share."""
    images = [data for label in range(4) for data in digit_files(label, 6, skip=30)]
    alone = [predicted(reader, [data])[0] for data in images]
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda data: predicted(reader, [data])[0], images))
    for one, other in zip(alone, together, strict=True):
        assert one["class"] == other["class"]
        assert one["group"] == other["group"] == 1
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)


def test_options_may_be_fields_of_the_form(reader: httpx.Client) -> None:
    images = [data for label in (0, 2) for data in digit_files(label, 2, skip=30)]
    fields = {"mode": "continuum", "top": "2", "unknown": "never"}
    response = reader.post("/v1/predict", params={"mode": "alone", "top": 1}, **form(images, **fields))
    assert response.status_code == 200, response.text
    found = response.json()["predictions"]
    assert found == predicted(reader, images, mode="continuum", top=2, unknown="never")
    assert [one["group"] for one in found] == [1, 1, 1, 1]
    for wrong in ({"mode": "both"}, {"top": "0"}, {"top": ["1", "2"]}, {"unknown": "2"}, {"tops": "1"}):
        refused = reader.post("/v1/predict", **form(images, **wrong))
        assert refused.status_code == 422
        assert next(iter(wrong)) in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("query", "status"),
    [({"mode": "both"}, 422), ({"top": 0}, 422), ({"top": "x"}, 422), ({"unknown": "2"}, 422), ({"unknown": "x"}, 422)],
)
def test_a_wrong_option_is_refused(reader: httpx.Client, query: dict[str, Any], status: int) -> None:
    response = reader.post("/v1/predict", params=query, **form(digit_files(0, 1)))
    assert response.status_code == status
    error = response.json()["error"]
    assert next(iter(query)) in error["message"]
    assert error["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("text/plain", b"x", 415),
        ("application/json", b"{", 422),
        ("application/json", b"[]", 422),
        ("application/json", b'{"images": []}', 422),
        ("application/json", b'{"images": ["eA=="], "tops": 1}', 422),
        ("multipart/form-data", b"", 400),
        ("multipart/form-data; boundary=x", b"", 400),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 422),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n", 400),
    ],
)
def test_a_body_of_another_form_is_refused(reader: httpx.Client, content_type: str, body: bytes, status: int) -> None:
    response = reader.post("/v1/predict", content=body, headers={"content-type": content_type})
    assert response.status_code == status, response.text
    assert set(response.json()["error"]) == {"code", "message", "request_id"}


@pytest.mark.slow
def test_photos_that_are_predicted_leave_nothing_on_the_disk(tmp_path: Path) -> None:
    """And the memory for features of images seen before is bounded."""
    classifier = ImageClassifier.create(tmp_path / "model", method="lda", backbone="efficientnet-lite0", image_size=32)
    classifier.learn([Image.open(io.BytesIO(noise(n, 32))) for n in range(6)], ["a", "b"] * 3)
    first = load(tmp_path / "model")
    for served in (first, load(tmp_path / "model", like=first)):
        learner = served.model.learner
        assert isinstance(learner, FrozenLearner)
        assert (learner.cache.file, learner.cache.most) == (None, FEATURES)
