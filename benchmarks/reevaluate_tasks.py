"""Evaluate a run again after each of its tasks, with other settings of the inference.

usage: python benchmarks/reevaluate_tasks.py RUN CHECKPOINTS OUT --data-root DATA --set shift_tta=2

Training does not read these settings, so that the result is the one of a run with them; others are refused. RUN is the
folder of a finished run, CHECKPOINTS one with its checkpoint after each task: after-1.safetensors, after-2.safetensors
and so on, copied while it ran. OUT is the file of the new result.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from itaml.config import parse_overrides
from itaml.data.stream import Task
from itaml.errors import UsageError
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.result import Result, TaskRow
from itaml.experiment.result_assembly import CURVE, assemble, task_row
from itaml.experiment.run_config import RunConfig
from itaml.experiment.run_folder import KIND
from itaml.experiment.sweep.parameters import SWEEP_PARAMETERS
from itaml.inference import between_tasks
from itaml.learners import LEARNERS
from itaml.learners.learner import GradientLearner
from itaml.metrics.evaluate import evaluate
from itaml.storage import load_state

ALIGN = "align_head"  # needs Gaussians of the classes, which follow from the checkpoints


def check(method: str, names: list[str]) -> None:
    """Refuse settings that training reads."""
    read = LEARNERS.load(method).traits.read_in_training
    for name in names:
        at_inference = name in SWEEP_PARAMETERS and SWEEP_PARAMETERS[name].at_inference and name not in read
        if not at_inference and name != ALIGN:
            raise UsageError(f"training of {method} depends on {name}: run it again instead")


def next_state(learner: GradientLearner, task: Task, file: Path) -> None:
    """Restore the learner after a task from that before it, with what inference carries along from task to task."""
    images = learner.with_exemplars(task.train)
    if task.index:
        between_tasks.before_task(learner.predictor, images)
    carried = between_tasks.state_of(learner.predictor)
    learner.load_state_dict(load_state(file, kind=KIND)["learner"] | carried)
    between_tasks.after_task(learner.predictor, task, images)
    learner.clear_caches()


def main() -> None:
    """Evaluate after every task and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    result, overrides = Result.load(args.run), parse_overrides(args.set)
    check(result.method, list(overrides))
    before = RunConfig.model_validate(result.config)
    config = before.model_copy(update={"settings": {**before.settings, **overrides}})
    stream = make_stream(config, data_root=args.data_root)
    learner = make_learner(config, stream)
    assert isinstance(learner, GradientLearner), f"{config.method} is not trained by gradient steps"
    rows: list[TaskRow] = []
    for old in result.tasks:
        seen = old.index + 1
        next_state(learner, stream[old.index], args.checkpoints / f"after-{seen}.safetensors")
        sizes = sorted({*config.p, *CURVE}) if seen == len(stream) else config.p
        last = evaluate(learner, stream, seen=seen, continuum_sizes=sizes, seed=config.seeds.continua)
        row = task_row(
            old.index, stream, last, sizes=config.p, epochs=old.epochs or 0, seconds=old.train_seconds, measures={}
        )
        measures = {**old.measures, **row.measures}
        rows.append(row.model_copy(update={"measures": measures, "peak_memory_mb": old.peak_memory_mb}))
        print(seen, {p: round(100 * accuracy.classes, 2) for p, accuracy in row.continuum.items()}, flush=True)
    assemble(config, stream, rows, last).save(args.out)


if __name__ == "__main__":
    main()
