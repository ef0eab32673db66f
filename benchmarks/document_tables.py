"""The tables of the documents, one function each."""

from __future__ import annotations

import re
import statistics

from commands import rows as commands_rows
from document_parts import METRICS, RESULTS, cell, load, runs, summary, summary_of_known, table, with_quartiles

from itaml.experiment.result import Result
from itaml.migration import current_text


def step_ratio() -> str:
    ratios = load("step-ratio")["ratios"]
    return table(
        ["network", "tasks seen", "fused / joint (quartiles)", "batched / joint", "loop / joint"],
        (
            [
                network,
                tasks,
                with_quartiles(row["fused / joint"]),
                *(f"{row[name]['median']:.2f}" if name in row else "-" for name in ("batched / joint", "loop / joint")),
            ]
            for network, by_tasks in ratios.items()
            for tasks, row in by_tasks.items()
        ),
    )


def torchrun() -> str:
    if not (RESULTS / "torchrun.json").exists():
        return ""
    found = load("torchrun")
    names = {
        "speedup_over_one_thread": "2 processes of 1 thread / 1 process of 1 thread",
        "speedup_over_two_threads": "2 processes of 1 thread / 1 process of 2 threads",
        "speedup_over_one_thread_by_gloo": "2 processes that use gloo for all messages / 1 process of 1 thread",
        "speedup_over_one_thread_without_messages": "2 processes without messages (the bound) / 1 process of 1 thread",
    }
    what = f"{found['network']}, batch {found['batch']}"
    rows = [[f"{what}: images per second, {name}", with_quartiles(found[key])] for key, name in names.items()]
    work = found["cpu_work_of_one_thread_over_that_of_each_process"]
    share = found["share_in_messages"]
    rows += [
        [f"{what}: CPU time of 1 process / CPU time of each of 2", with_quartiles(work)],
        ["share of a step in messages (least)", f"{share['median']:.2f} ({share['least']:.2f})"],
        ["cores; load average before and after", f"{found['cores']}; {' and '.join(map(str, found['load_average']))}"],
        ["scheduling of the processes", found.get("scheduling", "normal")],
    ]
    return table(["measured", "median (quartiles)"], rows)


def adaptation() -> str:
    rows = []
    for row in load("adaptation")["rows"]:
        off = row["adapt_scope"] == "off"
        how = "none" if off else f"{row['adapt_scope']}, {row['adapt_optimizer']} {row['adapt_lr']:g}"
        rows.append(
            [row["network"], how, "" if off else "yes" if row["adapt_guard"] else "no", summary(row["task_aware"])]
        )
    return table(["network", "weights and optimiser", "guard", "task-aware"], rows)


def presets() -> str:
    metrics = ["class@1", "class@20", "task@20", "task-aware", "no-update"]
    rows = []
    for benchmark in ("digits", "mnist-5"):
        for preset in ("best", "best-in-bf16", "paper", "released"):
            results = runs(benchmark, "itaml", preset)
            if not results and preset == "best-in-bf16":
                continue  # measured on digits alone
            rows.append([benchmark, preset, str(len(results)), *(cell(results, metric) for metric in metrics)])
    return table(["benchmark", "preset", "seeds", *metrics], rows)


def released() -> str:
    rows = []
    for run in load("released-mnist")["runs"]:
        each = [100 * task["continuum"]["1"]["class"] for task in run["tasks"]]
        ended = run["ended"].partition(":")[0]
        ended = re.sub(r"task (\d+)", lambda match: f"task {int(match.group(1)) + 1}", ended)  # the file counts from 0
        rows.append([str(run["seed"]), ", ".join(f"{value:.1f}" for value in each), ended])
    return table(["seed", "class@1 after each task", "then"], rows)


def rescue() -> str:
    metrics = ["task@1", "task@20", "class@20"]
    rows = []
    for negatives in ("own", "seen"):
        for score in ("max-logit", "log-posterior", "calibrated"):
            results = runs("digits-scores", "itaml", f"{negatives}-{score}")
            rows.append([negatives, score, str(len(results)), *(cell(results, metric) for metric in metrics)])
    return table(["negatives", "task score", "seeds", *metrics], rows)


def with_unit(name: str, results: list[Result]) -> str:
    """Return a row's name, marked if its memory is counted in bytes: a protocol of its own."""
    budgets = {result.config["settings"].get("memory_bytes", 0) for result in results} - {0}
    return f"{name} (memory in bytes: {', '.join(f'{one:,}' for one in sorted(budgets))})" if budgets else name


def comparison(benchmark: str) -> str:
    """Return every method's numbers on a benchmark beside the published one."""
    from itaml.learners import LEARNERS
    from itaml.report.published import figures

    metrics = ["class@1", "class@20", "task@20", "task-aware"]
    rows = []
    for method in LEARNERS.names():
        published = figures(benchmark, method)
        shown = f"{100 * published[0].value:.2f} (p={published[0].p})" if published else "-"
        names = {re.sub(r"-seed\d+$", "", path.stem) for path in (RESULTS / benchmark).glob(f"{method}-*-seed*.json")}
        for name in sorted(names):
            preset = name.removeprefix(f"{method}-")
            results = [r for r in runs(benchmark, method, preset) if r.method == method]
            if not results:
                continue
            seconds = statistics.mean(t.train_seconds for r in results for t in r.tasks)
            numbers = [cell(results, metric) for metric in metrics]
            beside = shown if results[0].memory_unit == "images" else "-"  # as everything that was published
            rows.append(
                [f"`{method}`", with_unit(preset, results), str(len(results)), *numbers, f"{seconds:.1f}", beside]
            )
    return table(["method", "preset", "seeds", *metrics, "seconds per task", "published class accuracy"], rows)


RECIPE = "shifts, balanced logits, distillation, 12 epochs"
PLAIN = "crops, 10 epochs (recipe `plain`)"
FLIPS = "crops and flips, 10 epochs (recipe `plain`)"
HEADLINE = {  # folders of results with the methods of the headline, their presets and recipes
    "mnist-5": (
        ("itaml", "best", RECIPE),
        ("replay", "strong", RECIPE),
        ("joint", "strong", f"{RECIPE}; keeps everything"),
        ("itaml", "paper", "the paper's settings"),
    ),
    "svhn10k-5-16px-plain": (
        ("itaml", "best", PLAIN),
        ("replay", "best", PLAIN),
        ("joint", "best", f"{PLAIN}; keeps everything"),
    ),
    "cifar100-10-16px-plain": (
        ("itaml", "best", FLIPS),
        ("replay", "best", FLIPS),
    ),
    "cifar100-10": (
        (
            "itaml",
            "best",
            "strong augmentation, balanced logits, distillation, progressive resizing, averaged views, aligned head",
        ),
    ),
}


def headline() -> str:
    """Return the numbers on the paper's data sets that were measured, beside the paper's."""
    from itaml.report.published import figures

    rows = []
    for folder, methods in HEADLINE.items():
        benchmark = folder.removesuffix("-plain")
        for method, preset, recipe in methods:
            results = runs(folder, method, preset)
            numbers = [cell(results, metric) for metric in ("class@1", "class@20")]
            if not results:
                continue  # not measured yet
            in_images = results[0].memory_unit == "images"
            figure = figures(benchmark, "itaml")[:1] if method == "itaml" and in_images else []
            published = f"{100 * figure[0].value:.2f}" if figure else ""
            name = with_unit(f"{method}, `{preset}`" if method == "itaml" else method, results)
            rows.append([f"`{benchmark}`", name, recipe, str(len(results)), *numbers, published])
    return table(["benchmark", "method", "recipe", "seeds", "p=1", "p=20", "iTAML's paper, p=20"], rows)


def progress(benchmark: str, preset: str) -> str:
    """Return iTAML's accuracies after each task, mean over seeds, and their averages over tasks."""
    results = runs(benchmark, "itaml", preset)
    each = [[result.tasks[index] for result in results] for index in range(len(results[0].tasks))]
    columns = ["class@1", "class@20", "task@1", "task@20", "task-aware"]
    rows = [
        [str(number), *(summary_of_known(METRICS[name].after(row) for row in group) for name in columns)]
        for number, group in enumerate(each, start=1)
    ]
    means = [
        [statistics.mean(METRICS[name].after(row) or 0.0 for row in result.tasks) for result in results]
        for name in columns
    ]
    return table(["after task", *columns], [*rows, ["average", *map(summary, means)]])


def continua(benchmark: str) -> str:
    """Return the task accuracy of iTAML's presets for growing continua beside what Algorithm 4 predicts."""
    rows = []
    for preset in ("best", "mean-over-tasks"):
        results = runs(benchmark, "itaml", preset)
        sizes = sorted(results[0].final.curve) if results else []
        for p in sizes:
            points = [result.final.curve[p] for result in results]
            numbers = [
                summary_of_known(point.task for point in points),
                summary_of_known(point.bound for point in points),
                summary_of_known(point.classes for point in points),
            ]
            rows.append([preset, str(p), *numbers])
    return table(["preset", "p", "task accuracy", "Algorithm 4", "class accuracy"], rows)


def ablation(name: str) -> str:
    """Return the table that `itaml ablate` wrote."""
    lines = (RESULTS / "ablations" / name / "table.md").read_text(encoding="utf-8").splitlines()
    return current_text("\n".join(line for line in lines if line.startswith("|")))


def ten_thousand() -> str:
    found = load("ten-thousand")
    train, evaluation = found["train_seconds"], found["memory_and_evaluation_seconds"]
    classes = found["classes"] // len(train)
    rows = [
        [str(classes * number), f"{one:.1f}", f"{other:.1f}"]
        for number, (one, other) in enumerate(zip(train, evaluation, strict=True), start=1)
    ]
    return table(["classes seen", "seconds of training", "seconds of exemplar selection and evaluation"], rows)


def speed() -> str:
    rows = []
    for part, ratios in load("speed")["ratios"].items():
        for name, value in ratios.items():
            what = current_text(name)
            shown = with_quartiles(value) if "quartiles" in value else f"{value['median']:g}"
            rows.append([part, what, shown])
    for benchmark in ("mnist-5", "cifar100-10"):
        peaks = [row.peak_memory_mb or 0.0 for result in runs(benchmark, "itaml", "best") for row in result.tasks]
        rows.append(["memory", f"largest resident memory of `itaml run {benchmark}`, MB", f"{max(peaks):.0f}"])
    return table(["part", "ratio", "median (quartiles)"], rows)


def metrics() -> str:
    """Return every metric with its meaning and the direction in which it is better."""
    return table(
        ["metric", "key", "unit", "better", "meaning"],
        (
            [m.title, f"`{m.key}`", m.format.unit, "" if m.direction == "neither" else m.direction, m.meaning]
            for m in METRICS.values()
        ),
    )


def commands() -> str:
    """Return the command that repeats each row of the other tables."""
    return table(["results", "row", "seeds", "command"], commands_rows())


def attacks() -> str:
    """Return the attacks, how often each was tried, and how often it did harm."""
    found = load("attacks")["attacks"].values()
    rows = [[row["title"], f"{row['trials']:,}", str(row["failures"])] for row in found]
    return table(["attack", "trials", "failures"], rows)
