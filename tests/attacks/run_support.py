"""A short run that attacks are made on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiment_support import checkpoint, numbers, short
from itaml.data.benchmarks import BENCHMARKS, Benchmark
from itaml.experiment.result import Result
from itaml.experiment.runner import run_experiment


def register() -> None:
    """Make the benchmark `small` known to this process and those forked from it."""
    BENCHMARKS["small"] = Benchmark("small", "for tests", "support:load_small", tasks=2, model="mlp", memory=8, p=3)


def begin(folder: Path) -> None:
    """Begin or resume a run, with a checkpoint after every epoch."""
    run_experiment(short(momentum=0.9), folder, resume=True, checkpoint_seconds=0)


def finished(folder: Path) -> Any:
    """Return everything about a finished run that must repeat to the bit."""
    return [numbers(Result.load(folder).to_dict()), checkpoint(folder)]
