"""An ablation: one parameter, its values, and the runs that have to be trained to compare them.

Every value is a separate run for each seed, in a folder that is named by what differs from the preset. The run of the
unchanged preset is therefore the one that `itaml run` and `itaml compare` make too, and all ablations share it.
Parameters that are read after training only need one run per seed: the same trained learner is evaluated with every
value (`itaml.experiment.reevaluate`), which compares the values on the same weights. The traits of a method say which
settings of inference its training reads; a learner without traits is trained for every value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from itaml.config import parse_overrides
from itaml.errors import DataError, ItamlError, UnknownNameError, UsageError
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import RunConfig, default_folder, resolve
from itaml.experiment.sweep.job import WAITING, Job, make_job
from itaml.experiment.sweep.parameters import (
    BUDGETS,
    CONTINUUM,
    SHARES,
    SWEEP_PARAMETERS,
    SweepParameter,
    default_values,
    find_parameter,
    format_value,
    is_number,
    share_of_memory,
)
from itaml.learners import LEARNERS
from itaml.learners.api import Traits


@dataclass(frozen=True)
class Variant:
    """One value of the parameter; the n-th configuration and the n-th job are those of the n-th seed."""

    value: Any
    configs: tuple[RunConfig, ...]  # what is measured
    jobs: tuple[Job, ...]  # what is trained for it

    @property
    def label(self) -> str:
        """The value as people write it."""
        return format_value(self.value)


@dataclass(frozen=True)
class Plan:
    """What an ablation compares."""

    parameter: SweepParameter
    plain: RunConfig  # the preset, with what is overridden for all values, under the first seed
    variants: tuple[Variant, ...]
    once: bool  # one run per seed serves all values
    asked: bool  # somebody named the values: one that is impossible is an error
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings for all values
    left_out: tuple[str, ...] = ()  # default values that are impossible, and why

    @property
    def jobs(self) -> list[Job]:
        """Every run, once."""
        return list({job.folder: job for variant in self.variants for job in variant.jobs}.values())


@dataclass(frozen=True)
class _Template:
    """What all values have in common."""

    benchmark: str
    method: str
    preset: str
    seeds: tuple[int, ...]
    runs: Path | str
    overrides: dict[str, Any]
    force: bool
    rest: dict[str, Any]

    def configs(self, **chosen: Any) -> tuple[RunConfig, ...]:
        """Return the configuration of each seed."""
        overrides = self.overrides | chosen
        return tuple(
            resolve(self.benchmark, method=self.method, preset=self.preset, seed=seed, overrides=overrides, **self.rest)
            for seed in self.seeds
        )

    def jobs(self, configs: tuple[RunConfig, ...], label: str = "") -> tuple[Job, ...]:
        """Return the run of each configuration."""
        return tuple(make_job(one, default_folder(one, self.runs), force=self.force, variant=label) for one in configs)


def plan(
    benchmark: str,
    *,
    over: str,
    values: Sequence[str] | None = None,
    method: str,
    preset: str,
    seeds: Sequence[int],
    runs: Path | str,
    overrides: Mapping[str, Any] | None = None,
    force: bool = False,
    **rest: Any,
) -> Plan:
    """Resolve every run of an ablation, and find which are finished already.

    Args:
        benchmark: what to run on.
        over: the parameter.
        values: its values, as text; if None, those that are worth comparing.
        method: what learns.
        preset: what every value is compared within.
        seeds: root seeds.
        runs: folder that runs are kept in.
        overrides: settings for every value.
        force: run again what is there.
        rest: other fields of `RunConfig`.

    Raises:
        UsageError: there is nothing to compare, or a name, a setting or a value is wrong.
    """
    template = _Template(
        benchmark, method, preset, tuple(dict.fromkeys(seeds)), runs, dict(overrides or {}), force, rest
    )
    parameter = find_parameter(over)
    once = _check_parameter(parameter, method, template.overrides)
    if not seeds or (values is not None and not values):
        raise UsageError("an ablation needs at least one value and one seed")
    plain = template.configs()
    shared = template.jobs(plain) if once else ()
    candidates = (
        default_values(parameter, plain[0].settings)
        if values is None
        else [_parsed(parameter, text) for text in values]
    )
    made = Plan(parameter, plain[0], (), once, values is not None, template.overrides)
    for value in candidates:
        try:
            meant, configs = _chosen(template, parameter, value, plain)
        except UsageError as error:
            made = _without(made, value, error)
            continue
        if all(meant != other.value for other in made.variants):
            jobs = shared or template.jobs(configs, f"{parameter.name}={format_value(meant)}")
            made = replace(made, variants=(*made.variants, Variant(meant, configs, jobs)))
    return _some_left(made)


def check(plan: Plan, *, data_root: Path | str | None = None) -> Plan:
    """Build every learner that is to be trained yet, so that what is impossible is refused before any training.

    Returns:
        The plan, without default values that are impossible with this data.

    Raises:
        ItamlError: a value that somebody named is impossible, or the data is missing.
    """
    if not any(job.state == WAITING for job in plan.jobs):
        return plan
    stream = make_stream(plan.plain, data_root=data_root)
    if plan.once:
        make_learner(plan.plain, stream)
        return plan
    checked = replace(plan, variants=())
    for variant in plan.variants:
        try:
            if any(job.state == WAITING for job in variant.jobs):
                make_learner(variant.configs[0], stream)
        except (UsageError, DataError) as error:
            checked = _without(checked, variant.value, error)
        else:
            checked = replace(checked, variants=(*checked.variants, variant))
    return _some_left(checked)


def _check_parameter(parameter: SweepParameter, method: str, overrides: Mapping[str, Any]) -> bool:
    """Refuse a parameter that a method does not have; return whether one run per seed serves all its values."""
    kind = LEARNERS.load(method)
    fields = kind.Settings.model_fields
    if parameter.name != CONTINUUM and parameter.name not in fields:
        there = ", ".join(name for name in SWEEP_PARAMETERS if name == CONTINUUM or name in fields)
        raise UnknownNameError(f"{method} has no setting {parameter.name!r} to vary; its sweep parameters are: {there}")
    traits = getattr(kind, "traits", Traits(trains_gradients=False))
    if parameter.of_memory and not traits.uses_memory:
        raise UsageError(f"{method} keeps no exemplars: varying {parameter.name} would change nothing")
    if parameter.name in overrides:
        raise UsageError(
            f"--set {parameter.name} and --over {parameter.name} contradict each other; name values with --values"
        )
    if parameter.name == CONTINUUM:
        return True
    return parameter.at_inference and traits.trains_gradients and parameter.name not in traits.read_in_training


def _parsed(parameter: SweepParameter, text: str) -> Any:
    return parse_overrides([f"{parameter.name}={text}"])[parameter.name]


def _chosen(
    template: _Template, parameter: SweepParameter, value: Any, plain: tuple[RunConfig, ...]
) -> tuple[Any, tuple[RunConfig, ...]]:
    """Return a value as the settings have it, and the configurations that measure it."""
    if parameter.name == CONTINUUM:
        if not isinstance(value, int) or not is_number(value) or value < 1:
            raise UsageError("a continuum has a whole number of samples, at least 1")
        return value, plain
    meant = value
    if parameter.name in BUDGETS:
        own = plain[0].settings[parameter.name]
        if not own and value in SHARES:
            other = next(name for name in BUDGETS if name != parameter.name)
            raise UsageError(f"the preset has {parameter.name}=0: use --over {other}, or name a number")
        meant = share_of_memory(value, own)
    configs = template.configs(**{parameter.name: meant})
    return configs[0].settings[parameter.name], configs


def _without(plan: Plan, value: Any, error: ItamlError) -> Plan:
    """Refuse an impossible value that was named; leave out one that was not, and note why."""
    label = f"{plan.parameter.name}={format_value(value)}: {error}"
    if plan.asked:
        raise type(error)(label) from error
    return replace(plan, left_out=(*plan.left_out, label))


def _some_left(plan: Plan) -> Plan:
    if not plan.variants:
        raise UsageError(f"no value of {plan.parameter.name} is possible: {'; '.join(plan.left_out)}")
    return plan
