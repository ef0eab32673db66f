"""An ablation: one knob, its values, and the runs that have to be trained to compare them.

Every value is a run of its own for each seed, in a folder that is named by what differs from the preset. The run of the
unchanged preset is therefore the one that `itaml run` and `itaml compare` make too, and all ablations share it.
Knobs that are read after training only need one run a seed: the same trained learner is evaluated with every value
(`itaml.run.remeasure`), which compares the values on the same weights. The traits of a method say which settings of
inference its training reads; a learner without traits is trained for every value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from itaml.config import parse_overrides
from itaml.errors import DataError, ItamlError, UnknownNameError, UsageError
from itaml.learners import LEARNERS
from itaml.learners.contract import Traits
from itaml.run.build import make_learner, make_stream
from itaml.run.config import RunConfig, default_folder, resolve
from itaml.run.knobs import CONTINUUM, KNOBS, Knob, default_values, find_knob, is_number, share_of_memory, word
from itaml.run.pool import WAITING, Job, prepare


@dataclass(frozen=True)
class Variant:
    """One value of the knob; the n-th configuration and the n-th job are those of the n-th seed."""

    value: Any
    configs: tuple[RunConfig, ...]  # what is measured
    jobs: tuple[Job, ...]  # what is trained for it

    @property
    def label(self) -> str:
        """The value as people write it."""
        return word(self.value)


@dataclass(frozen=True)
class Plan:
    """What an ablation compares."""

    knob: Knob
    plain: RunConfig  # the preset, with what is overridden for all values, under the first seed
    variants: tuple[Variant, ...]
    once: bool  # one run a seed serves all values
    asked: bool  # somebody named the values: one that is impossible is an error
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings for all values
    left_out: tuple[str, ...] = ()  # values that nobody named and that are impossible, and why

    @property
    def jobs(self) -> list[Job]:
        """Every run, once."""
        return list({job.folder: job for variant in self.variants for job in variant.jobs}.values())


@dataclass(frozen=True)
class _Recipe:
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

    def jobs(self, configs: tuple[RunConfig, ...], words: str = "") -> tuple[Job, ...]:
        """Return the run of each configuration."""
        return tuple(prepare(one, default_folder(one, self.runs), force=self.force, variant=words) for one in configs)


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
        over: the knob.
        values: its values, in words; if None, those that are worth comparing.
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
    recipe = _Recipe(benchmark, method, preset, tuple(dict.fromkeys(seeds)), runs, dict(overrides or {}), force, rest)
    knob = find_knob(over)
    once = _check_knob(knob, method, recipe.overrides)
    if not seeds or (values is not None and not values):
        raise UsageError("an ablation needs at least one value and one seed")
    plain = recipe.configs()
    shared = recipe.jobs(plain) if once else ()
    wanted = default_values(knob, plain[0].settings) if values is None else [_parsed(knob, text) for text in values]
    made = Plan(knob, plain[0], (), once, values is not None, recipe.overrides)
    for value in wanted:
        try:
            meant, configs = _chosen(recipe, knob, value, plain)
        except UsageError as error:
            made = _without(made, value, error)
            continue
        if all(meant != other.value for other in made.variants):
            jobs = shared or recipe.jobs(configs, f"{knob.name}={word(meant)}")
            made = replace(made, variants=(*made.variants, Variant(meant, configs, jobs)))
    return _some_left(made)


def check(plan: Plan, *, data_root: Path | str | None = None) -> Plan:
    """Build every learner that is to be trained yet, so that what is impossible is refused before any training.

    Returns:
        The plan, without values that nobody named and that are impossible with this data.

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


def _check_knob(knob: Knob, method: str, overrides: Mapping[str, Any]) -> bool:
    """Refuse a knob that a method does not have; return whether one run a seed serves all its values."""
    kind = LEARNERS.load(method)
    fields = kind.Settings.model_fields
    if knob.name != CONTINUUM and knob.name not in fields:
        there = ", ".join(name for name in KNOBS if name == CONTINUUM or name in fields)
        raise UnknownNameError(f"{method} has no setting {knob.name!r} to vary; its knobs are: {there}")
    traits = getattr(kind, "traits", Traits(trains_gradients=False))
    if knob.of_memory and not traits.uses_memory:
        raise UsageError(f"{method} keeps no exemplars: varying {knob.name} would change nothing")
    if knob.name in overrides:
        raise UsageError(f"--set {knob.name} and --over {knob.name} contradict each other; name values with --values")
    if knob.name == CONTINUUM:
        return True
    return knob.at_inference and traits.trains_gradients and knob.name not in traits.read_in_training


def _parsed(knob: Knob, text: str) -> Any:
    return parse_overrides([f"{knob.name}={text}"])[knob.name]


def _chosen(recipe: _Recipe, knob: Knob, value: Any, plain: tuple[RunConfig, ...]) -> tuple[Any, tuple[RunConfig, ...]]:
    """Return a value as the settings have it, and the configurations that measure it."""
    if knob.name == CONTINUUM:
        if not isinstance(value, int) or not is_number(value) or value < 1:
            raise UsageError("a continuum has a whole number of samples, at least 1")
        return value, plain
    meant = share_of_memory(value, plain[0].settings["memory"]) if knob.name == "memory" else value
    configs = recipe.configs(**{knob.name: meant})
    return configs[0].settings[knob.name], configs


def _without(plan: Plan, value: Any, error: ItamlError) -> Plan:
    """Refuse a value that somebody named; leave out one that nobody did, and note why."""
    words = f"{plan.knob.name}={word(value)}: {error}"
    if plan.asked:
        raise type(error)(words) from error
    return replace(plan, left_out=(*plan.left_out, words))


def _some_left(plan: Plan) -> Plan:
    if not plan.variants:
        raise UsageError(f"no value of {plan.knob.name} is possible: {'; '.join(plan.left_out)}")
    return plan
