"""`itaml compare`: several methods and seeds on one benchmark, in parallel, and the table of their results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.batch_runner import check_format, report_failures, run_batch, show_table
from itaml.cli.options import parse_list
from itaml.cli.sweep_options import SweepOptions, with_sweep_options

if TYPE_CHECKING:
    from itaml.experiment.sweep.job import Job
    from itaml.report.figure_names import Collection

FIGURE5 = ("itaml:best", "itaml:paper", "reptile", "fomaml", "joint")


@with_sweep_options
def command(
    benchmark: Annotated[str, typer.Argument(help="Benchmark to run; see `itaml list benchmarks`.")],
    *,
    methods: Annotated[
        str | None,
        typer.Option(help="Methods, such as itaml,replay; itaml:paper selects a preset; all selects every method."),
    ] = None,
    presets: Annotated[
        str, typer.Option(help="Presets to run for each method that has them, such as best,paper.")
    ] = "best",
    figure5: Annotated[
        bool, typer.Option("--figure5", help="Compare the methods of the paper's Figure 5 and draw its three panels.")
    ] = False,
    sweep: SweepOptions,
) -> None:
    """Compare methods: run what is missing and print a table with mean and standard deviation over seeds.

    Finished runs are kept and interrupted runs are resumed, so the command can be repeated at any time.
    """
    from itaml.experiment.sweep.compare import plan

    check_format(sweep.form, as_json=sweep.as_json)
    if figure5:
        import itaml.report.theme  # noqa: F401 (a missing extra is an error before the runs, not after)
    jobs = plan(
        benchmark,
        methods=parse_list(methods) if methods else _default_methods(figure5),
        presets=parse_list(presets),
        **sweep.plan_arguments(),
    )
    run_batch(jobs, sweep)
    collection = _print_results(jobs, sweep.form, as_json=sweep.as_json)
    if figure5 and collection.results:
        path = _draw_figure5(collection, jobs[0].folder.parent)
        if not sweep.silent:
            print(f"Figure 5 is in {path}", file=sys.stderr)
    report_failures(jobs, collection.problems)


def _default_methods(figure5: bool) -> Sequence[str]:
    """Return the registered methods of Figure 5; without `--figure5`, iTAML and three reference methods."""
    from itaml.learners import LEARNERS

    methods = FIGURE5 if figure5 else ("itaml", "replay", "finetune", "joint")
    return [name for name in methods if name.partition(":")[0] in LEARNERS.names()]


def _print_results(jobs: Sequence[Job], form: str, *, as_json: bool) -> Collection:
    from itaml.experiment.run_config import recipe_notes
    from itaml.report.figure_names import collect
    from itaml.report.summary import group
    from itaml.report.table import make_table

    collection = collect([job.folder for job in jobs if job.state in ("kept", "done")])
    if collection.results:
        remarks = tuple(dict.fromkeys(f"{note}." for job in jobs for note in recipe_notes(job.config)))
        show_table(replace(make_table(group(collection.results)), remarks=remarks), form, as_json=as_json)
    return collection


def _draw_figure5(collection: Collection, folder: Path) -> Path:
    from itaml.report.figures import figure5
    from itaml.report.summary import group
    from itaml.report.svg import to_svg
    from itaml.storage import write_atomically

    groups = group(collection.results)
    path = folder / "figure5.svg"
    write_atomically(path, (to_svg(figure5(groups, max(one.first.p for one in groups))) + "\n").encode())
    return path
