"""Tuning: settings chosen on a validation split of the training data, by a study of Optuna (https://optuna.org).

A trial is a point of the search space; its value is the mean of the objective over runs with several seeds, each
evaluated on validation images. Test images are dropped before a learner or an evaluation can reach them. Runs are
ordinary runs in ordinary folders, so they are kept, resumed and executed like those of any other sweep. The study is
kept in a journal file and goes on where it was left; with one trial at a time, to the same trials.
"""

from __future__ import annotations

import hashlib
import re
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from itaml.errors import MissingExtraError, TrainingError, UnknownNameError
from itaml.experiment.result import load_result
from itaml.experiment.run_config import RunConfig, default_folder, resolve
from itaml.experiment.sweep.job import DONE, KEPT, STOPPED, Job, make_job
from itaml.experiment.sweep.search_space import Dimension, inside
from itaml.metrics.metric import Metric
from itaml.metrics.metric_registry import metrics
from itaml.registry import unknown

JOURNAL = "study.journal"
STARTUP = 5  # trials at random before the sampler learns from them


@dataclass(frozen=True)
class TuneSpec:
    """What is tuned, and how a trial is judged; another specification is another study."""

    benchmark: str
    method: str
    preset: str
    space: tuple[Dimension, ...]
    objective: str  # key of a metric, such as class_p20
    seeds: tuple[int, ...]
    validation: float
    overrides: Mapping[str, Any] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)  # other fields of `RunConfig`
    sampler_seed: int = 0

    def config(self, point: Mapping[str, Any], seed: int) -> RunConfig:
        """Return the run of a point of the space (see `resolve` for errors)."""
        size = re.search(r"_p(\d+)$", self.objective)
        extra: dict[str, Any] = {"p": (1, int(size[1]))} if size and int(size[1]) > 1 else {}
        return resolve(
            self.benchmark,
            method=self.method,
            preset=self.preset,
            seed=seed,
            overrides={**self.overrides, **point},
            validation=self.validation,
            **extra,
            **self.rest,
        )

    def metric(self) -> Metric:
        """Return the objective.

        Raises:
            UnknownNameError: there is no such metric.
        """
        known = {metric.key: metric for metric in metrics(self.config({}, self.seeds[0]).p)}
        if self.objective not in known or known[self.objective].direction == "neither":
            there = [key for key, metric in known.items() if metric.direction != "neither"]
            raise UnknownNameError(unknown("objective", self.objective, there))
        return known[self.objective]

    def check(self) -> None:
        """Refuse names and ends of ranges that the method does not accept (see `resolve` and `metric` for errors)."""
        self.metric()
        for dimension in self.space:
            for value in dimension.values:
                self.config({dimension.name: value}, self.seeds[0])

    def folder(self, runs: Path) -> Path:
        """Return where the study is kept, a folder beside its runs."""
        space = " ".join(dimension.text for dimension in self.space)
        other = {"objective": self.objective, "seeds": self.seeds, "validation": self.validation}
        text = repr((self.config({}, self.seeds[0]).model_dump(mode="json"), space, other, self.sampler_seed))
        name = f"tune-{self.method}-{Path(self.preset).stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return default_folder(self.config({}, self.seeds[0]), runs).parent / name


class Tuner:
    """Asks a study for trials, makes their runs, and tells the study what they gave; `more` is called repeatedly.

    Args:
        spec: what is tuned.
        runs: folder of all runs.
        trials: trials of the study in all, those of earlier calls included.
        at_once: trials at a time.
        prune: run the seeds of a trial one after another, and end trials that are below the median of the others.
        force: forget the study and its runs.
    """

    def __init__(
        self, spec: TuneSpec, runs: Path, *, trials: int, at_once: int = 1, prune: bool = False, force: bool = False
    ) -> None:
        spec.check()
        self.spec, self.runs, self.trials = spec, runs, trials
        self.at_once, self.prune, self.force = at_once, prune, force
        self.metric = spec.metric()
        self.folder = spec.folder(runs)
        self.jobs: list[Job] = []  # of all trials of this call, in the order in which they were made
        self.optuna = _import_optuna()
        self.study = _open_study(self.optuna, self.folder, self.metric, force=force)
        self._open: dict[int, tuple[Any, list[Job]]] = {}
        self._begin()

    def more(self) -> bool:
        """Take the trials that ended, ask for others while there is room; return whether any is under way."""
        for number, (trial, jobs) in list(self._open.items()):
            if all(job.state in (KEPT, DONE) for job in jobs):
                self._advance(number, trial, jobs)
            elif any(job.error for job in jobs) and not any(job.state in ("waiting", "running") for job in jobs):
                self._tell(number, trial, jobs, state="FAIL")
        if any(job.state == STOPPED for job in self.jobs):
            return False
        while len(self._open) < self.at_once and len(self.records()) + len(self._open) < self.trials:
            self._ask()
        return bool(self._open)

    def records(self) -> list[dict[str, Any]]:
        """Return all trials that are over, as plain values."""
        return [
            {"trial": trial.number, "state": trial.state.name.lower(), "value": trial.value, **trial.user_attrs}
            for trial in self.study.get_trials(deepcopy=False)
            if "runs" in trial.user_attrs
        ]

    def best(self) -> dict[str, Any]:
        """Return the record of the best trial.

        Raises:
            TrainingError: no trial was completed.
        """
        done = [record for record in self.records() if record["state"] == "complete"]
        if not done:
            reasons = [record["error"] for record in self.records() if record.get("error")]
            raise TrainingError(f"no trial was completed: {reasons[0] if reasons else 'none was run'}")
        sign = 1 if self.metric.direction == "higher" else -1
        return max(done, key=lambda record: (sign * record["value"], -record["trial"]))

    def _begin(self) -> None:
        """Try the preset itself first, and again what was under way when the last call ended."""
        states = self.optuna.trial.TrialState
        earlier = self.study.get_trials(deepcopy=False)
        for trial in earlier:
            if trial.state == states.RUNNING:
                self.study.tell(trial.number, state=states.FAIL)
                self.study.enqueue_trial(trial.params)
        start = inside(self.spec.space, self.spec.config({}, self.spec.seeds[0]).settings)
        if not earlier and start is not None:
            self.study.enqueue_trial(start)

    def _ask(self) -> None:
        number = len(self.study.get_trials(deepcopy=False))
        self.study.sampler = _sampler(self.optuna, self.spec.sampler_seed + number)
        trial = self.study.ask({dimension.name: dimension.distribution() for dimension in self.spec.space})
        seeds = self.spec.seeds[:1] if self.prune else self.spec.seeds
        self._open[trial.number] = (trial, [self._job(trial, seed) for seed in seeds])

    def _job(self, trial: Any, seed: int) -> Job:
        config = self.spec.config(self._point(trial), seed)
        job = make_job(config, default_folder(config, self.runs), force=self.force, variant=f"trial {trial.number}")
        self.jobs.append(job)
        return job

    def _point(self, trial: Any) -> dict[str, Any]:
        return {d.name: d.rounded(trial.params[d.name]) for d in self.spec.space}

    def _advance(self, number: int, trial: Any, jobs: list[Job]) -> None:
        """Tell the study of a trial whose runs are finished, or run its next seed."""
        if not self.prune:
            self._tell(number, trial, jobs, state="COMPLETE")
            return
        trial.report(statistics.fmean(self._values(jobs)), step=len(jobs))
        if len(jobs) == len(self.spec.seeds):
            self._tell(number, trial, jobs, state="COMPLETE")
        elif trial.should_prune():
            self._tell(number, trial, jobs, state="PRUNED")
        else:
            jobs.append(self._job(trial, self.spec.seeds[len(jobs)]))

    def _values(self, jobs: Sequence[Job]) -> list[float]:
        values = [self.metric.value_of(load_result(job.folder)) for job in jobs]
        return [float("nan") if value is None else value for value in values]

    def _tell(self, number: int, trial: Any, jobs: Sequence[Job], *, state: str) -> None:
        error = next((job.error for job in jobs if job.error), "")
        values = [] if error else self._values(jobs)
        trial.set_user_attr("settings", self._point(trial))
        trial.set_user_attr("values", values)
        trial.set_user_attr("error", error)
        trial.set_user_attr("runs", [job.folder.name for job in jobs])
        mean = statistics.fmean(values) if state == "COMPLETE" else None
        self.study.tell(number, mean, state=self.optuna.trial.TrialState[state])
        del self._open[number]


def _import_optuna() -> Any:
    try:
        import optuna  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtraError("itaml tune needs Optuna: pip install 'itaml[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _open_study(optuna: Any, folder: Path, metric: Metric, *, force: bool) -> Any:
    path = folder / JOURNAL
    folder.mkdir(parents=True, exist_ok=True)
    if force:
        path.unlink(missing_ok=True)
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    return optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        study_name=folder.name,
        direction="maximize" if metric.direction == "higher" else "minimize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP),
        load_if_exists=True,
    )


def _sampler(optuna: Any, seed: int) -> Any:
    """Return a sampler for one trial: what it suggests follows from the trials so far and the seed alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the constant liar is marked as experimental
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)
