"""Which process of a run fetches which remote image.

Files at URLs and WebDataset shards are fetched into a cache when they are used. Every file and every shard has one
process that fetches it, for the whole run: training and evaluation give each process the images that it owns, and
where all processes need the same images, each reads its own and all get the pixels. Images in memory and in files of
this machine have no owner, and can be read by anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from itaml import distributed
from itaml.data.images import ImageSet, JoinedPixels, PixelStore
from itaml.data.remote_files import is_url
from itaml.errors import ItamlError, sendable
from itaml.shares import Share

ANYBODY = -1
Value = TypeVar("Value")


def is_remote(benchmark: str) -> bool:
    """Return whether a benchmark is read from a URL, by all processes together."""
    return benchmark.startswith("folder:") and is_url(benchmark.removeprefix("folder:"))


def owners(images: ImageSet) -> Tensor | None:
    """Return the process that fetches each image (n,), or `ANYBODY`; None where no image has to be fetched."""
    if distributed.size() == 1:
        return None
    found = _owners(images.pixels, images.rows)
    return None if bool((found == ANYBODY).all()) else found


def _owners(pixels: PixelStore, rows: Tensor) -> Tensor:
    if isinstance(pixels, JoinedPixels):
        found, start = torch.full_like(rows, ANYBODY), 0
        for part in pixels.parts:
            inside = ((rows >= start) & (rows < start + len(part))).nonzero().flatten()
            found[inside] = _owners(part, rows[inside] - start)
            start += len(part)
        return found
    home = getattr(getattr(pixels, "index", None), "home", None)
    return torch.full_like(rows, ANYBODY) if home is None else home(rows) % distributed.size()


def owner_share(owned: Tensor) -> Share:
    """Divide a mini-batch by the owners of its samples (n,); those of anybody go to the smallest parts."""
    parts = [(owned == rank).nonzero().flatten().tolist() for rank in range(distributed.size())]
    for position in (owned == ANYBODY).nonzero().flatten().tolist():
        min(parts, key=len).append(position)
    return Share(tuple(torch.tensor(sorted(part), dtype=torch.int64) for part in parts), distributed.rank())


def own_positions(images: ImageSet) -> Tensor:
    """Return the positions of the images that this process works on, when all are divided among the processes."""
    owned = owners(images)
    if owned is None:
        block = distributed.own_block(len(images))
        return torch.arange(block.start, block.stop)
    return owner_share(owned).own


def own_batches(images: ImageSet, size: int) -> list[Tensor]:
    """Return the positions of this process's batches; those of images without owners are the same for any number."""
    owned = owners(images)
    if owned is not None:
        return list(owner_share(owned).own.split(size))
    batches = torch.arange(len(images)).split(size)
    return [batches[number] for number in distributed.own_block(len(batches))]


def read_together(images: ImageSet, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return `images.batch(positions)`; several processes, which all ask for the same, read what each of them owns."""
    owned = owners(images)
    if owned is None:
        return images.batch(positions)
    mine = positions[owner_share(owned[positions]).own]
    parts = together(lambda: images.numbered().batch(mine))
    pixels, found = (torch.cat(column) for column in zip(*parts, strict=True))
    place = torch.full((len(images),), -1)
    place[found] = torch.arange(len(found))
    order = place[positions]
    kept = order >= 0
    return pixels[order[kept]], images.labels[positions[kept]]


def together(function: Callable[[], Value]) -> list[Value]:
    """Call a function in every process, and return the values of all; if it fails in one, all raise its error."""
    outcome: tuple[Value | None, Exception | None]
    try:
        outcome = function(), None
    except (ItamlError, OSError) as error:
        outcome = None, sendable(error)
    found = distributed.gather_objects(outcome)
    for _, failure in found:
        if failure is not None:
            raise failure
    return [value for value, _ in found]  # type: ignore[misc]
