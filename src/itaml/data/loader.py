"""Walk a set of images in a given order, a batch at a time, reading ahead where reading costs anything.

In a run over several processes, `iterate_shares` has each read its share of every batch, and no other image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from queue import Empty, Full, Queue
from threading import Event, Thread

import torch
from torch import Tensor

from itaml import distributed
from itaml.data.images import ArrayPixels, ImageSet, JoinedPixels, PixelStore
from itaml.data.ownership import owner_share, owners
from itaml.errors import SettingsError
from itaml.shares import Divide, Share

Batch = tuple[Tensor, Tensor]  # images (k, c, h, w), labels (k,)

POLL_SECONDS = 0.1


def iterate(images: ImageSet, order: Tensor, *, batch_size: int, prefetch: int = 2) -> Iterator[Batch]:
    """Yield `images.batch` of consecutive slices of `order`; batches of which nothing could be read are left out.

    Args:
        images: what to read.
        order: positions in `images` (n,).
        batch_size: images per batch; the last may have fewer.
        prefetch: batches read ahead by one background thread; 0 reads when asked. Images in memory are never
            read ahead. The thread ends with the iterator, also when the iterator is closed or forgotten early.

    Raises:
        SettingsError: `batch_size` is below 1 or `prefetch` below 0.
        DataError: from the iterator, when an image is unreadable and the set is strict about it.
    """
    if batch_size < 1:
        raise SettingsError(f"batch_size must be >= 1 (got {batch_size})")
    if prefetch < 0:
        raise SettingsError(f"prefetch must be >= 0 (got {prefetch})")
    slices = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    return (batch for batch in _read(images, slices, prefetch) if len(batch[1]))


def iterate_shares(
    images: ImageSet, order: Tensor, *, batch_size: int, divide: Divide, by_task: bool = False
) -> Iterator[tuple[Tensor, Tensor, Share | None]]:
    """Yield this process's images of each batch, the positions of all images of the batch, and the division.

    The batches are those of `iterate`, for any number of processes. For one process the division is None.

    Args:
        images: what to read.
        order: positions in `images` (n,).
        batch_size: images per batch, of all processes together.
        divide: divides a batch, by the positions of its images, among the processes, unless they have to be fetched:
            then each process reads those that it owns.
        by_task: `divide` keeps samples together, so that it is always followed.
    """
    if distributed.size() == 1:
        yield from ((*batch, None) for batch in iterate(images.numbered(), order, batch_size=batch_size))
        return
    slices = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    owned = owners(images)
    if owned is not None and not by_task:
        divided = [owner_share(owned[positions]) for positions in slices]
    else:
        divided = [divide(positions) for positions in slices]
    own = [positions[share.own] for positions, share in zip(slices, divided, strict=True)]
    complete = in_memory(images)
    read = _read(images.numbered(), own, prefetch=2)
    for (pixels, found), positions, share in zip(read, slices, divided, strict=True):
        if complete:
            yield pixels, positions, share
            continue
        readable = torch.zeros(len(positions), dtype=torch.uint8)
        readable[share.own] = torch.isin(positions[share.own], found).to(torch.uint8)
        kept = distributed.add_up([readable])[0].nonzero().flatten()  # integers: the largest
        if len(kept):
            yield pixels, positions[kept], share if len(kept) == len(positions) else share.select(kept)[0]


def _read(images: ImageSet, slices: Sequence[Tensor], prefetch: int) -> Iterator[Batch]:
    return _plain(images, slices) if prefetch == 0 or in_memory(images) else _ahead(images, slices, prefetch)


def in_memory(images: ImageSet) -> bool:
    """Whether reading needs no decoding, also when the set was joined from several in memory."""
    return _store_in_memory(images.pixels)


def _store_in_memory(pixels: PixelStore) -> bool:
    if isinstance(pixels, JoinedPixels):
        return all(map(_store_in_memory, pixels.parts))
    return isinstance(pixels, ArrayPixels)


def _plain(images: ImageSet, slices: Sequence[Tensor]) -> Iterator[Batch]:
    for positions in slices:
        yield images.batch(positions)


def _ahead(images: ImageSet, slices: Sequence[Tensor], prefetch: int) -> Iterator[Batch]:
    ready: Queue[Batch | BaseException | None] = Queue(maxsize=prefetch)
    stopped = Event()
    reader = Thread(target=_produce, args=(images, slices, ready, stopped), name="itaml-read-ahead", daemon=True)
    reader.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        while not ready.empty():  # so that a reader that waits for room sees that it may go
            _discard(ready)
        reader.join()


def _produce(
    images: ImageSet, slices: Sequence[Tensor], ready: Queue[Batch | BaseException | None], stopped: Event
) -> None:
    def hand_over(item: Batch | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=POLL_SECONDS)
                return
            except Full:
                continue

    try:
        for positions in slices:
            if stopped.is_set():
                return
            hand_over(images.batch(positions))
        hand_over(None)
    except BaseException as error:  # raised again where the batches are used
        hand_over(error)


def _discard(ready: Queue[Batch | BaseException | None]) -> None:
    try:
        ready.get_nowait()
    except Empty:
        return
