"""Executors: where the runs of a sweep are executed. One small interface, on this machine or on a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from itaml.errors import UnknownNameError
from itaml.registry import unknown

if TYPE_CHECKING:
    from itaml.experiment.sweep.executors.executor import Executor

EXECUTORS = ("local", "ray")


def open_executor(
    name: str, *, runs: int, limit: int | None = None, threads: int | None = None, ray_address: str = "auto"
) -> Executor:
    """Return the executor of a name, to be closed when all runs are over.

    Args:
        name: `local` or `ray`.
        runs: how many runs are to be executed.
        limit: runs at a time; by default one per core, or as many as the cluster has resources for.
        threads: CPU threads of each run; by default its share of the CPUs.
        ray_address: see `RayCluster`.

    Raises:
        UnknownNameError: there is none of that name.
        MissingExtraError: Ray is not installed.
        UsageError: there is no Ray cluster at the address.
    """
    if name not in EXECUTORS:
        raise UnknownNameError(unknown("executor", name, EXECUTORS))
    if name == "ray":
        from itaml.experiment.sweep.executors.ray_cluster import RayCluster  # noqa: PLC0415 (one of two is needed)

        return RayCluster(ray_address, runs=runs, limit=limit, threads=threads)
    from itaml.experiment.sweep.executors.pool import LocalPool  # noqa: PLC0415
    from itaml.hardware.machine import cores  # noqa: PLC0415

    return LocalPool(max(1, min(limit or cores(), runs)), threads=threads)
