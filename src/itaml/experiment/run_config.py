"""`RunConfig`: everything that decides a run's numbers, resolved and checked before anything is trained."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from itaml.config import DEFAULT_PRESET, Compute, Seeds, Settings, build, load_preset
from itaml.data.benchmarks import Benchmark, LoadOptions, benchmark
from itaml.errors import ItamlError, SettingsError
from itaml.experiment.shared_recipe import share
from itaml.experiment.sweep.parameters import format_value
from itaml.learners import LEARNERS
from itaml.learners.api import Traits
from itaml.migration import migrate_config
from itaml.models import backbone_traits

LONGEST = 80  # letters of a folder's name for the settings that differ


class RunConfig(Settings):
    """A run, in full. `settings` are the method's own, with nothing left to default."""

    benchmark: str
    method: str
    preset: str
    recipe: str | None = None  # whose values replace the preset's (`shared_recipe`)
    seed: int
    seeds: Seeds
    split: tuple[int, ...] | None = None  # classes per task; None is the benchmark's own division
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share of training data to evaluate on, instead of test data
    p: Annotated[tuple[Annotated[int, Field(ge=1, le=10**9)], ...], Field(min_length=1)] = (
        1,
        20,
    )  # sizes of continua; always with 1
    image_size: Annotated[int, Field(ge=4)] | None = None  # side of images decoded from files
    on_bad_image: Literal["skip", "fail"] = "skip"
    compute: Compute = Compute()
    settings: dict[str, Any] = Field(default_factory=dict)

    @field_validator("p")
    @classmethod
    def _with_single_samples(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Sort the sizes of continua and add 1, at which forgetting and the accuracy matrix are defined."""
        return tuple(sorted({1, *sizes}))

    def load_options(self, data_root: Path) -> LoadOptions:
        """Return how to read the data, from a given root."""
        return LoadOptions(root=data_root, image_size=self.image_size, on_bad_image=self.on_bad_image)


def resolve(
    benchmark_name: str,
    *,
    method: str = "itaml",
    preset: str = DEFAULT_PRESET,
    recipe: str | None = None,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    **rest: Any,
) -> RunConfig:
    """Return a run's configuration: the benchmark's numbers, replaced by the preset's, a recipe's, the overrides.

    Args:
        benchmark_name: a registered benchmark.
        method: a registered method.
        preset: one of the method's presets, or a preset file (a path that ends in .toml).
        recipe: name of a recipe that all methods share; none by default.
        seed: root of all seeds.
        overrides: settings of the method; `seeds.<name>` sets one seed.
        rest: other fields of `RunConfig`; `p`, the sizes of continua to evaluate, always gets 1 as well.

    Raises:
        UnknownNameError: a name that does not exist; the message offers the nearest.
        SettingsError: a value that is not possible.
    """
    chosen = benchmark(benchmark_name)
    learner = LEARNERS.load(method)
    kind = learner.Settings
    values, seed_values = _settings(chosen, method, preset, recipe, overrides or {}, learner)
    settings = build(kind, values)
    if "backbone" in kind.model_fields:
        backbone_traits(settings.backbone)
    seeds = build(Seeds, dict(Seeds.of(seed)) | seed_values, what="seed")
    defaults = {"p": (1, chosen.p)}
    return build(
        RunConfig,
        {
            **defaults,
            "benchmark": benchmark_name,
            "method": method,
            "preset": preset,
            "recipe": recipe,
            "seed": seed,
            "seeds": seeds,
            "settings": settings.model_dump(mode="json"),
            **{key: value for key, value in rest.items() if value is not None},
        },
    )


def _settings(
    chosen: Benchmark, method: str, preset: str, recipe: str | None, overrides: Mapping[str, Any], learner: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    remembers = getattr(learner, "traits", Traits()).uses_memory
    for name in ("memory", "memory_bytes"):
        if not remembers and overrides.get(name):
            raise SettingsError(f"{method} keeps no exemplars: {name} must be 0 or left out, not {overrides[name]!r}")
    values: dict[str, Any] = {"memory": chosen.memory if remembers else 0, "backbone": chosen.model}
    values = {key: value for key, value in values.items() if key in learner.Settings.model_fields}
    preset_values = load_preset(method, preset, benchmark=chosen.name)
    if (preset_values | dict(overrides)).get("memory_bytes"):  # instead of the benchmark's number of images
        values.pop("memory", None)
    values |= preset_values
    if recipe is not None:
        values |= share(recipe, chosen.name, method, preset, learner=learner, values=values).settings
    seeds = {key.removeprefix("seeds."): value for key, value in overrides.items() if key.startswith("seeds.")}
    values |= {key: value for key, value in overrides.items() if not key.startswith("seeds.")}
    return values, seeds


def recipe_notes(config: RunConfig) -> tuple[str, ...]:
    """Return sentences about what a run's recipe does not give to its method."""
    if config.recipe is None:
        return ()
    learner = LEARNERS.load(config.method)
    values, _ = _settings(benchmark(config.benchmark), config.method, config.preset, None, {}, learner)
    return share(config.recipe, config.benchmark, config.method, config.preset, learner=learner, values=values).notes


def default_folder(config: RunConfig, root: Path | str) -> Path:
    """Return where a run is kept by default: a folder whose name shows what differs from its preset.

    Two runs that differ in any field have different folders; the unchanged preset has the shortest name.
    """
    place = config.benchmark.replace(":", "-").replace("/", "_").strip("._-")
    plain = resolve(
        config.benchmark, method=config.method, preset=config.preset, recipe=config.recipe, seed=config.seed
    )
    before, after = (one.model_dump(mode="json") for one in (plain, config))
    names = sorted(
        differences(before, after), key=lambda name: not name.startswith("settings.")
    )  # a method's own first
    changed = ",".join(f"{_short(name)}={format_value(_field(after, name))}" for name in names)
    name = re.sub(r"[^A-Za-z0-9_.,=+-]+", "", changed)
    if name != changed or len(name) > LONGEST:
        name = f"{name[:LONGEST]}-{hashlib.sha256(changed.encode()).hexdigest()[:8]}"
    preset = re.sub(r"[^A-Za-z0-9_.+-]+", "", Path(config.preset).name)  # of a file, its name
    parts = [config.method, preset, config.recipe, name, f"seed{config.seed}"]
    return Path(root) / place / "-".join(filter(None, parts))


def _short(name: str) -> str:
    return name.removeprefix("settings.").removeprefix("compute.")


def _field(dumped: Mapping[str, Any], name: str) -> Any:
    """Return the value of a dotted name in a dumped configuration."""
    value: Any = dumped
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def completed(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dumped configuration with present names, and with defaults for fields that were added later."""
    saved = migrate_config(saved)
    filled = {**saved, "compute": {**Compute().model_dump(mode="json"), **saved.get("compute", {})}}
    try:
        kind = LEARNERS.load(saved["method"]).Settings
    except (KeyError, ItamlError):
        return filled
    defaults = {name: field.default for name, field in kind.model_fields.items() if not field.is_required()}
    return {**filled, "settings": {**defaults, **saved.get("settings", {})}}


def differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> Sequence[str]:
    """Return the dotted names of the fields in which two dumped configurations differ."""
    names = []
    for key in sorted({*left, *right}):
        before, after = left.get(key), right.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            names += [f"{key}.{name}" for name in differences(before, after)]
        elif before != after:
            names.append(key)
    return names
