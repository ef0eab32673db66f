"""The search space of `itaml tune`: `lr=loguniform(1e-3,1)`, `batch_size=choice(32,64)` and the like.

| written | values |
|---|---|
| `uniform(a,b)` | numbers between a and b |
| `loguniform(a,b)` | numbers between a and b, every factor equally likely |
| `int(a,b)` | whole numbers from a to b |
| `logint(a,b)` | whole numbers from a to b, every factor equally likely |
| `choice(x,y,...)` | one of the values |

Numbers are rounded to four significant digits, so that a preset can be read and a folder named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from itaml.config import parse_overrides
from itaml.errors import SettingsError

RANGES = ("uniform", "loguniform", "int", "logint")
DIGITS = 4
EXAMPLE = "lr=loguniform(1e-3,1) or batch_size=choice(32,64)"


@dataclass(frozen=True)
class Dimension:
    """One setting of the search space."""

    name: str
    kind: str  # one of `RANGES`, or choice
    values: tuple[Any, ...]  # the two ends of a range, or the choices

    @property
    def text(self) -> str:
        """The dimension as it is written."""
        return f"{self.name}={self.kind}({','.join(str(value) for value in self.values)})"

    def holds(self, value: Any) -> bool:
        """Return whether a value lies in it."""
        if self.kind == "choice":
            return value in self.values
        return isinstance(value, (int, float)) and self.values[0] <= value <= self.values[1]

    def rounded(self, value: Any) -> Any:
        """Return a suggested value as it is used."""
        if self.kind in ("uniform", "loguniform"):
            low, high = self.values
            return min(max(float(f"{value:.{DIGITS}g}"), low), high)
        return value

    def distribution(self) -> Any:
        """Return it as Optuna has it."""
        from optuna import distributions  # noqa: PLC0415 (an extra)

        if self.kind == "choice":
            return distributions.CategoricalDistribution(self.values)
        whole, logarithmic = self.kind in ("int", "logint"), self.kind.startswith("log")
        kind = distributions.IntDistribution if whole else distributions.FloatDistribution
        return kind(self.values[0], self.values[1], log=logarithmic)


def parse_space(texts: Iterable[str]) -> tuple[Dimension, ...]:
    """Read the dimensions of a search space.

    Raises:
        SettingsError: one is not written as in the table above, is empty, or is there twice.
    """
    space = tuple(_parsed(text) for text in texts)
    if not space:
        raise SettingsError(f"nothing to tune: give at least one --over, such as {EXAMPLE}")
    names = [dimension.name for dimension in space]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"--over {name} is given twice")
    return space


def _parsed(text: str) -> Dimension:
    match = re.fullmatch(r"\s*(\w+)\s*=\s*(\w+)\s*\((.*)\)\s*", text)
    if match is None:
        raise SettingsError(f"--over takes NAME=DISTRIBUTION(...), such as {EXAMPLE}, not {text!r}")
    name, kind, inside = match.groups()
    values = [parse_overrides([f"value={part}"])["value"] for part in inside.split(",") if part.strip()]
    if kind == "choice":
        if len(values) < 2 or len(set(map(repr, values))) < len(values):
            raise SettingsError(f"--over {name}: choice needs at least two different values (got {inside})")
        return Dimension(name, kind, tuple(values))
    if kind not in RANGES:
        raise SettingsError(f"--over {name}: no distribution {kind!r}; there are {', '.join(RANGES)} and choice")
    return Dimension(name, kind, _ends(name, kind, values, inside))


def _ends(name: str, kind: str, values: list[Any], inside: str) -> tuple[Any, Any]:
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(values) != 2 or len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise SettingsError(f"--over {name}: {kind} needs two numbers, the smaller first (got {inside})")
    low, high = numbers
    if kind.startswith("log") and low <= 0:
        raise SettingsError(f"--over {name}: {kind} needs numbers above 0 (got {inside})")
    if kind in ("int", "logint"):
        if low != int(low) or high != int(high):
            raise SettingsError(f"--over {name}: {kind} needs whole numbers (got {inside})")
        return int(low), int(high)
    return float(low), float(high)


def inside(space: Iterable[Dimension], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the point of a space that settings are at, or None if they lie outside."""
    dimensions = list(space)
    if not all(dimension.holds(settings.get(dimension.name)) for dimension in dimensions):
        return None
    return {dimension.name: settings[dimension.name] for dimension in dimensions}
