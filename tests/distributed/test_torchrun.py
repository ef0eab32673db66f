"""torchrun itself: a killed process, and two agents that find each other."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from itaml.cli.main import _run
from process_groups import RUN, finish_group, free_port, result_of, run_group, same_result, start

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")]
LAUNCH = ["-W", "ignore", "-m", "torch.distributed.run"]  # what `torchrun` calls
LONG = [*RUN, "--set", "epochs=12"]


def children(parent: int) -> list[int]:
    """Return the processes that a process has started, the oldest first."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return sorted(found)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_restarts_all_and_the_result_is_the_same(tmp_path: Path, victim: int) -> None:
    folder, log = tmp_path / "run", tmp_path / "run" / "events.jsonl"
    options = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "3"]
    agent = start([*LAUNCH, *options, *LONG, "--out", str(folder)], PYTHONWARNINGS="ignore")
    while not (log.exists() and '"TaskDone", "task": 1' in log.read_text()) and agent.poll() is None:
        time.sleep(0.01)
    os.kill(children(agent.pid)[victim], signal.SIGKILL)
    (ended,) = finish_group([agent])
    assert ended.returncode == 0, ended.stderr
    assert log.read_text().count('"resumed": true') == 1
    other = tmp_path / "other"
    whole = run_group([*LONG, "--quiet", "--out", str(other)])
    assert [process.returncode for process in whole] == [0, 0], whole
    assert result_of(folder) == result_of(other)  # to the bit


def test_two_agents_with_a_rendezvous_run_digits_together(tmp_path: Path) -> None:
    folder, port = tmp_path / "run", free_port()
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "digits"]
    options += ["--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1"]
    agents = [start([*LAUNCH, *options, *RUN, "--out", str(folder)], PYTHONWARNINGS="ignore") for _ in range(2)]
    ended = finish_group(agents)
    assert [process.returncode for process in ended] == [0, 0], ended
    other = tmp_path / "other"
    assert _run([*RUN[2:], "--quiet", "--out", str(other)]) == 0
    assert same_result(folder, other)
