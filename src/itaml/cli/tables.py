"""Text tables: the one printer that all commands share.

Widths are those of a terminal, where a CJK character takes two cells. A table that is too wide for the terminal gets
headers of several lines, then comes in several parts below each other; a number is never wrapped or cut.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from itaml.cli.formatting import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

GAP = 2  # spaces between columns
NARROWEST = 24  # cells of a column of text that wraps
UNLIMITED = 100_000


class Best(str):
    """A cell that is the best of its column: bold on a terminal, marked with a star elsewhere."""

    __slots__ = ()


Rows = Sequence[Sequence[str]]


def print_table(head: Sequence[str], rows: Rows, *, align: str = "") -> None:
    """Print a table to standard output, as wide as the terminal allows.

    Args:
        head: names of the columns; without any, no header is printed.
        rows: cells as text.
        align: one letter per column: l (text), r (numbers), w (text that may wrap). By default the first is text and
            the others are numbers.
    """
    bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(table_text(head, rows, align=align, width=line_width(), bold=bold))


def print_notes(notes: Sequence[str]) -> None:
    """Print sentences below a table, wrapped at words on a terminal."""
    print("\n" + "\n".join(textwrap.fill(note, line_width()) for note in notes))


def line_width() -> int:
    """Return how many cells a line of standard output has; a pipe has no limit."""
    return max(1, shutil.get_terminal_size().columns) if sys.stdout.isatty() else UNLIMITED


def table_text(head: Sequence[str], rows: Rows, *, align: str = "", width: int = UNLIMITED, bold: bool = False) -> str:
    """Return a table as text, without the last line break; see `print_table`."""
    align = align or "l" + "r" * (len(head or rows[0]) - 1)
    cells = [[cell if bold else _starred(cell) for cell in row] for row in rows]
    parts = _parts(head, cells, align, width)
    texts = [_rendered([head[i] for i in part] if head else [], cells, part, align, width, bold) for part in parts]
    return "\n\n".join(texts)


class GrowingTable:
    """A table whose rows are printed one after another while they become known.

    Args:
        head: names of the columns; a column is as wide as its name, at least `least`.
        least: cells of the narrowest column.
    """

    def __init__(self, head: Sequence[str], *, least: int = 7) -> None:
        self.head = [name.rjust(least) for name in head]

    def header(self) -> str:
        """Return the line of names."""
        return table_text(self.head, [], align="r" * len(self.head))

    def line(self, cells: Sequence[str]) -> str:
        """Return the line of one row."""
        return table_text(self.head, [cells], align="r" * len(self.head)).splitlines()[-1]


def rich_table(head: Sequence[str], *, align: str, widths: Sequence[int | None] | None = None) -> Table:
    """Return an empty rich table in the style of all commands, for a live view or for `table_text`."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=bool(head), header_style="")
    for index, letter in enumerate(align):
        table.add_column(
            Text(printable(head[index])) if head else "",
            justify="right" if letter == "r" else "left",
            width=widths[index] if widths else None,
            overflow="fold",
            vertical="top",
        )
    return table


def _starred(cell: str) -> str:
    return f"*{cell}" if isinstance(cell, Best) else cell


def _cell_width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(printable(text))


def _widths(head: Sequence[str], rows: Rows, align: str, *, wrap_head: bool) -> list[int]:
    """Return the least width of every column; that of text that may wrap is its natural one."""
    widths = []
    for index in range(len(align)):
        names = head[index].split() if wrap_head and head else [head[index]] if head else []
        widths.append(max((_cell_width(text) for text in [*names, *(row[index] for row in rows)]), default=0))
    return widths


def _parts(head: Sequence[str], rows: Rows, align: str, width: int) -> list[list[int]]:
    """Divide the columns into parts that fit; the first column is in each."""
    widths = _widths(head, rows, align, wrap_head=True)
    least = [min(w, NARROWEST) if letter == "w" else w for w, letter in zip(widths, align, strict=True)]
    parts, used = [[0]], least[0]
    for index in range(1, len(align)):
        if used + GAP + least[index] > width and len(parts[-1]) > 1:
            parts.append([0])
            used = least[0]
        parts[-1].append(index)
        used += GAP + least[index]
    return parts


def _rendered(head: Sequence[str], rows: Rows, part: Sequence[int], align: str, width: int, bold: bool) -> str:
    from rich.text import Text

    letters, chosen = "".join(align[i] for i in part), [[row[i] for i in part] for row in rows]
    widths = _widths(head, chosen, letters, wrap_head=False)
    if sum(widths) + GAP * (len(part) - 1) > width:
        widths = _widths(head, chosen, letters, wrap_head=True)
    over = sum(widths) + GAP * (len(part) - 1) - width
    for index in range(len(part) - 1, -1, -1):
        if over > 0 and letters[index] == "w":
            less = min(over, max(0, widths[index] - NARROWEST))
            widths[index] -= less
            over -= less
    table = rich_table(head, align=letters, widths=widths)
    for row in chosen:
        table.add_row(*(Text(printable(c), style="bold" if isinstance(c, Best) else "") for c in row))
    return "\n".join(_lines(table, sum(widths) + GAP * len(part), bold=bold))


def _lines(what: RenderableType, width: int, *, bold: bool) -> Iterator[str]:
    from rich.console import Console

    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=bold, color_system="standard" if bold else None, legacy_windows=False
    )
    console.print(what, soft_wrap=False)
    yield from (line.rstrip() for line in file.getvalue().splitlines())
