"""`itaml tune`: settings chosen on a validation split, written as a preset file."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itaml.cli.batch_runner import run_jobs
from itaml.cli.options import parse_seeds
from itaml.cli.sweep_options import SweepOptions, with_sweep_options

if TYPE_CHECKING:
    from itaml.experiment.sweep.tune import Tuner

OVER_HELP = (
    "Setting and its distribution: lr=loguniform(1e-3,1), beta=uniform(0,2), epochs=int(5,20), "
    "inner_steps=logint(1,8), batch_size=choice(32,64). Repeatable."
)


@with_sweep_options
def command(
    benchmark: Annotated[str, typer.Argument(help="Benchmark to tune on; see `itaml list benchmarks`.")],
    *,
    over: Annotated[list[str] | None, typer.Option("--over", metavar="NAME=DISTRIBUTION(...)", help=OVER_HELP)] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="Method to tune; see `itaml list methods`.")] = "itaml",
    preset: Annotated[str, typer.Option(help="Preset of all other settings; see `itaml list presets`.")] = "best",
    trials: Annotated[int, typer.Option(min=1, help="Trials in all, those of an earlier call included.")] = 20,
    objective: Annotated[
        str, typer.Option(help="Metric to improve: class_p1, class_p20, task_p20, average_incremental_p1, ...")
    ] = "class_p1",
    validation: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Share of the training data that trials are evaluated on.")
    ] = 0.1,
    prune: Annotated[
        bool, typer.Option("--prune", help="Run seeds in turn; end trials that are below the median of the others.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Preset file to write; preset.toml in the study's folder by default.")
    ] = None,
    sweep: SweepOptions,
) -> None:
    """Choose settings on a validation split of the training data; test images are never used.

    The best settings are written as a preset file, which every command accepts as --preset FILE. The study is kept:
    the command can be repeated at any time, and goes on with more trials if --trials is higher.
    """
    from itaml.errors import UsageError
    from itaml.hardware.machine import cores

    if sweep.form != "table":
        raise UsageError("a table of trials is printed as text, or with --json as JSON")
    if output is not None and output.suffix != ".toml":
        raise UsageError(f"--output {output}: the name of a preset file ends in .toml")
    each = 1 if prune else max(1, len(parse_seeds(sweep.seeds)))  # runs of a trial at a time
    at_once = max(1, (sweep.jobs or cores()) // each)
    tuner = _tuner(
        benchmark, over or [], method, preset, objective, validation, sweep, trials=trials, at_once=at_once, prune=prune
    )
    run_jobs(tuner.jobs, sweep, more=tuner.more, runs=at_once * each)
    _write(tuner, output or tuner.folder / "preset.toml", sweep)


def _tuner(
    benchmark: str,
    over: list[str],
    method: str,
    preset: str,
    objective: str,
    validation: float,
    sweep: SweepOptions,
    **options: Any,
) -> Tuner:
    from itaml.errors import UsageError
    from itaml.experiment.sweep.search_space import parse_space
    from itaml.experiment.sweep.tune import Tuner, TuneSpec

    shared = sweep.plan_arguments()
    space = parse_space(over)
    for dimension in space:
        if dimension.name in shared["overrides"]:
            raise UsageError(f"--set {dimension.name} and --over {dimension.name} contradict each other")
    seeds = tuple(dict.fromkeys(shared["seeds"]))
    if not seeds:
        raise UsageError("tuning needs at least one seed")
    rest = {"compute": shared["compute"], "recipe": shared["recipe"]}
    spec = TuneSpec(benchmark, method, preset, space, objective, seeds, validation, shared["overrides"], rest)
    return Tuner(spec, sweep.runs, force=sweep.force, **options)


def _write(tuner: Tuner, path: Path, sweep: SweepOptions) -> None:
    """Write the preset and all trials, and print them."""
    from itaml.config import load_preset
    from itaml.experiment.environment import environment
    from itaml.experiment.sweep.tuned_preset import write_preset
    from itaml.safe_files import write_json

    spec, best, records = tuner.spec, tuner.best(), tuner.records()
    own = {key: value for key, value in spec.overrides.items() if not key.startswith("seeds.")}
    settings = {**load_preset(spec.method, spec.preset, benchmark=spec.benchmark), **own, **best["settings"]}
    if spec.rest.get("recipe"):
        settings = spec.config(best["settings"], spec.seeds[0]).settings
    value = tuner.metric.format.text(best["value"])
    command_line = shlex.join(["itaml", *sys.argv[1:]])
    comments = [
        f"Tuned on a validation split of {spec.benchmark}: {tuner.metric.title} {value} {tuner.metric.format.unit}",
        f"Method {spec.method}; trial {best['trial']} of {len(records)}, mean over seeds {_listed(spec.seeds)}",
        f"Objective {spec.objective} on {spec.validation:g} of the training images, which the trials did not train on",
        f"Searched: {'; '.join(dimension.text for dimension in spec.space)}",
        f"Everything else: preset {spec.preset}"
        + (f", recipe {spec.rest['recipe']}" if spec.rest.get("recipe") else "")
        + (f" with {json.dumps(own)}" if own else ""),
        f"Command: {command_line}",
        f"Versions: {', '.join(f'{name} {version}' for name, version in environment().items() if name in VERSIONS)}",
    ]
    write_preset(path, settings, comments)
    document = {
        "benchmark": spec.benchmark,
        "method": spec.method,
        "preset": spec.preset,
        "objective": spec.objective,
        "validation": spec.validation,
        "seeds": list(spec.seeds),
        "space": [dimension.text for dimension in spec.space],
        "overrides": own,
        "best": best,
        "trials": records,
        "environment": environment(),
    }
    write_json(tuner.folder / "trials.json", document)
    if sweep.as_json:
        print(json.dumps({**document, "output": str(path)}, indent=1))
    else:
        _print_trials(tuner, records, best)
        print(f"\nthe best settings are in {path}; use them with --preset {path}", file=sys.stderr)


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


VERSIONS = ("itaml", "python", "torch", "numpy")


def _print_trials(tuner: Tuner, records: list[dict[str, Any]], best: dict[str, Any]) -> None:
    from itaml.cli.tables import Best, print_notes, print_table
    from itaml.experiment.sweep.parameters import format_value

    names = [dimension.name for dimension in tuner.spec.space]
    metric, sign = tuner.metric, 1 if tuner.metric.direction == "higher" else -1
    rows = []
    for record in sorted(records, key=lambda one: (one["value"] is None, -sign * (one["value"] or 0), one["trial"])):
        mean = record["value"]
        spread = statistics.stdev(record["values"]) if len(record["values"]) > 1 and mean is not None else None
        text = metric.format.text(mean) + ("" if spread is None else f" ± {metric.format.text(spread)}")
        values = [format_value(record["settings"][name]) for name in names]
        state = record["error"] or record["state"]
        rows.append([str(record["trial"]), *values, Best(text) if record == best else text, state])
    print_table(["trial", *names, metric.name, "state"], rows, align="r" * (len(names) + 2) + "w")
    print_notes([f"{metric.title} in {metric.format.unit} on validation images, mean ± standard deviation over seeds."])
