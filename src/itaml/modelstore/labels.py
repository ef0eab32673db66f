"""Labels given in Python: text or whole numbers, one for each image."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from torch import Tensor

from itaml.errors import DataError


def as_names(labels: Any) -> list[str]:
    """Return labels as class names.

    Args:
        labels: a sequence, array or tensor of text or numbers.

    Raises:
        DataError: they are not one-dimensional, one is neither text nor a number, or two of different types would get
            the same name.
    """
    names: list[str] = []
    named: dict[str, Any] = {}
    for position, label in enumerate(_listed(labels)):
        if isinstance(label, str):
            name = str(label)
        elif isinstance(label, bool | np.bool_ | numbers.Integral) or _is_number(label):
            name = _number_name(label, position)
        else:
            raise DataError(f"a label is text or a number, but label {position} is {label!r:.60}")
        first = named.setdefault(name, label)
        if isinstance(first, str) != isinstance(label, str):
            raise DataError(f"the labels {first!r} and {label!r} would be one class; use text or numbers, not both")
        names.append(name)
    return names


def _listed(labels: Any) -> list[Any]:
    if isinstance(labels, str | bytes):
        raise DataError(f"labels are one for each image, not a single text {labels!r:.60}")
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    dimensions = getattr(labels, "ndim", 1)
    if dimensions != 1:
        raise DataError(f"labels are one-dimensional, one for each image, but these have {dimensions} dimensions")
    if isinstance(labels, Mapping | Set):
        raise DataError(f"labels are a sequence, one for each image, not {type(labels).__name__}")
    try:
        return list(labels)
    except TypeError:
        raise DataError(f"labels are a sequence, one for each image, not {labels!r:.60}") from None


def _number_name(label: Any, position: int) -> str:
    try:
        return str(label.item() if isinstance(label, np.generic) else label)
    except ValueError:  # Python does not write whole numbers of thousands of digits
        raise DataError(f"label {position} is a number of too many digits to be the name of a class") from None


def _is_number(label: Any) -> bool:
    return isinstance(label, numbers.Real | np.floating) and bool(np.isfinite(float(label)))
