"""Which method is best, by how much, and which do not compete: upper bounds and methods that keep no knowledge.

A method that has forgotten everything but one task, or never learned more than one, has the class accuracy of the
share of classes in that task. Such a method can have little forgetting or a good average for the wrong reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from itaml.report.summary import Group, Stat

MARGIN = 0.03  # share of the way from the lower bound to 100 % below which a method counts as being at the bound


PERCENT = "\N{NO-BREAK SPACE}%"


@dataclass(frozen=True)
class Ranking:
    """Groups of one benchmark, each list with the best first."""

    competing: tuple[Group, ...]
    upper_bounds: tuple[Group, ...]
    at_lower_bound: tuple[Group, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups: those that compete first."""
        return (*self.competing, *self.upper_bounds, *self.at_lower_bound)


def accuracy(group: Group, p: int) -> Stat | None:
    """Return the class accuracy after the last task, with continua of p samples."""
    return group.stat(lambda run: run.final.continuum[p].classes if p in run.final.continuum else None)


def rank(groups: Sequence[Group]) -> Ranking:
    """Order groups by their class accuracy at p = 1 (at the smallest p, where that was not measured)."""
    p = min(p for group in groups for p in group.first.final.continuum)

    def mean(group: Group) -> float:
        stat = accuracy(group, p)
        return -1.0 if stat is None else stat.mean

    ordered = sorted(groups, key=mean, reverse=True)
    upper = tuple(group for group in ordered if group.is_bound)
    lower = tuple(group for group in ordered if not group.is_bound and is_at_lower_bound(group, p))
    return Ranking(tuple(group for group in ordered if group not in (*upper, *lower)), upper, lower)


def lower_bound(group: Group) -> float:
    """Return the class accuracy of knowing the largest task alone; of guessing, where there is only one task."""
    sizes = [len(row.classes) for row in group.first.tasks]
    return max(sizes) / sum(sizes) if len(sizes) > 1 else 1 / sizes[0]


def is_at_lower_bound(group: Group, p: int) -> bool:
    """Return whether a method is no better than one that knows a single task, at chance level or below."""
    stat, bound = accuracy(group, p), lower_bound(group)
    return stat is not None and bound < 1 and (stat.mean - bound) / (1 - bound) < MARGIN


def finding(ranking: Ranking, p: int) -> str:
    """Return one sentence: the best method at one size of continua, its lead, and whether the lead exceeds the std."""
    scored = [(group, stat) for group in ranking.competing if (stat := accuracy(group, p)) is not None]
    if not scored:
        return f"At p = {p} no method is better than one that knows a single task."
    scored.sort(key=lambda pair: pair[1].mean, reverse=True)
    (best, top), *others = scored
    begin = f"At p = {p}, {best.label} reaches {_percent(top)} class accuracy after the last task ({_seeds(top)})"
    if not others:
        return f"{begin}; there is no other method to compare it with."
    second, next_best = others[0]
    points = f"{100 * (top.mean - next_best.mean):.2f}"
    lead = f"{points} points above {second.label} ({_percent(next_best)})"
    if points == "0.00":
        lead = f"level with {second.label} ({_percent(next_best)})"
    if top.std is None or next_best.std is None:
        return f"{begin}, {lead}; one seed gives no standard deviation, so the order may be chance."
    if separated(top, next_best):
        return f"{begin}, {lead}: a lead of more than one standard deviation of either."
    close = [group.label for group, stat in others if not separated(top, stat)]
    return f"{begin}, {lead}: no clear winner, because {_listed(close)} within one standard deviation."


def separated(better: Stat, worse: Stat) -> bool:
    """Return whether two means differ by more than the larger of their standard deviations."""
    return better.mean - worse.mean > max(better.std or 0.0, worse.std or 0.0)


def remarks(ranking: Ranking) -> list[str]:
    """Name the methods that do not compete, and why."""
    notes = []
    if ranking.upper_bounds:
        notes.append(f"Not ranked, upper bound: {_names(ranking.upper_bounds)} (trains on the data of all tasks).")
    if ranking.at_lower_bound:
        bound = 100 * max(map(lower_bound, ranking.at_lower_bound))
        notes.append(
            f"Not ranked, at chance level: {_names(ranking.at_lower_bound)} "
            f"(no better than knowing a single task, {bound:.1f}{PERCENT})."
        )
    return notes


def _names(groups: Sequence[Group]) -> str:
    return ", ".join(group.label for group in groups)


def _percent(stat: Stat) -> str:
    mean = f"{100 * stat.mean:.2f}"
    return f"{mean}{PERCENT}" if stat.std is None else f"{mean} ± {100 * stat.std:.2f}{PERCENT}"


def _seeds(stat: Stat) -> str:
    return "1 seed" if stat.count == 1 else f"mean ± std of {stat.count} seeds"


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    if len(names) > 4:
        return f"{len(names)} other methods are"
    return f"{', '.join(names[:-1])} and {names[-1]} are"
