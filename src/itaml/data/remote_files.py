"""Files elsewhere: `s3://`, `gs://`, `https://` and whatever else fsspec can open (extra `remote`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from itaml.errors import DataError, MissingExtraError

MAX_FILES = 50_000_000  # of one listing
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_BRACES = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
MAX_SHARDS = 1_000_000


def is_url(text: str) -> bool:
    """Return whether a text names something elsewhere rather than a path."""
    return _URL.match(text) is not None


@contextmanager
def open_remote(url: str) -> Iterator[BinaryIO]:
    """Open a remote file for reading inside the block, from its beginning to its end.

    Raises:
        DataError: it is missing or reading it fails.
        MissingExtraError: a package is missing.
    """
    system, path = filesystem(url)
    try:
        with system.open(path, "rb", **({"block_size": 0} if url.startswith("http") else {})) as file:
            yield cast(BinaryIO, file)
    except DataError:
        raise
    except Exception as error:  # every file system raises its own
        raise DataError(f"cannot read {url}: {_reason(error)}") from error


def list_remote(url: str) -> list[str]:
    """Return the names of all files below a URL, relative to it and sorted.

    Raises:
        DataError: it cannot be listed, or has too many files.
        MissingExtraError: a package is missing.
    """
    system, path = filesystem(url)
    base = path.rstrip("/") + "/"
    try:
        found = system.find(base)
    except Exception as error:  # every file system raises its own
        raise DataError(f"cannot list {url}: {_reason(error)}") from error
    if len(found) > MAX_FILES:
        raise DataError(f"{url} has more than {MAX_FILES} files")
    names = (name.removeprefix(base) for name in map(str, found) if name.startswith(base))
    return sorted(name for name in names if is_inside(name))


def is_inside(name: str) -> bool:
    """Return whether a relative name stays below what it is relative to, and is not hidden."""
    parts = name.split("/")
    return not is_url(name) and all(part and not part.startswith(".") for part in parts)


def filesystem(url: str) -> tuple[Any, str]:
    """Return fsspec's file system of a URL, and the path in it.

    Raises:
        DataError: there is no such protocol.
        MissingExtraError: fsspec, or the package of the protocol, is not installed.
    """
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtraError("images from URLs need fsspec: pip install 'itaml[remote]'") from error
    try:
        system, path = url_to_fs(url)
    except ImportError as error:
        raise MissingExtraError(f"{url.partition(':')[0]}:// needs another package: {error}") from error
    except ValueError as error:
        raise DataError(f"cannot read {url}: {error}") from error
    return system, str(path)


def expand_braces(url: str) -> list[str]:
    """Return the URLs that `shard-{000..009}.tar` stands for; one without braces stands for itself.

    Raises:
        DataError: the range runs backwards or is too long.
    """
    match = _BRACES.search(url)
    if match is None:
        return [url]
    low, high = int(match[1]), int(match[2])
    if not low <= high < low + MAX_SHARDS:
        raise DataError(f"{match[0]} in {url} must run upwards, over at most {MAX_SHARDS} numbers")
    width = len(match[1])
    return [
        f"{url[: match.start()]}{number:0{width}}{rest}"
        for number in range(low, high + 1)
        for rest in expand_braces(url[match.end() :])
    ]


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return text if text else type(error).__name__
