"""Names and numbers for people."""

from __future__ import annotations

from collections.abc import Sequence

from itaml.text import count

__all__ = ["count", "listed", "percent", "printable", "size"]


def printable(text: str) -> str:
    """Return text with everything escaped that could move the cursor or hide in a name."""
    return "".join(c if c.isprintable() or "\udc80" <= c <= "\udcff" else ascii(c)[1:-1] for c in text)


def listed(names: Sequence[str], limit: int = 6) -> str:
    """Return names separated by commas; those beyond `limit` as their number."""
    shown = ", ".join(map(printable, names[:limit]))
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction in per cent, a dash where there is none."""
    return "-" if value is None else f"{100 * value:.{digits}f}"


def size(count: int) -> str:
    """Return a number of bytes."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
