"""Published figures, with where they were published, to put beside our own (`published.toml`)."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from itaml.config import Settings


class Figure(Settings):
    """An accuracy that somebody published."""

    benchmark: str
    method: str
    value: float  # class accuracy after the last task, as a fraction
    p: int  # samples per continuum; 1 is the usual protocol
    source: str
    note: str = ""
    setting: str = ""  # where the figure is not of the method as it usually is, such as "r = 5"
    average: float | None = None  # mean over the ends of all tasks
    curve: tuple[float, ...] = ()  # after each task


class Bound(Settings):
    """A continuum size that somebody published for a required task accuracy."""

    benchmark: str
    gamma: float
    n: int
    source: str


@cache
def _table() -> dict[str, list[dict[str, object]]]:
    return tomllib.loads(files("itaml.report").joinpath("published.toml").read_text(encoding="utf-8"))


def figures(benchmark: str, method: str | None = None) -> list[Figure]:
    """Return what was published for a benchmark, of one method or of all; the plain method's figures first."""
    found = [Figure.model_validate(row) for row in _table()["figure"]]
    found = [figure for figure in found if figure.benchmark == benchmark and method in (None, figure.method)]
    return sorted(found, key=lambda figure: bool(figure.setting))


def figure(benchmark: str, method: str, *, p: int) -> Figure | None:
    """Return the published figure of a method as it usually is, at one size of continua, if there is one."""
    plain = [f for f in figures(benchmark, method) if f.p == p and not f.setting]
    return plain[0] if plain else None


def bounds(benchmark: str) -> list[Bound]:
    """Return the published continuum sizes of a benchmark."""
    return [bound for row in _table()["bound"] if (bound := Bound.model_validate(row)).benchmark == benchmark]
