"""From evaluations to a `Result`: one row per task, and the numbers of the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from itaml.data.stream import TaskStream
from itaml.experiment.environment import environment
from itaml.experiment.result import Accuracy, CurvePoint, Final, Result, TaskRow
from itaml.experiment.run_config import RunConfig
from itaml.hardware.machine import peak_memory_mb
from itaml.inference.bound import task_accuracy
from itaml.metrics.evaluate import ContinuumAccuracy, Evaluation
from itaml.metrics.matrix import average_incremental, forgetting, square
from itaml.metrics.metric import PERCENT
from itaml.metrics.metric_registry import metrics

CURVE = (1, 2, 5, 10, 20, 50, 100)  # continuum sizes of the final curve


def task_row(
    index: int,
    stream: TaskStream,
    evaluation: Evaluation,
    *,
    sizes: Sequence[int],
    epochs: int,
    seconds: float,
    measures: Mapping[str, float | None],
) -> TaskRow:
    """Return the entry of one task: accuracies on everything seen so far, after learning it.

    Args:
        index: number of the task.
        stream: what is learned.
        evaluation: what was measured after the task, with at least these sizes.
        sizes: sizes of continua that the row shows.
        epochs: how many the task took.
        seconds: how long they took.
        measures: what was measured before the task, by key.
    """
    peak = peak_memory_mb()
    return TaskRow(
        index=index,
        classes=[stream.class_names[c] for c in stream.splits[index]],
        epochs=epochs,
        train_seconds=round(seconds, 3),
        peak_memory_mb=None if peak is None else round(peak, 1),
        continuum={p: _accuracy(evaluation.at[p]) for p in sizes},
        task_aware=evaluation.task_aware,
        no_update=evaluation.no_update,
        class_by_task={p: evaluation.at[p].by_task for p in sizes},
        measures={**measures, **evaluation.measures},
    )


def assemble(config: RunConfig, stream: TaskStream, rows: Sequence[TaskRow], last: Evaluation) -> Result:
    """Return the whole result of a finished run; `last` is the final evaluation over the sizes of `CURVE` too."""
    matrices = {p: square([row.class_by_task[p] for row in rows]) for p in config.p}
    final = Final(
        continuum=rows[-1].continuum,
        task_aware=rows[-1].task_aware,
        no_update=rows[-1].no_update,
        average_incremental={p: average_incremental([row.continuum[p].classes for row in rows]) for p in config.p},
        forgetting=forgetting(matrices[1]),
        forgetting_at={p: forgetting(matrix) for p, matrix in matrices.items()},
        curve=curve(last, stream),
        per_class={stream.class_names[c]: value for c, value in last.by_class.items()},
        task_confusion=last.task_confusion,
    )
    result = Result(
        benchmark=config.benchmark,
        method=config.method,
        preset=config.preset,
        seed=config.seed,
        evaluated_on=f"{config.validation:g} of the training data" if config.validation else "test data",
        config=config.model_dump(mode="json"),
        environment=environment(),
        tasks=list(rows),
        final=final,
        accuracy_matrix=matrices[1],
        accuracy_matrices=matrices,
    )
    quality = [metric for metric in metrics(config.p) if metric.format is PERCENT]  # costs differ from run to run
    values = {metric.key: metric.value_of(result) for metric in quality}
    return result.model_copy(update={"final": final.model_copy(update={"metrics": values})})


def curve(last: Evaluation, stream: TaskStream) -> dict[int, CurvePoint]:
    """Return accuracies by p, with what Algorithm 4 predicts from the class accuracy at the smallest p."""
    single = last.at[min(last.at)].classes
    sizes = [len(classes) for classes in stream.splits]
    return {
        p: CurvePoint(classes=at.classes, task=at.tasks, bound=task_accuracy(p, accuracy=single, sizes=sizes))
        for p, at in sorted(last.at.items())
    }


def _accuracy(at: ContinuumAccuracy) -> Accuracy:
    return Accuracy(classes=at.classes, task=at.tasks)
