"""`itaml bound`: Algorithm 4, the number of samples that a continuum needs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from itaml.cli.options import Json


def command(
    accuracy: Annotated[float, typer.Option(help="Class accuracy of single samples, 0 to 1 (P0 in the paper).")],
    classes_per_task: Annotated[int | None, typer.Option(help="Classes per task (U in the paper).")] = None,
    tasks: Annotated[int | None, typer.Option(help="Tasks learned so far (t in the paper).")] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Classes of each task where they differ, such as 4,3,2,1; instead of the two above."),
    ] = None,
    gamma: Annotated[float, typer.Option(help="Required probability that the task is predicted correctly.")] = 0.95,
    samples: Annotated[
        int | None, typer.Option(help="Compute the inverse: the task accuracy with this many samples.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute how many samples of one unknown task are needed to predict that task.

    This is Algorithm 4 of the paper, which assumes that wrong predictions are spread evenly over the other classes.
    """
    from itaml.cli.formatting import count
    from itaml.inference.bound import continuum_size, own_task_probability, task_accuracy

    sizes = _sizes(classes_per_task, tasks, split)
    result = {
        "accuracy": accuracy,
        "tasks": len(sizes),
        "classes": sum(sizes),
        "own_task_probability": own_task_probability(accuracy, sizes),
    }
    if samples is None:
        n = continuum_size(accuracy=accuracy, sizes=sizes, gamma=gamma)
        result |= {"gamma": gamma, "n": n}
    else:
        n = samples
        result["n"] = n
    result["task_accuracy"] = task_accuracy(n, accuracy=accuracy, sizes=sizes)
    if as_json:
        print(json.dumps(result))
        return
    probability = f"{result['task_accuracy']:.4f}"
    print(f"{count(n, 'sample')} of one task: the task is predicted correctly with probability {probability}")
    print(f"(with a single sample: {result['own_task_probability']:.4f})")


def _sizes(classes_per_task: int | None, tasks: int | None, split: str | None) -> list[int]:
    from itaml.cli.options import parse_split
    from itaml.errors import UsageError

    if split is not None:
        if classes_per_task is not None or tasks is not None:
            raise UsageError("give either --split, or --classes-per-task and --tasks")
        return list(parse_split(split))
    if classes_per_task is None or tasks is None:
        raise UsageError("--classes-per-task and --tasks are needed (or --split)")
    if tasks < 1:
        raise UsageError(f"--tasks must be at least 1, not {tasks}")
    return [classes_per_task] * tasks
