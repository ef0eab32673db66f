"""`itaml compare`: many methods and seeds on one benchmark, in parallel, and the table of their results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.many import check_format, print_table, report_failures, run_jobs
from itaml.cli.options import (
    Compile,
    DataRoot,
    Device,
    ForceAll,
    Format,
    Jobs,
    Precision,
    Quiet,
    Runs,
    SeedList,
    Set,
    ThreadsEach,
    parse_seeds,
    parse_words,
)

if TYPE_CHECKING:
    from itaml.report.result import Collection
    from itaml.run.pool import Job

FIGURE5 = ("itaml:best", "itaml:paper", "reptile", "fomaml", "joint")


def command(
    benchmark: Annotated[str, typer.Argument(help="What to run on; `itaml list benchmarks` shows them.")],
    *,
    methods: Annotated[
        str | None, typer.Option(help="Methods such as itaml,replay; itaml:paper names a preset; all is all of them.")
    ] = None,
    presets: Annotated[str, typer.Option(help="Presets to run of each method that has them.")] = "best",
    seeds: SeedList = "0",
    jobs: Jobs = None,
    overrides: Set = None,
    data_root: DataRoot = None,
    runs: Runs = Path("runs"),
    form: Format = "table",
    figure5: Annotated[
        bool, typer.Option("--figure5", help="Compare as the paper's Figure 5 does, and draw its three panels.")
    ] = False,
    force: ForceAll = False,
    device: Device = "auto",
    precision: Precision = "auto",
    compiled: Compile = False,
    threads: ThreadsEach = None,
    quiet: Quiet = False,
) -> None:
    """Run what is missing of a comparison, and print its table: mean and deviation over seeds.

    Finished runs are kept and interrupted ones go on, so the same command can be given again at any time.
    """
    from itaml.config import Compute, build, parse_overrides
    from itaml.run.compare import plan

    check_format(form)
    wanted = plan(
        benchmark,
        methods=parse_words(methods) if methods else _default_methods(figure5),
        presets=parse_words(presets),
        seeds=parse_seeds(seeds),
        runs=runs,
        overrides=parse_overrides(overrides or []),
        force=force,
        compute=build(Compute, {"device": device, "precision": precision, "compile": compiled}, what="option"),
    )
    run_jobs(wanted, parallel=jobs, data_root=data_root, force=force, quiet=quiet, threads=threads)
    collection = _print_results(wanted, form)
    if figure5 and collection.results:
        path = _draw_figure5(collection, wanted[0].folder.parent)
        if not quiet:
            print(f"Figure 5 is in {path}", file=sys.stderr)
    report_failures(wanted, collection.problems)


def _default_methods(figure5: bool) -> Sequence[str]:
    """Return the methods of Figure 5 that there are; without it, iTAML and what it is always compared with."""
    from itaml.learners import LEARNERS

    wanted = FIGURE5 if figure5 else ("itaml", "replay", "finetune", "joint")
    return [word for word in wanted if word.partition(":")[0] in LEARNERS.names()]


def _print_results(jobs: Sequence[Job], form: str) -> Collection:
    from itaml.report.result import collect
    from itaml.report.summary import group
    from itaml.report.table import make_table

    collection = collect([job.folder for job in jobs if job.state in ("kept", "done")])
    if collection.results:
        print_table(make_table(group(collection.results)), form)
    return collection


def _draw_figure5(collection: Collection, folder: Path) -> Path:
    from itaml.report.drawing import to_svg
    from itaml.report.figures import figure5
    from itaml.report.summary import group
    from itaml.storage import write_atomically

    groups = group(collection.results)
    path = folder / "figure5.svg"
    write_atomically(path, to_svg(figure5(groups, max(one.first.p for one in groups)), page=False).encode())
    return path
