"""Class names: the folder names, which stay as they are to the end, and what is too alike to be two classes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from itaml.errors import DataError

LONGEST = 255
UNKNOWN = "unknown"  # what a prediction says where the confidence is too low


def check_names(names: Iterable[str]) -> None:
    """Refuse names that cannot be kept, or that people and file systems cannot tell apart.

    Raises:
        DataError: a name is empty, too long or not text, or two differ only in case or in their Unicode form.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not name.strip() or len(name) > LONGEST:
            raise DataError(
                f"{name!r:.60} cannot be the name of a class: it is empty or longer than {LONGEST} characters"
            )
        if "\0" in name:
            raise DataError(f"{name!r} cannot be the name of a class: it has a null character")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DataError(f"the class folder {name!r} has a name that is not Unicode text; rename it") from None
        twin = seen.setdefault(_key(name), name)
        if twin != name:
            raise DataError(
                f"the class folders {twin!r} and {name!r} differ only in {_difference(twin, name)}; "
                "rename one, or put their images together if they are one class"
            )


def match_names(names: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return for each name the known class that it is, or itself if it is new.

    A name in another Unicode form is the same name: some systems change the form of names on their own. One that
    differs in case is refused, because it may be meant either way.

    Raises:
        DataError: a name differs from a known class only in case, a new class would be called like the prediction
            `unknown`, or see `check_names`.
    """
    check_names(names)
    by_form = {unicodedata.normalize("NFC", name): name for name in known}
    by_key = {_key(name): name for name in known}
    matched = {}
    for name in names:
        same = by_form.get(unicodedata.normalize("NFC", name))
        twin = by_key.get(_key(name))
        if same is None and twin is not None:
            raise DataError(
                f"the model knows a class {twin!r}, and {name!r} differs from it only in {_difference(twin, name)}; "
                f"rename the folder to {twin!r} to add to that class, or to something else for a new one"
            )
        if same is None and _key(name) == UNKNOWN:
            raise DataError(
                f"a class cannot be called {name!r}: a prediction says `{UNKNOWN}` where the confidence is too low; "
                "choose another name"
            )
        matched[name] = same or name
    return matched


def _key(name: str) -> str:
    """Return what two names have in common that look alike (Unicode's caseless match)."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def _difference(left: str, right: str) -> str:
    return "case" if left.casefold() == right.casefold() else "Unicode form, case or outer spaces"
