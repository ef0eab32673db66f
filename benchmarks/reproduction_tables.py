"""The tables of docs/reproduction.md, one function each."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import authors_curves
from document_parts import METRICS, RESULTS, cell, load, runs, summary_of_known, table

from itaml.experiment.result import Result


def after_each_task(folder: str, logs: Mapping[str, list[float]]) -> str:
    """Return the class accuracy after each of five tasks, beside the authors' logs.

    Args:
        folder: folder of the results.
        logs: the authors' accuracy after each task, by p; empty where they logged none.
    """
    rows = []
    for p, log in logs.items():
        if log:
            rows.append([f"the authors' log, p={p}", "1", *(f"{value:g}" for value in log)])
        for preset in ("paper", "paper-sgd", "released", "best"):
            results = runs(folder, "itaml", preset)
            if results:
                each = [
                    summary_of_known(METRICS[f"class@{p}"].after(result.tasks[index]) for result in results)
                    for index in range(len(results[0].tasks))
                ]
                rows.append([f"`{preset}`, p={p}", str(len(results)), *each])
    return table(["class accuracy after task", "seeds", "1", "2", "3", "4", "5"], rows)


def seeds() -> str:
    """Return each seed of the presets on MNIST, because the mean hides how far seeds differ."""
    rows = []
    for preset in ("paper", "released"):
        for result in runs("mnist-5", "itaml", preset):
            numbers = [METRICS[name].value_of(result) for name in ("class@1", "class@20", "task@20", "task-aware")]
            rows.append([f"`{preset}`", str(result.seed), *map(summary_of_known, ([value] for value in numbers))])
    return table(["preset", "seed", "class@1", "class@20", "task@20", "task-aware"], rows)


def optimiser() -> str:
    """Return the two optimisers of the method as written, and the preset best, on MNIST."""
    names = ("class@1", "class@20", "task@20", "task-aware")
    rows = []
    for preset in ("paper", "paper-radam", "best"):
        results = runs("mnist-5", "itaml", preset)
        rows.append([f"`{preset}`", str(len(results)), *(cell(results, name) for name in names)])
    return table(["preset", "seeds", *names], rows)


def _column(seeds: list[dict[str, Any]], key: str) -> str:
    return summary_of_known(seed.get(key) for seed in seeds)


def _by_task(seeds: list[dict[str, Any]], key: str, *, percent: bool) -> str:
    lists = [seed[key] for seed in seeds if seed.get(key)]
    means = [statistics.mean(values) for values in zip(*lists, strict=True)]
    return ", ".join(f"{100 * value:.0f}" if percent else f"{value:.2f}" for value in means)


def what_matters() -> str:
    """Return one setting changed at a time."""
    rows = []
    for row in load("reproduction-mnist")["rows"]:
        each = row["seeds"]
        numbers = [_column(each, key) for key in ("class@1", "class@20", "task_aware")]
        by_task = _by_task(each, "class_by_task@20", percent=True)
        rows.append([row["variant"], str(len(each)), *numbers, by_task, _by_task(each, "head_norms", percent=False)])
    head = ["change", "seeds", "class@1", "class@20", "task-aware", "class@20 of tasks 1 to 5", "norm of heads 1 to 5"]
    return table(head, rows)


def trials() -> str:
    """Return the trials on validation images."""
    rows = []
    for trial in load("choose-paper-mnist")["trials"]:
        each = trial["seeds"]
        failed = [seed for seed in each if "failed" in seed]
        numbers = ["diverged"] * 2 if failed else [_column(each, key) for key in ("class@1", "class@20")]
        rows.append([f"`{trial['preset']}`", trial["trial"], str(len(each)), *numbers])
    return table(["preset", "trial", "seeds", "class@1", "class@20"], rows)


def cifar_trials(trials_name: str = "cifar-trials") -> str:
    """Return the small trials of ingredients for CIFAR-100, on validation images."""
    rows = []
    for name, trial in load(trials_name)["trials"].items():
        last = trial["after_each_task"][-1]
        each = ", ".join(f"{100 * value:.1f}" for value in last["by_task"])
        first = 100 * trial["after_each_task"][0]["class@1"]
        rows.append([name, f"{first:.1f}", f"{100 * last['class@1']:.1f}", each, f"{100 * last['class@20']:.1f}"])
    return table(["trial", "class@1 after task 1", "class@1 after task 3", "of tasks 1, 2, 3", "class@20"], rows)


def cifar_inference(trials_name: str = "cifar-trials-32px") -> str:
    """Return what the trained learners of trials reach with other settings of the inference."""
    rows = []
    for name, trial in load(trials_name)["trials"].items():
        for one in trial["inference"]:
            settings, each = one["settings"], ", ".join(f"{100 * value:.1f}" for value in one["by_task"])
            numbers = [f"{100 * one[key]:.1f}" for key in ("class@1", "class@20")]
            rows.append([name, f"{settings['shift_tta']}", f"{settings['align_head']:g}", *numbers, each])
    return table(["trained as", "`shift_tta`", "`align_head`", "class@1", "class@20", "of each task"], rows)


def store_recipe() -> str:
    """Return the trials of ingredients for a model on disk that is trained from scratch."""
    found = load("store-recipe")["trials"]
    rows = [[name, str(len(trial["class@1"])), summary_of_known(trial["class@1"])] for name, trial in found.items()]
    return table(["trial", "seeds", "accuracy"], rows)


def cifar_splits() -> str:
    """Return CIFAR-100 in 5, 10 and 20 tasks beside published figures: average / last at p=1, and last at p=20."""
    rows = []
    for tasks in (5, 10, 20):
        for path in sorted((RESULTS / f"cifar100-{tasks}").glob("itaml-best*-seed0.json")):
            result = Result.load(path)
            if result.memory_unit != "images":
                continue  # a protocol of its own, never beside published figures
            average, last = result.final.average_incremental[1], result.final.continuum[1].classes
            name = f"iTAML, `{path.stem.removeprefix('itaml-').removesuffix('-seed0')}`"
            p20 = f"{100 * result.final.continuum[20].classes:.2f}"
            rows.append([str(tasks), name, f"{100 * average:.2f} / {100 * last:.2f}", p20])
        rows.append([str(tasks), "iTAML, the authors' logs", "-", authors_curves.SPLITS_P20[tasks]])
        for name, figures in authors_curves.PUBLISHED_SPLITS.items():
            rows.append([str(tasks), f"{name}, published", "{:g} / {:g}".format(*figures[tasks]), "-"])
    return table(["tasks", "method", "average / last, p=1", "last, p=20"], rows)


def tuned(study_name: str = "tune-released-mnist") -> str:
    """Return the trials of `itaml tune` for a preset, those that were not finished too."""
    study = load(study_name)
    names = list(study["trials"][0]["settings"])
    rows = []
    for trial in [*study["trials"], *study["unfinished"]]:
        values = [f"{trial['settings'][name]:g}" for name in names]
        rows.append([*values, str(len(trial["values"])), summary_of_known(trial["values"])])
    return table([*names, "seeds", "class@20"], rows)


def authors_cifar() -> str:
    """Return the authors' log of CIFAR-100 by the size of continua."""
    rows = ([p, f"{classes:g}", f"{tasks:g}"] for p, (classes, tasks) in authors_curves.CIFAR_BY_P.items())
    return table(["p", "class accuracy", "task accuracy"], rows)


def authors_figure5() -> str:
    """Return the last values of the authors' Figure 5 (CIFAR-100, ten tasks), and ours where a method was run."""
    rows = []
    for method, values in authors_curves.FIGURE5.items():
        rows.append([method, "the authors' log", "1", *(f"{value:g}" for value in values)])
        results = runs("cifar100-10", method, "best")
        if results:
            numbers = [cell(results, name) for name in ("class@20", "task-aware", "no-update")]
            rows.append([method, "ours, `best`", str(len(results)), *numbers])
    return table(["method", "whose", "seeds", "task-agnostic, p=20", "task-aware", "no update"], rows)


def authors_after_each_task() -> str:
    """Return the authors' logs after each task of CIFAR-100 and SVHN."""
    rows = [[f"CIFAR-100, p={p}", *(f"{value:g}" for value in log)] for p, log in authors_curves.CIFAR.items()]
    svhn = authors_curves.SVHN["20"]
    rows.append(["SVHN, p=20", *(f"{value:g}" for value in svhn), *[""] * (10 - len(svhn))])
    return table(["class accuracy after task", *map(str, range(1, 11))], rows)
