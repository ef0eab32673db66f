"""The only loop over tasks: learn, evaluate, save; and go on after an interruption to the same bits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from itaml import distributed
from itaml.data.ownership import is_remote
from itaml.data.stream import Task, TaskStream
from itaml.errors import InterruptedRunError
from itaml.events import Callback, EpochDone, Event, TaskStarted
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.event_log import EventLog, RunDone, RunStarted, TaskDone
from itaml.experiment.forward_transfer import ForwardTransfer
from itaml.experiment.result import Result, TaskRow
from itaml.experiment.result_assembly import CURVE, assemble, task_row
from itaml.experiment.run_config import RunConfig
from itaml.experiment.run_folder import (
    CHECKPOINT,
    CONFIG,
    EVENTS,
    KIND,
    RESULT,
    delete_run,
    inspect_folder,
    load_finished,
)
from itaml.learners.api import Learner
from itaml.metrics.evaluate import Evaluation, evaluate
from itaml.safe_files import sweep, write_json
from itaml.storage import State, load_state, save_state


def run_experiment(
    config: RunConfig,
    folder: Path | str,
    *,
    data_root: Path | str | None = None,
    resume: bool = False,
    force: bool = False,
    callbacks: Sequence[Callback] = (),
    checkpoint_seconds: float = 30.0,
    stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Run a configuration and return its result, which is also written to `folder/result.json`.

    Under torchrun the processes share the work of one run, and the first one reads and writes the folder, and calls the
    callbacks.

    Args:
        config: what to run.
        folder: where everything about the run is kept.
        data_root: where data sets lie, for benchmarks that need one.
        resume: go on with an unfinished run in `folder`; a finished one is returned as it is.
        force: delete a run that is in `folder`.
        callbacks: called with every event.
        checkpoint_seconds: save after an epoch when the last checkpoint is older than this; 0 saves after every epoch.
        stop: called after every epoch; if it returns True, the run is saved and ended.

    Raises:
        RunExistsError: the folder holds a run and neither `resume` nor `force` was given.
        CheckpointError: what is there cannot be resumed, because it is damaged or of another configuration.
        InterruptedRunError: `stop` returned True.
    """
    folder = Path(folder)
    distributed.start()
    if distributed.restarts():  # torchrun repeats the command after it has lost a process
        resume, force = True, False
    if distributed.on_main(lambda: inspect_folder(config, folder, resume=resume, force=force)):
        return distributed.on_main(lambda: load_finished(folder))
    with nullcontext() if is_remote(config.benchmark) else distributed.one_first():
        stream = make_stream(config, data_root=data_root)
    learner = make_learner(config, stream)  # whatever is impossible has been refused by now, and nothing written
    distributed.on_main(lambda: _prepare(config, folder, force=force))
    run = _Run(
        config,
        folder,
        stream=stream,
        learner=learner,
        callbacks=callbacks,
        checkpoint_seconds=checkpoint_seconds,
        stop=stop,
    )
    return run.go()


def _prepare(config: RunConfig, folder: Path, *, force: bool) -> None:
    """Make the run's folder, without a run that is to be deleted, and write the configuration."""
    if force and folder.exists():
        delete_run(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    if not (folder / CONFIG).exists():
        write_json(folder / CONFIG, config.model_dump(mode="json"), checksum=True)


class _Run:
    """One pass through the stream; holds what is saved: the rows of finished tasks, and what the present one took."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        *,
        stream: TaskStream,
        learner: Learner,
        callbacks: Sequence[Callback],
        checkpoint_seconds: float,
        stop: Callable[[], bool],
    ) -> None:
        self.config, self.folder, self.stream, self.learner = config, folder, stream, learner
        self.callbacks: list[Callback] = [EventLog(folder / EVENTS), *callbacks] if distributed.is_main() else []
        self.checkpoint_seconds = checkpoint_seconds
        self.stop: Callable[[], bool] = lambda: distributed.any_true(stop())  # all processes stop after the same epoch
        self.rows: list[TaskRow] = []
        self.last: Evaluation | None = None  # after the last task, with the sizes of the curve
        self.transfer = ForwardTransfer(learner, stream)
        self.epochs = 0  # of the task under way
        self.spent = 0.0  # seconds on the task under way
        self.saved_at = time.monotonic()
        if hasattr(learner, "callback"):
            learner.callback = self.on_event

    def go(self) -> Result:
        state = distributed.on_main(self.read_checkpoint)
        if state is not None:
            self.restore(state)
        c = self.config
        self.notify(RunStarted(c.benchmark, c.method, c.preset, c.seed, len(self.stream), state is not None))
        for task in self.stream[len(self.rows) :]:
            self.learn(replace(task, index=len(self.rows)))
            if self.stop() and len(self.rows) < len(self.stream):
                raise InterruptedRunError(f"stopped after task {len(self.rows)} of {len(self.stream)}")
        last = self.last or self.evaluate(len(self.stream))  # a run may have ended between last row and result
        assembled = assemble(c, self.stream, self.rows, last)
        result = distributed.on_main(lambda: assembled.save(self.folder / RESULT))
        self.notify(RunDone(result.final))
        return result

    def learn(self, task: Task) -> None:
        """Learn one task, evaluate, and save."""
        before = self.transfer.before(task)
        self.learner.learn(task)
        evaluation = self.evaluate(task.index + 1)
        row = task_row(
            task.index,
            self.stream,
            evaluation,
            sizes=self.config.p,
            epochs=self.epochs,
            seconds=self.spent,
            measures=before,
        )
        self.rows.append(row)
        self.epochs, self.spent = 0, 0.0
        self.transfer.learned()
        self.save()
        self.notify(TaskDone(task.index, row))

    def evaluate(self, seen: int) -> Evaluation:
        """Evaluate on the first `seen` tasks; on all of them, with the sizes of the curve as well."""
        whole = seen == len(self.stream)
        sizes = sorted({*self.config.p, *CURVE}) if whole else self.config.p
        evaluation = evaluate(
            self.learner, self.stream, seen=seen, continuum_sizes=sizes, seed=self.config.seeds.continua
        )
        self.last = evaluation if whole else None
        return evaluation

    def on_event(self, event: Event) -> None:
        """Pass a learner's event on, with class names and steps, and save after an epoch if it is time."""
        if isinstance(event, TaskStarted):
            event = replace(event, classes=tuple(self.stream.class_names[int(c)] for c in event.classes))
        if not isinstance(event, EpochDone):
            self.notify(event)
            return
        self.notify(replace(event, step=self.epochs_before(event) + event.epoch))
        self.epochs = event.epoch
        self.spent += event.seconds
        stopping = self.stop()
        if stopping or time.monotonic() - self.saved_at >= self.checkpoint_seconds:
            self.save()
        if stopping:
            where = f"task {event.task + 1} of {len(self.stream)}, epoch {event.epoch} of {event.epochs}"
            raise InterruptedRunError(f"stopped after {where}")

    def epochs_before(self, event: EpochDone) -> int:
        """Return how many epochs the finished tasks had; rows of old checkpoints do not say, and count as this task."""
        return sum(event.epochs if row.epochs is None else row.epochs for row in self.rows)

    def notify(self, event: Event) -> None:
        for callback in self.callbacks:
            callback(event)

    def read_checkpoint(self) -> State | None:
        checkpoint = self.folder / CHECKPOINT
        return load_state(checkpoint, kind=KIND) if checkpoint.exists() else None

    def save(self) -> None:
        if not distributed.is_main():
            return
        state = {
            "rows": [row.to_dict() for row in self.rows],
            "epochs": self.epochs,
            "spent": self.spent,
            "transfer": self.transfer.state_dict(),
            "learner": self.learner.state_dict(),
        }
        save_state(self.folder / CHECKPOINT, state, kind=KIND)
        self.saved_at = time.monotonic()

    def restore(self, state: State) -> None:
        self.rows = [TaskRow.model_validate(row) for row in state["rows"]]
        self.epochs, self.spent = state.get("epochs", 0), state["spent"]
        self.transfer.load_state_dict(state.get("transfer"))
        self.learner.load_state_dict(state["learner"])
