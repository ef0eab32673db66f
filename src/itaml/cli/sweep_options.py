"""`SweepOptions`: the options of all commands that start many runs, written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

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
    Recipe,
    Runs,
    SeedList,
    Set,
    ThreadsEach,
    parse_seeds,
)

if TYPE_CHECKING:
    from itaml.config import Compute

EXECUTOR_HELP = "Where runs are executed: local (processes of this machine) or ray (a cluster; extra ray)."
ADDRESS_HELP = "Ray cluster: auto (the one this machine is in), HOST:PORT, or local (one for this command)."


@dataclass(frozen=True)
class SweepOptions:
    """What was given for these options."""

    seeds: SeedList = "0"
    jobs: Jobs = None
    executor: Annotated[str, typer.Option(help=EXECUTOR_HELP)] = "local"
    ray_address: Annotated[str, typer.Option("--ray-address", metavar="auto|HOST:PORT", help=ADDRESS_HELP)] = "auto"
    recipe: Recipe = None
    overrides: Set = None
    data_root: DataRoot = None
    runs: Runs = Path("runs")
    form: Format = "table"
    as_json: Json = False
    force: ForceAll = False
    device: Device = "auto"
    precision: Precision = "auto"
    compiled: Compile = False
    threads: ThreadsEach = None
    quiet: Quiet = False

    @property
    def silent(self) -> bool:
        """Whether nothing but the result is printed."""
        return self.quiet or self.as_json

    def compute(self) -> Compute:
        """Return where and how numbers are computed (see `build` for errors)."""
        from itaml.config import Compute, build

        values = {"device": self.device, "precision": self.precision, "compile": self.compiled}
        return build(Compute, values, what="option")

    def plan_arguments(self) -> dict[str, Any]:
        """Return what the plans of all sweeps are made with."""
        from itaml.config import parse_overrides

        return {
            "seeds": parse_seeds(self.seeds),
            "runs": self.runs,
            "recipe": self.recipe,
            "overrides": parse_overrides(self.overrides or []),
            "force": self.force,
            "compute": self.compute(),
        }


def with_sweep_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of `SweepOptions` in place of its parameter `sweep`."""
    names = [field.name for field in fields(SweepOptions)]

    @functools.wraps(command)
    def expanded(**values: Any) -> None:
        shared = {name: values.pop(name) for name in names}
        command(**values, sweep=SweepOptions(**shared))

    own = inspect.signature(command, eval_str=True).parameters
    hints = get_type_hints(SweepOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(SweepOptions)
    ]
    parameters = [*(parameter for name, parameter in own.items() if name != "sweep"), *shared]
    del expanded.__wrapped__  # typer would read the signature of what is wrapped
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded
