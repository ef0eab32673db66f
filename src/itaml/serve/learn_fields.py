"""The text fields of a learn: classes and epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from itaml.modelstore.class_names import LONGEST
from itaml.serve.api_errors import ApiError

MOST_EPOCHS = 10_000
Fields = Mapping[str, Sequence[str]]


def parse_epochs(fields: Fields) -> int | None:
    """Return the number of epochs that was asked for, None if none was.

    Raises:
        ApiError: it is not a number of epochs.
    """
    given = fields.get("epochs", ())
    if not given:
        return None
    text = given[0]
    if len(given) > 1 or not text.isascii() or not text.isdigit() or len(text) > 5 or not 0 < int(text) <= MOST_EPOCHS:
        raise ApiError(422, f"epochs must be one whole number from 1 to {MOST_EPOCHS}")
    return int(text)


def parse_labels(fields: Fields, images: int) -> list[str]:
    """Return the class of each image.

    Raises:
        ApiError: there is not one for each.
    """
    one, each = list(fields.get("class", ())), list(fields.get("classes", ()))
    if len(one) + bool(each) != 1:
        raise ApiError(422, "give one field 'class' for all images, or a field 'classes' for each image")
    labels = one * images if one else each
    if len(labels) != images:
        raise ApiError(422, f"there are {images} images but {len(labels)} classes")
    if any(not 0 < len(label) <= LONGEST for label in labels):
        raise ApiError(422, f"the name of a class has 1 to {LONGEST} characters")
    for label in dict.fromkeys(labels):
        check_label(label)
    return labels


def check_label(label: str) -> None:
    """Refuse names that browsers take out of an address.

    Raises:
        ApiError: it is one of them.
    """
    if label.strip() in (".", ".."):
        raise ApiError(400, f"a class cannot be called {label!r}")
