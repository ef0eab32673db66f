"""A Ray cluster in processes of this machine: the table of the local executor, also when a worker was killed."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

COMPARE = ["compare", "digits", "--methods", "itaml,replay,ewc,lwf", "--seeds", "0,1", "--set", "epochs=3", "--json"]
QUIET = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
QUIET |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # of this test's cluster alone
STARTED: list[subprocess.Popen[str]] = []  # the commands of the test under way
# Time and memory are never the same twice, and the CPUs that a process may use are those of its node.
VARIES = ("train_seconds", "peak_memory_mb", "s/task", "MB", "checksum", "cpus")


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, int]]:
    """Start a cluster with its own ports and folder; yield its address and the process that owns it."""
    with tempfile.TemporaryDirectory(prefix="itr", ignore_cleanup_errors=True) as folder:  # a socket's path is short
        port, client, agent, metrics = _free_ports(4)
        command = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--disable-usage-stats"]
        command += ["--node-ip-address", "127.0.0.1", "--port", str(port), "--include-dashboard", "false"]
        command += ["--ray-client-server-port", str(client), "--dashboard-agent-listen-port", str(agent)]
        command += ["--metrics-export-port", str(metrics), "--temp-dir", folder]
        command += ["--num-cpus", "2", "--object-store-memory", "100000000"]
        # Processes of Ray that outlive a test must not hold its pipes, which somebody may read to their end.
        none = subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=none, stdout=none, stderr=none, env=QUIET, start_new_session=True)
        try:
            _until(lambda: _listens(port), "the cluster to listen")
            yield f"127.0.0.1:{port}", process.pid
        finally:
            started = _descendants(process.pid)
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pid in {*started, *_mentioning(folder)}:  # also those whose parent is gone
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _until(lambda: not _mentioning(folder), "the processes of the cluster to end")


@pytest.fixture(autouse=True)
def no_command_is_left() -> Iterator[None]:
    """End the commands of a test that has failed before they ended."""
    yield
    while STARTED:
        with STARTED.pop() as process:
            process.kill()


def test_a_cluster_that_loses_a_worker_gives_the_table_of_the_local_executor(
    cluster: tuple[str, int], tmp_path: Path
) -> None:
    address, owner = cluster
    local = _command(*COMPARE, "--runs", str(tmp_path / "local"))
    on_ray = _start(*COMPARE, "--runs", str(tmp_path / "ray"), "--executor", "ray", "--ray-address", address)
    folder = tmp_path / "ray" / "digits"
    victims: list[tuple[int, Path]] = []
    _until(lambda: bool(victims) or _kill_a_worker(owner, folder, victims), "a worker with a checkpoint")
    out, err = on_ray.communicate(timeout=600)
    assert on_ray.returncode == 0, err
    ((_, killed),) = victims
    starts = {path.parent.name: _starts(path) for path in folder.glob("*/events.jsonl")}
    assert len(starts) == 8
    assert {name for name, resumed in starts.items() if len(resumed) > 1} == {killed.name}
    assert starts[killed.name] == [False, True]  # from its checkpoint, not from the beginning
    assert _table(json.loads(out)) == _table(json.loads(local))
    for path in folder.glob("*/result.json"):
        mine, other = (
            json.loads(p.read_text()) for p in (path, tmp_path / "local/digits" / path.parent.name / path.name)
        )
        assert _stable(mine) == _stable(other)


def test_an_interrupted_command_ends_its_runs_and_goes_on_when_given_again(
    cluster: tuple[str, int], tmp_path: Path
) -> None:
    address, owner = cluster
    words = ["compare", "digits", "--methods", "replay", "--seeds", "0,1,2", "--set", "epochs=40", "--json"]
    words += ["--runs", str(tmp_path), "--executor", "ray", "--ray-address", address]
    first = _start(*words)
    _until(lambda: any(tmp_path.glob("digits/*/checkpoint.safetensors")), "a checkpoint")
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=300)
    assert first.returncode == 130
    assert "repeat the command to continue" in err
    _until(lambda: not _workers(owner), "the workers to end")
    assert not all((path / "result.json").exists() for path in (tmp_path / "digits").glob("replay*"))
    (row,) = json.loads(_command(*words))["rows"]
    assert (row["method"], row["seeds"]) == ("replay", 3)


def _table(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table without the columns of time and memory."""
    assert table["rows"]
    return [_stable(row) for row in table["rows"]]


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(part) for key, part in value.items() if key not in VARIES}
    return [_stable(part) for part in value if part not in VARIES] if isinstance(value, list) else value


def _starts(events: Path) -> list[bool]:
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    return [line["resumed"] for line in lines if line["event"] == "RunStarted"]


def _kill_a_worker(owner: int, folder: Path, victims: list[tuple[int, Path]]) -> bool:
    """Kill one worker process whose run has a checkpoint and no result yet."""
    for pid in _workers(owner):
        for link in _open_files(pid):
            run = folder / Path(link).name.removeprefix(".").removesuffix(".lock")
            held = link.endswith(".lock") and Path(link).parent == folder
            if held and (run / "checkpoint.safetensors").exists() and not (run / "result.json").exists():
                os.kill(pid, signal.SIGKILL)
                if (run / "result.json").exists():
                    continue  # it ended in the same moment
                victims.append((pid, run))
                return True
    return False


def _open_files(pid: int) -> list[str]:
    try:
        return [os.readlink(entry) for entry in (Path("/proc") / str(pid) / "fd").iterdir()]
    except OSError:
        return []


def _workers(owner: int) -> list[int]:
    """Return the processes of the cluster that execute a run."""
    return [pid for pid in _descendants(owner) if _command_line(pid).startswith("ray::execute_task")]


def _command_line(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_text()
    except OSError:
        return ""


def _mentioning(folder: str) -> list[int]:
    """Return the running processes whose command line names the folder of the cluster."""
    every = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in every if folder in _command_line(pid)]


def _descendants(owner: int) -> list[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found, new = [], [owner]
    while new:
        new = [pid for pid, parent in parents.items() if parent in new]
        found += new
    return found


def _start(*words: str) -> subprocess.Popen[str]:
    command, pipe = [sys.executable, "-m", "itaml", *words], subprocess.PIPE
    STARTED.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=QUIET))
    return STARTED[-1]


def _command(*words: str) -> str:
    process = _start(*words)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _until(condition: Callable[[], bool], what: str, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.05)
