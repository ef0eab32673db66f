"""Processes of a run over several of them are batch processes, unless the user has chosen otherwise."""

import os
import subprocess
import sys

import pytest

CODE = """import os
from itaml.hardware.scheduling import schedule_as_batch
{before}
print(schedule_as_batch(), os.sched_getscheduler(0))
"""


def run(before: str) -> str:
    command = [sys.executable, "-c", CODE.format(before=before)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="needs Linux")
def test_a_process_becomes_a_batch_process_once() -> None:
    assert run("pass") == f"True {os.SCHED_BATCH}"
    chosen = "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))"
    assert run(chosen) == f"False {os.SCHED_IDLE}", "a policy that was chosen stays"


def test_other_systems_are_left_as_they_are() -> None:
    assert run("vars(os).pop('SCHED_BATCH', None); vars(os).setdefault('sched_getscheduler', lambda p: 0)").startswith(
        "False"
    )


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="needs Linux")
def test_where_it_is_not_permitted_nothing_changes() -> None:
    refuse = "os.sched_setscheduler = lambda *a: (_ for _ in ()).throw(PermissionError())"
    assert run(refuse) == f"False {os.SCHED_OTHER}"
