"""Runs on a Ray cluster (https://www.ray.io), each a task with its CPUs and GPUs.

When a worker process or a node is lost, Ray starts the task again, on another node if need be, and the run goes on from
the checkpoint in its folder. Folders of runs and of data must therefore be on storage that all nodes share under the
same path. Every run has a new worker process.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from typing import Any

from itaml.config import Compute
from itaml.errors import MissingExtraError, UsageError
from itaml.experiment.sweep.executors.executor import INTERRUPTED, Outcome, Request, default_threads
from itaml.hardware.machine import cores

RETRIES = 3  # times that a run is started again after its worker process or node was lost
LOCAL = "local"  # the address of a cluster that is started here and ended with the command
OBJECT_STORE = 100_000_000  # bytes of the object store of such a cluster; runs pass nothing through it
REFRESH = 0.5  # seconds between two questions to the board
CONNECT = 10.0  # seconds that a cluster has to accept a connection
LAST_WAIT = 10.0  # seconds that a killed task has to end


class RayCluster:
    """Executes runs as tasks of a Ray cluster, which queues those that it has no resources for.

    Args:
        address: `auto` (the cluster that this machine belongs to), HOST:PORT, or `local` (start one here).
        runs: how many runs are to be executed, among which the CPUs are divided.
        limit: runs at a time; as many as the cluster has resources for if None.
        threads: CPU threads of each run; by default its share of the CPUs.

    Raises:
        MissingExtraError: Ray is not installed.
        UsageError: there is no cluster at this address.
    """

    def __init__(
        self, address: str = "auto", *, runs: int = 1, limit: int | None = None, threads: int | None = None
    ) -> None:
        self.ray = _import_ray(address)
        self.limit = limit
        self.threads = threads
        self._ours = not self.ray.is_initialized()
        if self._ours:
            _connect(self.ray, address)
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        self.cpus = max(int(node.get("CPU", 0)) for node in nodes)  # of the largest node
        self.gpus = sum(int(node.get("GPU", 0)) for node in nodes)
        total = sum(int(node.get("CPU", 0)) for node in nodes)
        at_once = max(1, min(runs, limit or runs))
        self.share = max(1, min(self.cpus, total // at_once))
        self._board = self.ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(RunBoard).remote()
        self._started: frozenset[str] = frozenset()
        self._asked = 0.0

    def start(self, request: Request) -> RayTask:
        """Submit a run."""
        as_task = self.ray.remote(
            num_cpus=request["threads"],
            num_gpus=self._gpus_for(request["config"]["compute"]["device"]),
            max_retries=RETRIES,
            max_calls=1,  # a new process for every run, as in the local pool
        )
        reference = as_task(execute_task).remote(request, self._board)
        return RayTask(self, reference, request["folder"])

    def check(self, compute: Compute) -> None:
        """Refuse runs that would wait for ever, because no node has what they need.

        Raises:
            UsageError: there is no GPU, or no node with as many CPUs.
        """
        if not self.gpus and compute.device == "cuda":
            raise UsageError("--device cuda: the Ray cluster has no GPU")
        if (self.threads or 1) > self.cpus:
            raise UsageError(f"--threads {self.threads}: the largest node of the Ray cluster has {self.cpus} CPUs")

    def threads_for(self, backbone: str | None) -> int:
        """Return the CPU threads of a run."""
        return self.threads or default_threads(backbone, self.share)

    def close(self) -> None:
        """Disconnect, and end a cluster that was started here."""
        if self._ours:
            self.ray.shutdown()

    def started(self, folder: str) -> bool:
        """Return whether the run in `folder` is being executed."""
        if folder not in self._started and time.monotonic() - self._asked > REFRESH:
            self._asked = time.monotonic()
            self._started = frozenset(self.ray.get(self._board.started.remote()))
        return folder in self._started

    def ask_to_stop(self) -> None:
        """Have every run end after its epoch."""
        self.ray.get(self._board.stop.remote())

    def _gpus_for(self, device: str) -> int:
        return 1 if device == "cuda" or (device == "auto" and self.gpus) else 0


class RayTask:
    """A run that was submitted to a cluster."""

    def __init__(self, cluster: RayCluster, reference: Any, folder: str) -> None:
        self.cluster, self.reference, self.folder = cluster, reference, folder

    @property
    def started(self) -> bool:
        """Whether a worker has taken it."""
        return self.cluster.started(self.folder)

    def poll(self) -> Outcome | None:
        """Return how it ended; a worker that was lost more than `RETRIES` times is a failure."""
        ray = self.cluster.ray
        ready, _ = ray.wait([self.reference], timeout=0)
        if not ready:
            return None
        try:
            return Outcome(*ray.get(self.reference))
        except ray.exceptions.TaskCancelledError:
            return Outcome(INTERRUPTED)
        except ray.exceptions.RayTaskError as error:  # an exception that no run is expected to raise
            return Outcome(1, str(error).strip().splitlines()[-1])
        except ray.exceptions.RayError as error:
            why = str(error).strip().splitlines()[0]
            return Outcome(1, f"lost {RETRIES + 1} times, the last time: {type(error).__name__}: {why}")

    def stop(self) -> None:
        """Ask it to save and end after its epoch; if no worker has taken it, it never starts."""
        self.cluster.ask_to_stop()
        if not self.started:
            self.cluster.ray.cancel(self.reference)

    def kill(self) -> None:
        """End its worker process."""
        self.cluster.ray.cancel(self.reference, force=True)
        self.cluster.ray.wait([self.reference], timeout=LAST_WAIT)


class RunBoard:
    """An actor that counts how often each run was started, and tells all of them when to stop."""

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}
        self._stop = False

    def begin(self, folder: str) -> int:
        """Note that a worker has a run; return how many had it before."""
        before = self._attempts.get(folder, 0)
        self._attempts[folder] = before + 1
        return before

    def started(self) -> list[str]:
        """Return the folders of the runs that a worker had."""
        return list(self._attempts)

    def stop(self) -> None:
        """Have all runs end after their epochs."""
        self._stop = True

    def stopping(self) -> bool:
        """Return whether the runs are to end."""
        return self._stop


def execute_task(request: Request, board: Any) -> tuple[int, str]:
    """Execute a run in a worker process of the cluster; return its exit code and what went wrong."""
    import ray  # noqa: PLC0415 (an extra)

    from itaml.experiment.sweep.worker import execute  # noqa: PLC0415 (a worker of the cluster imports it)

    again = ray.get(board.begin.remote(request["folder"]))
    asked, answer = 0.0, False

    def stop() -> bool:
        nonlocal asked, answer
        if not answer and time.monotonic() - asked > REFRESH:
            asked, answer = time.monotonic(), ray.get(board.stopping.remote())
        return answer

    if stop():
        return INTERRUPTED, ""
    outcome = execute({**request, "force": request["force"] and not again}, stop=stop)
    return outcome.code, outcome.reason


def _import_ray(address: str) -> Any:
    """Import Ray, which reads these variables when it is imported."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL and "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"  # nobody else may use a cluster that is ours alone
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray  # noqa: PLC0415 (an extra)
        import ray.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("--executor ray needs Ray: pip install 'itaml[ray]'") from error
    return ray


def _connect(ray: Any, address: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        ray.init(address=LOCAL, num_cpus=cores(), include_dashboard=False, object_store_memory=OBJECT_STORE, **quiet)
        return
    try:
        if address != "auto":
            _check_address(address)
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        if "auth" in f"{type(error).__name__} {error}".lower():
            raise UsageError(
                f"the Ray cluster at {address} refused the connection: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN "
                "to the token that it was started with"
            ) from error
        what = "no Ray cluster runs on this machine" if address == "auto" else f"no Ray cluster answers at {address}"
        raise UsageError(f"{what}: start one with `ray start --head`, or give its --ray-address HOST:PORT") from error


def _check_address(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself would try for ten minutes.

    Raises:
        OSError: nothing does.
        ValueError: it is no address.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT):
        pass
