"""Checks of single numbers that Python code passes."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

from itaml.errors import SettingsError


def check_whole(name: str, value: Any, *, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`.

    Raises:
        SettingsError: it is not; the message names the value.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise SettingsError(f"{name} must be a whole number of at least {least}, not {value!r:.60}")


def check_number(name: str, value: Any, *, least: float, limit: float = float("inf")) -> None:
    """Refuse what is not a finite number between `least` and `limit`.

    Raises:
        SettingsError: it is not; the message names the value.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Real)
        or not least <= float(value) <= limit
        or value == float("inf")
    ):
        limits = f"at least {least}" if limit == float("inf") else f"between {least} and {limit}"
        raise SettingsError(f"{name} must be a number {limits}, not {value!r:.60}")


def check_settings(name: str, value: Any) -> None:
    """Refuse what does not give settings their values by name.

    Raises:
        SettingsError: it is neither None nor a dictionary whose keys are text.
    """
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise SettingsError(f"{name} must be a dictionary such as {{'adapt_steps': 5}}, not {value!r:.60}")


def check_unknown(value: Any) -> None:
    """Refuse what does not say when an image is unknown.

    Raises:
        SettingsError: it is neither auto, never nor a number between 0 and 1.
    """
    if isinstance(value, str) and value in ("auto", "never"):
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) <= 1:
        raise SettingsError(f"unknown must be auto, never or a number between 0 and 1, not {value!r:.60}")
