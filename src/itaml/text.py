"""Numbers in messages, reports and JSON."""

from __future__ import annotations

import math


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: 1 class, 2 classes."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def finite_or_none(number: float | None) -> float | None:
    """Return a number as JSON can hold it: None where it is infinite or no number."""
    return number if number is not None and math.isfinite(number) else None
