"""Named recipes: the same training for every method, so that methods are compared at equal effort.

A recipe is a file `recipes/<name>.toml`. Its values replace those of a method's preset; like a preset it has tables for
benchmarks and their families. `rates` inside such a table gives the optimizer and learning rate of each method, chosen
with the same number of trials for all (`benchmarks/equal_effort.py`). `[methods.<name>]` holds what a method keeps of
its own. Ingredients (`RecipeSettings`) that a recipe does not name are off.

What a recipe does not give is the method's own: its loss and strengths, how it samples, its weight decay.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from itaml.config import build, parse_preset, sections
from itaml.errors import SettingsError, UnknownNameError
from itaml.learners.api import Traits
from itaml.learners.settings import RecipeSettings
from itaml.registry import unknown

OWN = ("temperature",)  # of a method's own distillation
NEED_LOSS = ("class_balancing", "distill", "progressive_resize_from")  # what `Traits.supports_recipe` is about
FOLLOWS = {"class_balancing": ("rehearsal_cutmix", "balance_strength"), "distill": ("distill_growth",)}  # off together
AT_INFERENCE = ("flip_tta", "shift_tta", "align_head")  # ingredients that inference uses
REFUSABLE = ("class_balancing", "distill", *AT_INFERENCE)  # what the rules of a method's settings may exclude


@dataclass(frozen=True)
class Shared:
    """The settings that a recipe gives to a method, and sentences about what it does not."""

    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def recipe_names() -> tuple[str, ...]:
    """Return the names of all recipes."""
    found = files("itaml").joinpath("recipes").iterdir()
    return tuple(sorted(item.name.removesuffix(".toml") for item in found if item.name.endswith(".toml")))


def recipe_summary(name: str) -> str:
    """Return the first comment line of a recipe's file."""
    return _data(name).partition(b"\n")[0].decode().lstrip("# ")


def share(recipe: str, benchmark: str, method: str, preset: str, *, learner: Any, values: Mapping[str, Any]) -> Shared:
    """Return what a recipe gives to a method.

    Args:
        recipe: its name.
        benchmark: what is run.
        method: name of the method.
        preset: of the method; a rate of `method:preset` goes before one of `method`.
        learner: the method's factory.
        values: the method's settings without the recipe.

    Raises:
        UnknownNameError: there is no such recipe.
        SettingsError: the method's settings contradict the recipe in more than an ingredient.
    """
    given = _given(recipe, benchmark, method, preset)
    traits: Traits = getattr(learner, "traits", Traits())
    if not traits.trains_gradients:
        return Shared({}, (f"{method} takes no gradient steps, so the recipe does not concern it",))
    notes = []
    given = {key: value for key, value in given.items() if key in learner.Settings.model_fields}
    if not traits.uses_memory:
        given.pop("selection", None)
    if not traits.supports_recipe:
        off = _active(given, NEED_LOSS)
        given |= _switched_off(off)
        notes += [f"{method} computes a loss of its own: without {' and '.join(off)}"] if off else []
    if traits.needs_teacher and given.get("distill"):
        given |= _switched_off(["distill"])
        notes.append(f"{method} has a teacher of its own: without distill")
    return _allowed(method, learner.Settings, values, given, notes)


def _allowed(method: str, kind: Any, values: Mapping[str, Any], given: Mapping[str, Any], notes: list[str]) -> Shared:
    """Leave out the ingredients that the rules of a method's settings exclude."""
    named = _active(given, REFUSABLE)
    first: SettingsError | None = None
    for off in ((), *((name,) for name in named), tuple(named)):
        tried = {**given, **_switched_off(off)}
        try:
            build(kind, {**values, **tried})
        except UnknownNameError:
            raise
        except SettingsError as error:
            first = first or error
            continue
        left_out = [f"{method} excludes {' and '.join(off)}: without"] if off else []
        return Shared(tried, (*notes, *left_out))
    assert first is not None
    raise first


def _given(recipe: str, benchmark: str, method: str, preset: str) -> dict[str, Any]:
    """Return all values of a recipe for a method on a benchmark, whether the method has such settings or not."""
    data = _data(recipe)
    table = tomllib.loads(data.decode())
    fields = [name for name in RecipeSettings.__annotations__ if name not in OWN]
    values = {name: _default(name) for name in (*fields, *AT_INFERENCE)}
    values |= parse_preset(data, source=f"recipe {recipe}", benchmark=benchmark)
    for section in sections(table, benchmark):
        rates = section.get("rates", {})
        values |= rates.get(f"{method}:{preset}", rates.get(method, {}))
    values |= table.get("methods", {}).get(method, {})
    return values


def _active(given: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return which of these ingredients a recipe has."""
    return [name for name in names if name in given and given[name] != _default(name)]


def _switched_off(names: Sequence[str]) -> dict[str, Any]:
    """Return the values that switch ingredients off, with those that mean nothing without them."""
    return {name: _default(name) for one in names for name in (one, *FOLLOWS.get(one, ()))}


def _default(name: str) -> Any:
    return RecipeSettings.model_fields[name].default


@cache
def _data(name: str) -> bytes:
    if name not in recipe_names():
        raise UnknownNameError(unknown("recipe", name, recipe_names()))
    return files("itaml").joinpath("recipes", f"{name}.toml").read_bytes()
