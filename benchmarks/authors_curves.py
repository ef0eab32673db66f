"""What the authors logged: the outputs of the notebooks in the first commit (44bde88) of their repository, in per cent.

Curves are after each task; a list with one value is the value after the last task.
"""

from __future__ import annotations

from itaml.report.charts import Series

MNIST = {"20": [99.95, 99.62, 98.97, 99.33, 97.95], "1": [99.95, 94.1, 81.8, 74.1, 62.2]}
SVHN = {"20": [98.92, 97.47, 97.29, 97.55, 93.97]}
CIFAR = {  # ten tasks, the run behind 77.79
    "20": [89.1, 88.9, 87.0, 85.8, 84.4, 81.7, 80.0, 78.9, 78.6, 77.8],
    "1": [89.1, 75.2, 68.0, 58.3, 52.8, 47.3, 41.5, 38.7, 35.6, 33.7],
}
CIFAR_BY_P = {  # class and task accuracy after ten tasks
    "1": (33.4, 35.3),
    "2": (42.0, 48.4),
    "5": (59.6, 72.9),
    "10": (71.1, 88.9),
    "15": (75.3, 94.8),
    "20": (77.79, 98.0),
    "50": (79.2, 100.0),
}
FIGURE5 = {  # CIFAR-100, ten tasks: task-agnostic at p=20, task-aware, no update
    "itaml": (74.76, 77.09, 31.93),
    "reptile": (10.81, 71.10, 21.28),
    "fomaml": (8.15, 69.59, 19.15),
    "joint": (18.04, 74.27, 34.66),
}
PUBLISHED_P1 = {"icarl": 49.5, "bic": 50.8, "wa": 52.3, "foster": 53.2}  # last accuracy, ResNet-32, ten tasks, p=1
PUBLISHED_SPLITS = {  # CIFAR-100, 2,000 exemplars, ResNet-32, p=1: average and last accuracy, by number of tasks
    "iCaRL": {5: (67.0, 54.2), 10: (64.4, 49.5), 20: (63.5, 45.1)},
    "BiC": {5: (67.0, 56.2), 10: (65.1, 50.8), 20: (62.4, 43.1)},
    "WA": {5: (68.5, 58.0), 10: (67.1, 52.3), 20: (64.7, 48.5)},
    "FOSTER": {5: (68.6, 58.7), 10: (66.5, 53.2), 20: (63.4, 49.4)},
    "DER (a growing network)": {5: (70.8, 62.4), 10: (69.7, 58.6), 20: (68.0, 54.0)},
}
SPLITS_P20 = {5: "72.33", 10: "77.79", 20: "63.98 to 79.53 (seven runs)"}  # the authors' logs


def curve(name: str, values: list[float], *, tasks: int, style: int = -1) -> Series:
    """Return a published line; a single value stands at the last task."""
    start = 1 if len(values) > 1 else tasks
    return Series(name, list(range(start, start + len(values))), values, style=style)
