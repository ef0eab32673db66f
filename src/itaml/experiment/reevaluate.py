"""What a finished run has learned, evaluated once more: with other settings of the inference, or other continua.

The learner is restored from the run's last checkpoint, so that nothing is trained again and every number is about the
same weights. Results are kept in files next to each other, and returned again as long as neither the settings nor the
checkpoint have changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from itaml.data.stream import TaskStream
from itaml.errors import CheckpointError
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.result import CurvePoint, Fraction, Record
from itaml.experiment.result_assembly import CURVE, curve
from itaml.experiment.run_config import RunConfig
from itaml.experiment.run_folder import CHECKPOINT, KIND
from itaml.metrics.evaluate import evaluate
from itaml.safe_files import read_json, write_json
from itaml.storage import load_state

FORMAT = 1


class Measures(Record):
    """What was measured of one learner."""

    curve: dict[int, CurvePoint]  # by size of continua
    task_aware: Fraction | None
    no_update: Fraction | None
    measures: dict[str, float | None] = Field(default_factory=dict)  # of metrics, by `Metric.key`


class Reevaluator:
    """Evaluates learners of one stream.

    Args:
        data_root: where data sets lie, for benchmarks that need one.
        force: evaluate even what was evaluated before.
        notify: hears what is evaluated, a line each.
    """

    def __init__(
        self,
        *,
        data_root: Path | str | None = None,
        force: bool = False,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.data_root, self.force, self.notify = data_root, force, notify
        self._stream: TaskStream | None = None

    def __call__(self, run: Path | str, config: RunConfig, *, sizes: Iterable[int] = (), keep: Path | str) -> Measures:
        """Evaluate what a run has learned, under another configuration.

        Args:
            run: folder of a finished run.
            config: its configuration with other settings of the inference.
            sizes: continua to measure, besides those of every run.
            keep: the file that the result is kept in.

        Raises:
            CheckpointError: there is no checkpoint, or it is damaged or of another network.
        """
        run, keep = Path(run), Path(keep)
        continuum_sizes = sorted({*config.p, *CURVE, *sizes})
        question = {"format": FORMAT, "config": config.model_dump(mode="json"), "checkpoint": _digest(run / CHECKPOINT)}
        known = None if self.force else _known(keep, question, continuum_sizes)
        if known is not None:
            return known
        self.notify(f"evaluating {keep.stem}")
        measures = self._measure(run, config, continuum_sizes)
        write_json(keep, {**question, "measures": measures.to_dict()})
        return measures

    def _measure(self, run: Path, config: RunConfig, continuum_sizes: list[int]) -> Measures:
        if self._stream is None:
            self._stream = make_stream(config, data_root=self.data_root)
        stream = self._stream
        learner = make_learner(config, stream)
        learner.load_state_dict(load_state(run / CHECKPOINT, kind=KIND)["learner"])
        last = evaluate(learner, stream, seen=len(stream), continuum_sizes=continuum_sizes, seed=config.seeds.continua)
        return Measures(
            curve=curve(last, stream),
            task_aware=last.task_aware,
            no_update=last.no_update,
            measures=last.measures,
        )


def _known(keep: Path, question: dict[str, Any], continuum_sizes: list[int]) -> Measures | None:
    """Return a result that was kept, if it is of the same evaluation."""
    try:
        kept = read_json(keep)
    except CheckpointError:
        return None  # none yet, or half of one
    same = all(kept.get(key) == value for key, value in question.items())
    if not same:
        return None
    try:
        measures = Measures.model_validate(kept.get("measures"))
    except ValidationError:
        return None
    return measures if set(continuum_sizes) <= set(measures.curve) else None


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
