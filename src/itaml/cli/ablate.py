"""`itaml ablate`: one sweep parameter of a method, its values compared in a table and a plot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.batch_runner import check_format, report_failures, run_batch, show_table
from itaml.cli.options import parse_list, set_threads
from itaml.cli.sweep_options import SweepOptions, with_sweep_options
from itaml.experiment.sweep.parameters import SWEEP_PARAMETERS

if TYPE_CHECKING:
    from itaml.experiment.sweep.ablate import Plan
    from itaml.report.ablation_table import Ablation


@with_sweep_options
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
    out: Annotated[
        Path | None, typer.Option(help="Folder for the table and the plot; a folder in --runs by default.")
    ] = None,
    sweep: SweepOptions,
) -> None:
    """Vary one setting and nothing else: run what is missing, print a table and draw a plot.

    Sweep parameters that training does not read (p, task_score, flip_tta, shift_tta, adapt_steps) are compared on one
    trained learner per seed; for all others, every value is trained. Finished runs are kept and interrupted runs are
    resumed, so the command can be repeated at any time.
    """
    import itaml.report.theme  # noqa: F401 (a missing extra is an error before the runs, not after)
    from itaml.experiment.sweep.ablate import check, plan
    from itaml.learners.compute import check_compute

    check_format(sweep.form, as_json=sweep.as_json)
    _check_folder(out)
    check_compute(sweep.compute())  # what is trained on a cluster is evaluated here
    ablation_plan = plan(
        benchmark,
        over=over,
        values=None if values is None else parse_list(values),
        method=method,
        preset=preset,
        **sweep.plan_arguments(),
    )
    ablation_plan = check(ablation_plan, data_root=sweep.data_root)
    if not sweep.silent:
        print("".join(f"left out: {reason}\n" for reason in ablation_plan.left_out), end="", file=sys.stderr)
    run_batch(ablation_plan.jobs, sweep)
    folder = out or ablation_plan.jobs[0].folder.parent / f"ablate-{over}-{method}-{preset}"
    set_threads(sweep.threads, backbone=ablation_plan.plain.settings.get("backbone"))
    ablation = _measure(ablation_plan, folder, data_root=sweep.data_root, force=sweep.force, quiet=sweep.silent)
    if ablation.levels:
        _show(ablation, folder, sweep.form, as_json=sweep.as_json, quiet=sweep.silent)
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
