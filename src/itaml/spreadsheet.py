"""Cells of CSV files that a spreadsheet must not take for formulas."""

from __future__ import annotations

from typing import Any

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def safe_cell(value: Any) -> Any:
    """Return a cell as it may be written to CSV: text that a spreadsheet would run as a formula begins with a quote.

    >>> safe_cell("=cmd|' /C calc'!A0")
    "'=cmd|' /C calc'!A0"
    >>> safe_cell("-1.5"), safe_cell(-1.5), safe_cell("a=b")
    ('-1.5', -1.5, 'a=b')
    """
    if not isinstance(value, str) or not value.lstrip(" ").startswith(_STARTS) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
