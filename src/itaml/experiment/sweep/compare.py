"""A comparison: which runs of which methods it is made of.

The plan is made and checked before anything starts; `itaml.experiment.sweep.run_queue` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from itaml.config import DEFAULT_PRESET, PRESET_FILE, presets
from itaml.errors import UnknownNameError, UsageError
from itaml.experiment.run_config import default_folder, resolve
from itaml.experiment.sweep.job import Job, make_job
from itaml.learners import LEARNERS
from itaml.registry import unknown


def select_presets(methods: Sequence[str], requested: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of method and preset: `method:preset` as it says, else every requested preset that the method has.

    Raises:
        UnknownNameError: a method or preset that does not exist, or a method that has none of the presets.
    """
    names = LEARNERS.names() if list(methods) == ["all"] else methods
    pairs: list[tuple[str, str]] = []
    used: set[str] = set()
    for format_value in names:
        method, _, preset = format_value.partition(":")
        LEARNERS.entry(method)
        available = presets(method) or (DEFAULT_PRESET,)
        chosen = [preset] if preset else [name for name in requested if name in available or _is_file(name)]
        if preset and preset not in available and not _is_file(preset):
            raise UnknownNameError(unknown(f"preset for {method}", preset, available))
        if not chosen:
            raise UnknownNameError(
                f"{method} has none of the presets {', '.join(requested)}; it has {', '.join(available)}"
            )
        used.update(chosen)
        pairs += [(method, name) for name in chosen if (method, name) not in pairs]
    for name in requested:
        if name not in used and not any(":" in format_value for format_value in names):
            known = {preset for method in LEARNERS.names() for preset in presets(method)}
            raise UnknownNameError(
                unknown("preset", name, known) if name not in known else f"no method here has {name!r}"
            )
    return pairs


def _is_file(preset: str) -> bool:
    return preset.endswith(PRESET_FILE)


def plan(
    benchmark: str,
    *,
    methods: Sequence[str],
    presets: Sequence[str],
    seeds: Sequence[int],
    runs: Path | str,
    overrides: Mapping[str, Any] | None = None,
    force: bool = False,
    **rest: Any,
) -> list[Job]:
    """Resolve every run of a comparison, and find which are finished already.

    Args:
        benchmark: what to run on.
        methods: names, `name:preset`, or `all`.
        presets: presets to run of each method that has them.
        seeds: root seeds.
        runs: folder that runs are kept in.
        overrides: settings for every method.
        force: run again what is there.
        rest: other fields of `RunConfig`.

    Raises:
        UsageError: there is nothing to run, or a name or setting is wrong.
    """
    if not methods or not presets or not seeds:
        raise UsageError("a comparison needs at least one method, one preset and one seed")
    jobs = []
    for method, preset in select_presets(methods, presets):
        for seed in dict.fromkeys(seeds):
            try:
                config = resolve(benchmark, method=method, preset=preset, seed=seed, overrides=overrides, **rest)
            except UsageError as error:
                raise type(error)(f"{method} on {benchmark}: {error}") from error
            jobs.append(make_job(config, default_folder(config, runs), force=force))
    return jobs
