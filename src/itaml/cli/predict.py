"""`itaml predict`: name pictures."""

from __future__ import annotations

import csv
import glob
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from itaml.cli.options import Device, Precision, Threads, set_threads
from itaml.errors import DataError, UsageError

if TYPE_CHECKING:
    from itaml.library.answers import Answer, Grouping

FORMATS = ("table", "csv", "jsonl")


def command(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    pictures: Annotated[
        list[str],
        typer.Argument(help="Picture files, folders or patterns such as 'new/*.jpg'; - reads a list of files."),
    ],
    *,
    continuum: Annotated[
        bool, typer.Option("--continuum", help="All pictures are of one task: find it from all of them together.")
    ] = False,
    group_by: Annotated[
        str | None, typer.Option(metavar="folder", help="The pictures in each folder are of one task.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="The pictures are in order and their task changes now and then: find where."),
    ] = False,
    mean_run: Annotated[
        float | None,
        typer.Option(min=1, help="With --stream: pictures of one task in a row on average; else estimated."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes to tell for each picture.")] = 1,
    unknown_below: Annotated[
        float, typer.Option(min=0, max=1, help="Answer `unknown` where the confidence is below this.")
    ] = 0.0,
    form: Annotated[str, typer.Option("--format", help="table, csv or jsonl (one JSON object a line).")] = "table",
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
) -> None:
    """Name pictures: one line each with file, class, confidence and task.

    Each picture stands alone unless --continuum, --group-by folder or --stream says which belong to one task; then
    all of them help to find it, which makes the answers better.
    """
    if form not in FORMATS:
        raise UsageError(f"--format is one of {', '.join(FORMATS)}, not {form!r}")
    group = _grouping(continuum, group_by, stream)
    if mean_run is not None and group != "stream":
        raise UsageError("--mean-run is for --stream")
    set_threads(threads)
    logging.getLogger("itaml").addHandler(logging.NullHandler())  # unreadable pictures have rows of their own
    from itaml.library.library import Library

    library = Library.open(model, device=device, precision=precision)
    files = list(expand(pictures, sys.stdin))
    if not files:
        raise DataError(f"no pictures in {', '.join(pictures)}")
    answers = library.predict(files, group=group, mean_run=mean_run, top=top, unknown_below=unknown_below)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files that are not text go out as they came in
    {"table": _table, "csv": _csv, "jsonl": _jsonl}[form](answers, top)
    failed = [answer for answer in answers if answer.error]
    if failed:
        one = f"{failed[0].file}: {failed[0].error}"
        raise DataError(f"{len(failed)} of {len(answers)} pictures could not be read, such as {one}")


def _grouping(continuum: bool, group_by: str | None, stream: bool) -> Grouping:
    if group_by not in (None, "folder"):
        raise UsageError(f"--group-by takes folder, not {group_by!r}")
    if continuum + stream + (group_by is not None) > 1:
        raise UsageError("--continuum, --group-by and --stream exclude each other")
    return "all" if continuum else "stream" if stream else "folder" if group_by else "each"


def expand(words: Iterable[str], stdin: TextIO) -> Iterator[str]:
    """Yield the files that are meant: files, the pictures in folders, what patterns match, and `-` a list.

    Raises:
        UsageError: a name is neither a file nor a folder, or a pattern matches nothing.
    """
    from itaml.data.files import list_pictures

    for word in words:
        if word == "-":
            yield from (line for line in stdin.read().splitlines() if line.strip())
        elif os.path.isdir(word):
            yield from (os.path.join(word, name) for name in list_pictures(word))
        elif os.path.lexists(word):
            yield word
        elif glob.has_magic(word):
            found = sorted(name for name in glob.glob(word, recursive=True) if os.path.isfile(name))
            if not found:
                raise UsageError(f"the pattern {word!r} matches no file")
            yield from found
        else:
            raise UsageError(f"there is no file or folder {word!r}")


def _table(answers: list[Answer], top: int) -> None:
    from itaml.cli.words import printable

    width = max(len("file"), *(len(printable(answer.file or "")) for answer in answers))
    label = max(len("class"), *(len(printable(answer.label or "unreadable")) for answer in answers))
    print(f"{'file':{width}}  {'class':{label}}  {'confidence':>10}  {'task':>4}" + ("  then" if top > 1 else ""))
    for answer in answers:
        name = f"{printable(answer.file or ''):{width}}  {printable(answer.label or 'unreadable'):{label}}"
        if answer.error:
            print(f"{name}  {answer.error}")
            continue
        others = ", ".join(f"{printable(other)} {chance:.3f}" for other, chance in answer.top[1:])
        print(f"{name}  {answer.confidence:>10.3f}  {(answer.task or 0) + 1:>4}" + (f"  {others}" if others else ""))


def _csv(answers: list[Answer], top: int) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    more = [f"{name}{rank}" for rank in range(2, top + 1) for name in ("class", "confidence")]
    writer.writerow(["file", "class", "confidence", "task", *more])
    for answer in answers:
        if answer.error:
            writer.writerow([answer.file, "", "", ""] + [""] * len(more))
            continue
        others = [cell for name, chance in answer.top[1:] for cell in (name, f"{chance:.6f}")]
        cells = [answer.file, answer.label, f"{answer.confidence:.6f}", (answer.task or 0) + 1, *others]
        writer.writerow(cells + [""] * (4 + len(more) - len(cells)))


def _jsonl(answers: list[Answer], top: int) -> None:
    for answer in answers:
        said = answer.to_json()
        task = None if answer.task is None else answer.task + 1
        print(json.dumps({**said, "task": task, "top": said["top"][:top]}))
