"""`itaml ablate`: one sweep parameter of a method, its values compared in a table and a plot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.batch_runner import check_format, report_failures, run_batch, show_table
from itaml.cli.options import (
    Compile,
    DataRoot,
    Device,
    ForceAll,
    Format,
    Jobs,
    Json,
    Precision,
    Quiet,
    Runs,
    SeedList,
    Set,
    ThreadsEach,
    parse_list,
    parse_seeds,
    set_threads,
)
from itaml.experiment.sweep.parameters import SWEEP_PARAMETERS

if TYPE_CHECKING:
    from itaml.experiment.sweep.ablate import Plan
    from itaml.report.ablation_table import Ablation


def command(
    benchmark: Annotated[str, typer.Argument(help="Benchmark to run; see `itaml list benchmarks`.")],
    *,
    over: Annotated[str, typer.Option("--over", help=f"Sweep parameter: {', '.join(SWEEP_PARAMETERS)}.")],
    values: Annotated[
        str | None,
        typer.Option(help="Its values, such as 0,0.5,1 (memory: also half, same, double); usual values by default."),
    ] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="Method to run; see `itaml list methods`.")] = "itaml",
    preset: Annotated[str, typer.Option(help="Preset of all other settings; see `itaml list presets`.")] = "best",
    seeds: SeedList = "0",
    jobs: Jobs = None,
    overrides: Set = None,
    data_root: DataRoot = None,
    runs: Runs = Path("runs"),
    out: Annotated[
        Path | None, typer.Option(help="Folder for the table and the plot; a folder in --runs by default.")
    ] = None,
    form: Format = "table",
    as_json: Json = False,
    force: ForceAll = False,
    device: Device = "auto",
    precision: Precision = "auto",
    compiled: Compile = False,
    threads: ThreadsEach = None,
    quiet: Quiet = False,
) -> None:
    """Vary one setting and nothing else: run what is missing, print a table and draw a plot.

    Sweep parameters that training does not read (p, task_score, flip_tta, adapt_steps) are compared on one trained
    learner per seed; for all others, every value is trained. Finished runs are kept and interrupted runs are resumed,
    so the command can be repeated at any time.
    """
    import itaml.report.theme  # noqa: F401 (a missing extra is an error before the runs, not after)
    from itaml.config import Compute, build, parse_overrides
    from itaml.experiment.sweep.ablate import check, plan
    from itaml.learners.compute import check_compute

    check_format(form, as_json=as_json)
    quiet = quiet or as_json
    _check_folder(out)
    compute = build(Compute, {"device": device, "precision": precision, "compile": compiled}, what="option")
    check_compute(compute)
    ablation_plan = plan(
        benchmark,
        over=over,
        values=None if values is None else parse_list(values),
        method=method,
        preset=preset,
        seeds=parse_seeds(seeds),
        runs=runs,
        overrides=parse_overrides(overrides or []),
        force=force,
        compute=compute,
    )
    ablation_plan = check(ablation_plan, data_root=data_root)
    if not quiet:
        print("".join(f"left out: {reason}\n" for reason in ablation_plan.left_out), end="", file=sys.stderr)
    run_batch(ablation_plan.jobs, parallel=jobs, data_root=data_root, force=force, quiet=quiet, threads=threads)
    folder = out or ablation_plan.jobs[0].folder.parent / f"ablate-{over}-{method}-{preset}"
    set_threads(threads, backbone=ablation_plan.plain.settings.get("backbone"))
    ablation = _measure(ablation_plan, folder, data_root=data_root, force=force, quiet=quiet)
    if ablation.levels:
        _show(ablation, folder, form, as_json=as_json, quiet=quiet)
    report_failures(ablation_plan.jobs, ablation.measured.problems)


def _check_folder(out: Path | None) -> None:
    from itaml.errors import UsageError

    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; --out names a folder")


def _measure(plan: Plan, folder: Path, *, data_root: Path | None, force: bool, quiet: bool) -> Ablation:
    from itaml.experiment.reevaluate import Reevaluator
    from itaml.experiment.sweep.ablation_numbers import measure
    from itaml.report.ablation_table import Ablation

    def notify(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr, flush=True)

    reevaluate = Reevaluator(data_root=data_root, force=force, notify=notify)
    return Ablation(measure(plan, keep=folder / "evaluations", reevaluate=reevaluate))


def _show(ablation: Ablation, folder: Path, form: str, *, as_json: bool, quiet: bool) -> None:
    from itaml.report.ablation_files import write

    path = write(ablation, folder)
    show_table(ablation.table, form, as_json=as_json)
    if not quiet:
        print(f"the plot is in {path}", file=sys.stderr)
