"""Learning over HTTP: jobs, progress, cancelling, what an upload may be."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.lock import locked
from serve_support import Running, digit_files, form, noise

Start = Callable[..., Running]


def test_a_learn_adds_a_class_and_says_what_it_did(start: Start, model: Path) -> None:
    service = start()
    images = [*digit_files(4, 6), b"broken", digit_files(4, 1)[0]]
    done = service.learn(images, **{"class": "digit 4"})
    assert (done["state"], done["phase"], done["progress"], done["error"]) == ("done", "done", 1.0, None)
    result = done["result"]
    assert (result["version"], result["new_classes"], result["refreshed_classes"]) == (3, ["digit 4"], [])
    assert result["images"] == {"digit 4": 6}
    assert result["duplicates"] == 1
    assert result["unreadable"] == [{"name": "6.png", "reason": "not an image in a known format"}]
    assert set(result["before"]["classes"]) == {f"digit {n}" for n in range(4)}
    assert set(result["after"]["classes"]) == {f"digit {n}" for n in range(5)}
    assert not any("images/0" in note for note in result["notes"])
    predicted = service.client.post("/v1/predict", **form(digit_files(4, 2, skip=40))).json()
    assert predicted["model_version"] == 3
    assert ImageClassifier.open(model).verify() == []
    text = service.client.get(f"/v1/jobs/{done['id']}/events").text
    assert text.startswith("event: end\ndata: ")
    assert json.loads(text.split("data: ")[1])["result"] == result
    assert [job["id"] for job in service.client.get("/v1/jobs").json()["jobs"]] == [done["id"]]


@pytest.mark.slow
def test_an_archive_with_a_folder_per_class_is_learned(start: Start) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for label in (5, 6):
            for number, data in enumerate(digit_files(label, 5)):
                archive.writestr(f"photos/digit {label}/inner/{number}.png", data)
        archive.writestr("__MACOSX/photos/._x", b"x")
    service = start()
    response = service.client.post("/v1/learn", files={"archive": ("photos.zip", buffer.getvalue())})
    assert response.status_code == 202, response.text
    result = service.wait(response.json()["job"]["id"])["result"]
    assert result["new_classes"] == ["digit 5", "digit 6"]
    assert result["images"] == {"digit 5": 5, "digit 6": 5}


def test_an_archive_may_be_the_body(start: Start) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number, data in enumerate(digit_files(5, 5)):
            archive.writestr(f"digit 5/{number}.png", data)
    service = start(limits={"upload_bytes": 5000})
    head = {"content-type": "application/zip"}
    broken = service.client.post("/v1/learn", content=b"not a zip file", headers=head)
    assert broken.status_code == 400
    assert "zip" in broken.json()["error"]["message"]
    assert service.client.post("/v1/learn", content=bytes(6000), headers=head).status_code == 413
    assert service.client.post("/v1/learn", content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    response = service.client.post("/v1/learn", content=buffer.getvalue(), headers=head)
    assert response.status_code == 202, response.text
    assert service.wait(response.json()["job"]["id"])["result"]["images"] == {"digit 5": 5}


def test_a_job_that_waits_keeps_its_followers(start: Start, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("itaml.serve.learn_routes.BEAT", 0.3)
    service = start()
    with locked(model / "lock"):  # so that the job cannot end
        job = service.client.post("/v1/learn", **form(digit_files(4, 6), **{"class": "digit 4"})).json()["job"]["id"]
        with service.client.stream("GET", f"/v1/jobs/{job}/events") as events:
            lines = []
            for line in events.iter_lines():
                lines.append(line)
                if line.startswith(":"):
                    break
        assert events.headers["content-type"].startswith("text/event-stream")
        assert lines[0] == "event: progress"
        assert json.loads(lines[1].removeprefix("data: "))["id"] == job
        service.client.post(f"/v1/jobs/{job}/cancel")


def test_classes_are_given_for_each_image_or_for_all(start: Start) -> None:
    client = start().client
    images = [noise(1), noise(2)]
    for fields in ({}, {"classes": ["a"]}, {"class": "a", "classes": ["a", "b"]}, {"class": "a", "epochs": "0"}):
        response = client.post("/v1/learn", **form(images, **fields))
        assert response.status_code == 422, response.text
    assert client.post("/v1/learn", **form([], **{"class": "a"})).status_code in (415, 422)
    for name in ("unknown", "DIGIT 1", " ", "..", "."):
        response = client.post("/v1/learn", **form(images, **{"class": name}))
        assert response.status_code == 400, response.text
    unreadable = client.post("/v1/learn", **form([b"x"], **{"class": "a"}))
    assert (unreadable.status_code, unreadable.json()["error"]["code"]) == (400, "unreadable_images")
    assert client.get("/v1/jobs").json() == {"jobs": []}
