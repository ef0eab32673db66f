"""`itaml bound`: Algorithm 4, the number of samples that a continuum needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.options import Json

if TYPE_CHECKING:
    from itaml.inference.bound import Rounding

MAX_TASKS = 1_000_000


def command(
    accuracy: Annotated[
        float | None, typer.Option(help="Class accuracy of single samples, 0 to 1 (P0 in the paper).")
    ] = None,
    accuracies: Annotated[
        str | None,
        typer.Option(
            help="Instead of --accuracy: class accuracy of single samples after each task, such as 0.9,0.8,0.7; "
            "P0 is then mean - (1 - 1/e)(max - min), as the authors computed it."
        ),
    ] = None,
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
    rounding: Annotated[
        str,
        typer.Option(help="How n/t, the samples that chance gives a task, becomes an integer: round or floor."),
    ] = "round",
    as_json: Json = False,
) -> None:
    """Compute how many samples of one unknown task are needed to predict that task.

    This is Algorithm 4 of the paper, which assumes that wrong predictions are spread evenly over the other classes.
    The paper's n = 17 for CIFAR-100 needs --rounding floor and --accuracies.
    """
    from itaml.cli.formatting import count
    from itaml.inference.bound import continuum_size, own_task_probability, task_accuracy

    sizes = _sizes(classes_per_task, tasks, split)
    accuracy = _accuracy(accuracy, accuracies)
    how = _rounding(rounding)
    result: dict[str, float | str] = {
        "accuracy": accuracy,
        "tasks": len(sizes),
        "classes": sum(sizes),
        "own_task_probability": own_task_probability(accuracy, sizes),
        "rounding": how,
    }
    if samples is None:
        n = continuum_size(accuracy=accuracy, sizes=sizes, gamma=gamma, rounding=how)
        result |= {"gamma": gamma, "n": n}
    else:
        n = samples
        result["n"] = n
    result["task_accuracy"] = task_accuracy(n, accuracy=accuracy, sizes=sizes, rounding=how)
    if as_json:
        print(json.dumps(result))
        return
    probability = f"{result['task_accuracy']:.4f}"
    print(f"{count(n, 'sample')} of one task: the task is predicted correctly with probability {probability}")
    print(f"(with a single sample: {result['own_task_probability']:.4f})")


def _accuracy(accuracy: float | None, accuracies: str | None) -> float:
    """Return P0: as given, or from the accuracies after each task."""
    from itaml.errors import UsageError
    from itaml.inference.bound import minimum_accuracy

    if accuracy is not None and accuracies is None:
        return accuracy
    if accuracies is None or accuracy is not None:
        raise UsageError("give either --accuracy or --accuracies")
    try:
        return minimum_accuracy([float(word) for word in accuracies.split(",")])
    except ValueError as error:
        raise UsageError(f"--accuracies must be numbers separated by commas (got {accuracies!r})") from error


def _rounding(name: str) -> Rounding:
    from itaml.errors import UsageError

    known: dict[str, Rounding] = {"round": "round", "floor": "floor"}
    if name not in known:
        raise UsageError(f"--rounding must be round or floor (got {name!r})")
    return known[name]


def _sizes(classes_per_task: int | None, tasks: int | None, split: str | None) -> list[int]:
    from itaml.cli.options import parse_split
    from itaml.errors import UsageError

    if split is not None:
        if classes_per_task is not None or tasks is not None:
            raise UsageError("give either --split, or --classes-per-task and --tasks")
        return list(parse_split(split))
    if classes_per_task is None or tasks is None:
        raise UsageError("--classes-per-task and --tasks are needed (or --split)")
    if not 1 <= tasks <= MAX_TASKS:
        raise UsageError(f"--tasks must be from 1 to {MAX_TASKS:,} (got {tasks})")
    return [classes_per_task] * tasks
