"""Words for numbers, used in messages and reports."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: 1 class, 2 classes."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"
