"""What the model knows, corrections, rollback and metrics over HTTP; all seen at once by the client that asked."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from PIL import Image

from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.lock import LockedError, locked
from itaml.serve.edit_job import Edit, apply_in_process
from itaml.serve.service_metrics import BUCKETS
from serve_support import Running, digit_files, form, noise

Start = Callable[..., Running]


def test_the_model_is_described(reader: httpx.Client) -> None:
    found = reader.get("/v1/model").json()
    assert (found["name"], found["version"], found["empty"]) == ("digits", 2, False)
    assert [entry["name"] for entry in found["classes"]] == [f"digit {n}" for n in range(4)]
    assert [entry["task"] for entry in found["classes"]] == [1, 1, 2, 2]
    assert {entry["images"] for entry in found["classes"]} <= set(range(15, 21))
    assert [task["classes"] for task in found["tasks"]] == [["digit 0", "digit 1"], ["digit 2", "digit 3"]]
    assert [(entry["version"], entry["action"]) for entry in found["history"]] == [(1, "learn"), (2, "learn")]
    assert [(entry["version"], entry["current"]) for entry in found["versions"]] == [(2, True), (1, False)]
    assert (found["method"], found["image_size"]) == ("lda", 8)
    confusion = reader.get("/v1/confusion").json()
    assert confusion["classes"] == [f"digit {n}" for n in range(4)]
    right = [row[number] / sum(row) for number, row in enumerate(confusion["counts"])]
    assert right == [entry["accuracy"] for entry in found["classes"]]
    assert min(right) > 0.5


def test_a_class_has_thumbnails_of_its_exemplars(reader: httpx.Client) -> None:
    found = reader.get("/v1/classes/digit%201").json()
    assert (found["name"], found["task"]) == ("digit 1", 1)
    first = reader.get(found["exemplars"][0]["url"], params={"size": 16})
    assert first.headers["content-type"] == "image/webp"
    assert max(Image.open(io.BytesIO(first.content)).size) == 8
    tag = first.headers["etag"]
    again = reader.get(found["exemplars"][0]["url"], params={"size": 16}, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    for missing in ("9999", "x", "-1", "../../model.json"):
        assert reader.get(f"/v1/classes/digit%201/exemplars/{missing}").status_code == 404
    assert reader.get("/v1/classes/digit%201/exemplars/0", params={"size": 10**6}).status_code == 422
    unknown = reader.get("/v1/classes/digit 9")
    assert unknown.status_code == 404
    assert "did you mean" in unknown.json()["error"]["message"]


def test_corrections_are_made_and_undone(start: Start, model: Path) -> None:
    client = start().client
    assert client.post("/v1/classes/digit 0/rename", json={"to": "zero"}).json()["version"] == 3
    assert client.get("/v1/classes/zero").status_code == 200
    merged = client.post("/v1/classes/zero/merge", json={"into": "digit 1"}).json()
    assert merged == {"version": 4, "message": "zero is a part of digit 1 now"}
    assert client.post("/v1/rollback", json={"steps": 1}).json()["version"] == 3
    assert client.post("/v1/classes/digit 3/forget", json={"purge": False}).json()["version"] == 4
    assert [entry["name"] for entry in client.get("/v1/model").json()["classes"]] == ["zero", "digit 1", "digit 2"]
    assert client.post("/v1/rollback", json={"version": 3}).json()["version"] == 3
    kept = digit_files(2, 2)
    moved = client.post("/v1/relabel", **form(kept, to="digit 3"))
    assert (moved.status_code, moved.json()["version"]) == (200, 4)
    strange = client.post("/v1/relabel", **form([noise()], to="digit 3"))
    assert strange.status_code == 400
    assert client.post("/v1/relabel", **form(kept, to="nine")).status_code == 404
    history = client.get("/v1/model").json()["history"]
    assert [entry["action"] for entry in history][:2] == ["learn", "learn"]
    assert {entry["action"] for entry in history} == {"learn", "rename", "relabel"}
    assert ImageClassifier.open(model).verify() == []


def test_wrong_corrections_are_refused(start: Start, model: Path) -> None:
    client = start().client
    assert client.post("/v1/classes/nine/rename", json={"to": "ten"}).status_code == 404
    assert client.post("/v1/classes/digit 0/rename", json={"to": "digit 1"}).status_code == 400
    assert client.post("/v1/classes/digit 0/merge", json={"into": "digit 0"}).status_code == 400
    assert client.post("/v1/classes/digit 0/rename", json={"too": "x"}).status_code == 422
    assert client.post("/v1/classes/digit 0/forget", json={"purge": "yes"}).status_code == 422
    assert client.post("/v1/rollback", json={}).status_code == 422
    assert client.post("/v1/rollback", json={"steps": 1, "version": 1}).status_code == 422
    assert client.post("/v1/rollback", json={"version": 77}).status_code == 404
    assert client.post("/v1/rollback", json={"steps": 5}).status_code == 409
    with locked(model / "lock"):
        busy = client.post("/v1/classes/digit 0/rename", json={"to": "zero"})
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "locked")
    assert client.get("/v1/model").json()["version"] == 2


def test_a_class_may_have_any_name(start: Start) -> None:
    client = start().client
    name, before = "a/b c?#%/exemplars", "digit 0"
    place = f"/v1/classes/{quote(name, safe='')}"
    assert client.post(f"/v1/classes/{before}/rename", json={"to": name}).status_code == 200
    found = client.get(place).json()
    assert found["name"] == name
    assert client.get(found["exemplars"][0]["url"]).headers["content-type"] == "image/webp"
    assert client.post(f"{place}/rename", json={"to": "zero"}).json()["version"] == 4
    assert client.post("/v1/classes/zero/rename", json={"to": ".."}).status_code == 400
    taken = client.post("/v1/classes/zero/rename", json={"to": "digit 1"}).json()["error"]["message"]
    assert taken == "there is a class 'digit 1' already; merge the two instead"


def test_corrections_that_learn_are_made_in_another_process(model: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved.png"
    moved.write_bytes(digit_files(2, 1)[0])
    done = apply_in_process(model, Edit(action="relabel", target="digit 3", images=(str(moved),)), threads=1)
    assert (done.version, done.classes, len(done.known)) == (3, ("digit 2", "digit 3"), 4)
    with locked(model / "lock"), pytest.raises(LockedError):
        apply_in_process(model, Edit(action="merge", source="digit 0", target="digit 1"), threads=1)


@pytest.mark.slow
def test_a_merge_of_a_model_that_trains_is_made_in_another_process(
    start: Start, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    shutil.rmtree(model)
    images = [Image.open(io.BytesIO(data)) for label in range(3) for data in digit_files(label, 8)]
    classifier = ImageClassifier.create(model, backbone="mlp", image_size=8, memory=60, epochs=2)
    classifier.learn(images, [f"digit {label}" for label in range(3) for _ in range(8)])
    monkeypatch.setattr(ImageClassifier, "merge", None)  # in this process it would fail
    merged = start().client.post("/v1/classes/digit 0/merge", json={"into": "digit 1"})
    assert merged.json() == {"version": 2, "message": "digit 0 is a part of digit 1 now"}


def test_changes_of_other_programs_are_noticed(start: Start, model: Path) -> None:
    client = start().client
    ImageClassifier.open(model).rename("digit 0", "zero")
    assert client.get("/v1/model").json()["classes"][0]["name"] == "zero"
    assert client.post("/v1/predict", **form(digit_files(0, 1))).json()["model_version"] == 3


def test_images_are_checked_before_they_are_learned(start: Start) -> None:
    client = start().client
    new, known = noise(1), digit_files(0, 1)[0]
    response = client.post("/v1/check", **form([new, known, new, b"x"], **{"class": "a"}))
    assert [entry["state"] for entry in response.json()["images"]] == ["ok", "known", "duplicate", "unreadable"]
    assert [entry["reason"] is None for entry in response.json()["images"]] == [True, False, False, False]


def test_metrics_count_what_happened(start: Start) -> None:
    client = start().client
    client.post("/v1/predict", params={"unknown": "never"}, **form([*digit_files(0, 3, skip=30), b"x"]))
    client.get("/v1/nothing")
    text = client.get("/metrics").text
    assert "itaml_images_total 4\n" in text
    assert "itaml_images_unreadable_total 1\n" in text
    assert "itaml_model_version 2\n" in text
    assert "itaml_queue_images 0\n" in text
    assert 'itaml_requests_total{route="/v1/predict",method="POST",status="200"} 1\n' in text
    assert 'itaml_request_seconds_bucket{route="/v1/predict",le="+Inf"} 1\n' in text
    assert 'status="404"' in text
    found = re.findall(r'itaml_request_seconds_bucket{route="/v1/predict",le="(.+)"} (\d+)', text)
    assert [bound for bound, _ in found] == [*(f"{bucket:g}" for bucket in BUCKETS), "+Inf"]
    assert [int(number) for _, number in found] == sorted(int(number) for _, number in found)
    by_class = re.findall(r'itaml_images_by_class_total\{class="digit \d"\} (\d+)', text)
    assert sum(map(int, by_class)) == 3


def test_an_empty_model_can_be_served(start: Start, model: Path) -> None:
    import shutil

    shutil.rmtree(model)
    ImageClassifier.create(model)
    client = start().client
    found = client.get("/v1/model").json()
    assert (found["empty"], found["classes"], found["version"]) == (True, [], 0)
    assert client.post("/v1/predict", **form([noise()])).json()["error"]["code"] == "empty_model"
    assert client.get("/v1/confusion").json() == {"classes": [], "counts": None, "source": None}
    checked = client.post("/v1/check", **form([noise(), noise(), b"x"])).json()["images"]
    assert [entry["state"] for entry in checked] == ["ok", "duplicate", "unreadable"]
    assert client.get("/v1/classes/a").status_code == 404


def test_a_model_is_exported_once_for_a_version(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The export itself is tested where it is made."""
    commands: list[tuple[Path, Path]] = []

    async def made(model: Path, path: Path) -> None:
        commands.append((model, path))
        path.write_bytes(b"an ONNX file")

    monkeypatch.setattr("itaml.serve.onnx_files._export", made)
    client = start().client
    for _ in range(2):
        response = client.get("/v1/export.onnx")
        assert (response.status_code, response.content) == (200, b"an ONNX file")
        assert response.headers["content-disposition"] == 'attachment; filename="digits-2.onnx"'
    assert len(commands) == 1
    client.post("/v1/classes/digit 0/rename", json={"to": "zero"})
    assert client.get("/v1/export.onnx").status_code == 200
    assert len(commands) == 2
    assert len(list(commands[0][1].parent.iterdir())) == 1


@pytest.mark.slow
def test_the_exported_model_predicts_what_the_service_predicts(start: Start, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    response = start(limits={"seconds": 600.0}).client.get("/v1/export.onnx", timeout=900)
    assert response.status_code in (200, 501), response.text
    if response.status_code == 501:
        assert "pixels" in response.json()["error"]["message"]
        return
    (tmp_path / "model.onnx").write_bytes(response.content)
    assert runtime.InferenceSession(str(tmp_path / "model.onnx")).get_inputs()[0].name == "images"
