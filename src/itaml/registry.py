"""Names for things that are looked up by name: methods, backbones.

A registry holds import paths, not objects, so that listing names costs nothing: `itaml list methods` does not
import torch. Installed packages add to a registry through an entry point of its group.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from itaml.errors import UnknownNameError


@dataclass(frozen=True)
class Entry:
    """One registered name: where the object is (`package.module:attribute`) and a line for people."""

    name: str
    target: str
    summary: str
    traits: Any = None  # what users of the entry need to know before it is imported

    def load(self) -> Any:
        """Import the object."""
        module, _, attribute = self.target.partition(":")
        return getattr(import_module(module), attribute)


class Registry:
    """A table of entries under one kind of name.

    Args:
        kind: what a name stands for, in error messages.
        group: entry points of this group are entries too.
        declared: returns entries that are declared elsewhere; called when the registry is first used.
    """

    def __init__(self, kind: str, *, group: str, declared: Callable[[], Iterable[Entry]] = tuple) -> None:
        self.kind = kind
        self.group = group
        self._declared = declared
        self._entries: dict[str, Entry] = {}
        self._plugins_read = False

    def add(self, name: str, target: str, summary: str, *, traits: Any = None) -> None:
        """Register `name`; a second registration of a name is an error of ours, not of the user's."""
        assert name not in self._entries, f"{self.kind} {name!r} is registered twice"
        self._entries[name] = Entry(name, target, summary, traits)

    def __iter__(self) -> Iterator[Entry]:
        self._read_plugins()
        return iter(self._entries.values())

    def names(self) -> tuple[str, ...]:
        """Return all names in the order of registration."""
        return tuple(entry.name for entry in self)

    def entry(self, name: str) -> Entry:
        """Return the entry called `name`.

        Raises:
            UnknownNameError: there is none; the message offers the nearest name.
        """
        self._read_plugins()
        if name not in self._entries:
            raise UnknownNameError(unknown(self.kind, name, self._entries))
        return self._entries[name]

    def load(self, name: str) -> Any:
        """Import and return what is registered as `name` (see `entry` for errors)."""
        return self.entry(name).load()

    def _read_plugins(self) -> None:
        if self._plugins_read:
            return
        self._plugins_read = True
        self._entries |= {entry.name: entry for entry in self._declared()}
        for point in entry_points(group=self.group):
            if point.name not in self._entries:
                summary = f"from the package {point.dist.name}" if point.dist else "from an installed package"
                self._entries[point.name] = Entry(point.name, point.value, summary)


LONGEST = 100  # letters of an unknown name in an error message


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the error message for a name that is not among `known`, with the nearest one when there is one."""
    names = sorted(known)
    name = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if nearest:
        return f"no {kind} {name!r}; did you mean {nearest[0]!r}?"
    return f"no {kind} {name!r}; there are: {', '.join(names)}"
