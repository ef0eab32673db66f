"""Jobs survive whatever happens to the service: parked, continued, cancelled, never applied twice or by half."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from itaml.errors import CheckpointError, ItamlError
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.lock import locked
from itaml.serve.job_queue import CRASHES, PARKED, JobQueue
from itaml.serve.job_records import JobFolder, JobRecord, JobsFolder, job_id, now
from itaml.serve.learn_job import _run
from itaml.serve.service import Service
from itaml.serve.service_options import Limits, ServiceOptions
from itaml.serve.staging import StagedForm, finish
from serve_support import Running, digit_files, form

Start = Callable[..., Running]


def staged(jobs: JobsFolder, images: list[bytes], label: str) -> JobFolder:
    """Return a job as an upload makes it."""
    upload = StagedForm(jobs.draft(), Limits())
    for number, data in enumerate(images):
        upload.file("images", f"{number}.png")(data)
    upload.text("class", label)
    return finish(upload, jobs, ())


def test_a_job_is_applied_once_even_if_nobody_heard_of_it(model: Path, tmp_path: Path) -> None:
    """A process that is killed after it wrote the version, before it wrote the record, leaves a running job."""
    folder = staged(JobsFolder(tmp_path / "staging"), digit_files(4, 6), "digit 4")
    started = folder.update(state="running", attempts=1, started=now())
    _run(folder, model, 1)
    done = folder.read()
    assert done.state == "done"
    assert done.result is not None
    assert (done.result["version"], done.result["new_classes"]) == (3, ["digit 4"])
    folder.write(started.model_copy(update={"base": done.base, "resumed": True, "attempts": 2}))
    _run(folder, model, 1)
    again = folder.read()
    assert again.result is not None
    assert {name: again.result[name] for name in ("version", "new_classes", "images")} == {
        name: done.result[name] for name in ("version", "new_classes", "images")
    }
    assert ImageClassifier.open(model).version == 3
    assert again.result["before"] == {"accuracy": None, "classes": {}}


def test_a_staged_image_that_changed_is_not_learned(model: Path, tmp_path: Path) -> None:
    folder = staged(JobsFolder(tmp_path / "staging"), digit_files(4, 2), "digit 4")
    folder.image(1).write_bytes(b"something else")
    with pytest.raises(ItamlError, match=r"1\.png is damaged"):
        _run(folder, model, 1)
    assert ImageClassifier.open(model).version == 2


def test_records_are_checked_and_ids_are_not_paths(tmp_path: Path) -> None:
    jobs = JobsFolder(tmp_path)
    folder = staged(jobs, digit_files(4, 1), "digit 4")
    assert jobs.get(folder.id) is not None
    assert folder.read() == JobRecord(id=folder.id, created=folder.read().created, images=1)
    for wrong in ("..", f"../jobs/{folder.id}", "", folder.id.upper()[:-1], f".{folder.id}", "x" * 36):
        assert jobs.get(wrong) is None
    assert job_id(folder.id.upper()) == folder.id
    record = folder.path / "job.json"
    record.write_text(record.read_text().replace('"images": 1', '"images": 2'))
    with pytest.raises(CheckpointError, match="checksum"):
        folder.read()
    assert jobs.all() == []


def test_uploads_that_never_ended_are_removed_and_old_records_too(tmp_path: Path) -> None:
    jobs = JobsFolder(tmp_path)
    jobs.draft()
    kept = [staged(jobs, digit_files(4, 1), "digit 4") for _ in range(3)]
    for folder in kept:
        folder.update(state="done", finished=now())
    jobs.sweep(keep=2, age=3600)
    assert len(jobs.all()) == 2
    assert sum(path.name.startswith(".") for path in jobs.path.iterdir()) == 1
    jobs.sweep(keep=2, age=-1)
    assert sum(path.name.startswith(".") for path in jobs.path.iterdir()) == 0


def test_a_service_that_stops_parks_its_job_and_the_next_one_continues_it(start: Start, model: Path) -> None:
    first = start()
    with locked(model / "lock"):  # so that the job cannot end
        job = first.client.post("/v1/learn", **form(digit_files(4, 6), **{"class": "digit 4"})).json()["job"]["id"]
        other = first.client.post("/v1/learn", **form(digit_files(5, 6), **{"class": "digit 5"})).json()["job"]["id"]
        first.wait(job, "running")
        cancelled = first.client.post(f"/v1/jobs/{other}/cancel").json()
        assert cancelled["state"] == "cancelled"
        first.stop()
        parked = JobFolder(model.with_name("staging") / "jobs" / job)
        assert parked.read().state == "queued"
        assert len(parked.read_upload()) == 6
    second = start()
    done = second.wait(job)
    assert (done["state"], done["resumed"], done["result"]["version"]) == ("done", True, 3)
    assert second.wait(other)["state"] == "cancelled"
    second.stop()
    assert not (parked.path / "images").exists()
    assert ImageClassifier.open(model).classes[-1] == "digit 4"


@pytest.mark.slow
def test_a_running_job_is_cancelled_and_changes_nothing(start: Start, model: Path) -> None:
    service = start()
    with locked(model / "lock"):
        job = service.client.post("/v1/learn", **form(digit_files(4, 6), **{"class": "digit 4"})).json()["job"]["id"]
        service.wait(job, "running")
        service.client.post(f"/v1/jobs/{job}/cancel")
        assert service.wait(job)["state"] == "cancelled"
    assert service.client.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"
    assert service.client.get("/v1/model").json()["version"] == 2
    assert service.client.get("/v1/jobs/nothing").status_code == 404
    assert service.client.get("/v1/jobs/00000000-0000-0000-0000-000000000000/events").status_code == 404


@pytest.mark.slow
def test_a_job_that_cannot_be_learned_says_why(start: Start) -> None:
    broken = io.BytesIO(digit_files(4, 1)[0]).getvalue()[:-30]  # its head is good, so that it is staged
    failed = start().learn([broken], **{"class": "digit 4"})
    assert failed["state"] == "failed"
    assert failed["error"].startswith("none of the images can be read")
    assert "0.png" in failed["error"]


def test_only_processes_that_crash_count_until_a_job_is_given_up(model: Path, tmp_path: Path) -> None:
    """Not those that ended because the service was killed or stopped."""
    options = ServiceOptions(model=model, staging=tmp_path / "staging")
    queue = JobQueue(options)
    folder = staged(queue.jobs, digit_files(4, 1), "digit 4")
    folder.update(state="running", attempts=20)
    queue._settle(folder, PARKED)
    for number in range(1, CRASHES):
        queue._settle(folder, -9)
        assert (folder.read().state, folder.read().crashes) == ("running", number)
    queue._settle(folder, -9)
    assert folder.read().state == "failed"
    assert str(CRASHES) in (folder.read().error or "")


def test_the_threads_of_predictions_are_those_that_were_asked_for(model: Path) -> None:
    before = torch.get_num_threads()
    service = Service(ServiceOptions(model=model, staging=model.with_name("staging"), threads=before + 1))
    try:
        service.start()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == before + 1
    finally:
        service.stop()
        torch.set_num_threads(before)
