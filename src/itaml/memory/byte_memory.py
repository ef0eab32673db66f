"""`ByteMemory`: exemplars as WebP files, at most `budget` bytes of them, an equal share for each class.

The protocol "2,000 exemplars' worth of bytes" of CIFAR-100: 2,000 uncompressed images are 6,144,000 bytes, in which
about five times as many compressed ones fit. It is a protocol of its own, never compared with 2,000 images.

An image is encoded once, when it is chosen, with a quality of 90; what is trained on are its decoded pixels. A learner
also trains on new images as they come back from WebP (`as_stored`): otherwise compression would distinguish old
classes from new ones in training, and every image that is not compressed would look new. Decoded images are kept
beside the files for speed, but states hold the files alone. Like a memory of images, a class keeps its images in an
order of preference, and keeps fewer later by cutting the end off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from itaml.data.images import ClassId, ImageSet
from itaml.errors import CheckpointError, SettingsError
from itaml.memory.buffer import Features, Memory
from itaml.memory.mapped_store import MappedStore
from itaml.memory.selection import herding_order
from itaml.memory.webp_files import CompressedPixels, decoded, encoded, saved_files

SAMPLE = 100  # images that are encoded to find out how large they get
CHUNK = 64  # images that are read and encoded together


class ByteMemory(Memory):
    """A memory whose budget is bytes of WebP files.

    Args:
        budget: bytes kept in all, of all classes together.
        selection: `random`, `herding` (needs features) or `first`.
    """

    def __init__(self, *, budget: int, selection: str = "random") -> None:
        super().__init__(budget=budget, selection=selection)
        if selection == "content":
            raise SettingsError("a memory in bytes has the selections random, herding and first, not content")
        self._files: dict[ClassId, list[bytes]] = {}  # of `_images`, in the same order

    @property
    def bytes_used(self) -> int:
        """Bytes of all files."""
        return sum(map(self.bytes_of, self._files))

    def bytes_of(self, class_id: ClassId) -> int:
        """Return the bytes of the files of a class."""
        return sum(map(len, self._files[class_id]))

    def share(self, rank: int, classes: int) -> int:
        """Return the bytes of each of `classes` classes; those that are left over are not used."""
        return self.budget // classes

    def as_stored(self, images: ImageSet) -> ImageSet:
        """Return images as they come back from WebP: at once if they are in memory, else when they are read."""
        if not self.budget:
            return images
        compressed = CompressedPixels(images.pixels)
        if not images.in_memory:
            return ImageSet(compressed, images.labels, images.rows)
        pixels = torch.cat([compressed.read(rows)[0] for rows in images.rows.split(CHUNK)])
        return ImageSet.from_arrays(pixels, images.labels)

    def check_room(self, classes: int, images: ImageSet | None = None) -> None:
        """Refuse a number of classes that leaves some without an image, judged by a sample of `images`.

        Raises:
            SettingsError: an image is larger than the share of a class, or cannot be a WebP file.
        """
        if not self.budget:
            return
        sizes = [min(map(len, files)) for files in self._files.values() if files]
        if images is not None:
            positions = torch.linspace(0, max(len(images) - 1, 0), min(SAMPLE, len(images))).long()
            sizes += map(len, encoded(images.batch(positions)[0]))
        if max(sizes, default=0) > self.share(0, classes):
            raise SettingsError(
                f"a memory of {self.budget:,} bytes has {self.share(0, classes):,} for each of {classes} classes, and "
                f"an image takes up to {max(sizes):,}: set a larger memory_bytes"
            )

    def _new_store(self, images: ImageSet, shares: Mapping[ClassId, int]) -> MappedStore | None:
        return None

    def _shrink(self, class_id: ClassId, share: int) -> None:
        positions = fitting(map(len, self._files[class_id]), share)
        self.keep(class_id, torch.tensor(positions, dtype=torch.int64))

    def _choose(
        self, class_id: ClassId, images: ImageSet, limit: int, generator: torch.Generator, features: Features | None
    ) -> Tensor:
        members, old = images.of_classes([class_id]), self._files.get(class_id, [])
        count = len(old) + len(members)
        if self.selection == "herding":
            assert features is not None, "herding needs features"
            old = list(_ordered(torch.arange(count), old, members))
            most = len(fitting(sorted(map(len, old)), limit))  # no choice has more images than the smallest ones
            order = herding_order(features(decoded(old, images.shape)), limit=most)
            members = members.select(torch.arange(0))
        else:
            order = self._order(count, generator)
        files: list[bytes] = []
        positions = fitting((len(file) for file in _noted(_ordered(order, old, members), files)), limit)
        if not positions and files:
            raise SettingsError(f"no image of class {class_id} fits into {limit:,} bytes: set a larger memory_bytes")
        self._files[class_id] = [files[position] for position in positions]
        return decoded(self._files[class_id], images.shape)

    def keep(self, class_id: ClassId, positions: Tensor) -> None:
        """Keep only the exemplars of a class at `positions` (k,), in that order."""
        super().keep(class_id, positions)
        files = self._files[class_id]
        self._files[class_id] = [files[position] for position in positions.tolist()]

    def remove(self, class_id: ClassId) -> None:
        """Drop a class and its exemplars; a class that has none is dropped already."""
        super().remove(class_id)
        self._files.pop(class_id, None)

    def merge(self, source: ClassId, target: ClassId) -> None:
        """Give the exemplars of `source` to `target`, cut to its share, as many of each, in turns."""
        files = [*self._files.get(target, ()), *self._files.get(source, ())]
        if files:
            self._files[target] = files
        super().merge(source, target)

    def discard(self, images: Tensor, labels: Tensor) -> None:
        """Drop images (n, c, h, w) of classes (n,), before or after their encoding, where they are exemplars."""
        for image, class_id in zip(images, labels.tolist(), strict=True):
            files = self._files.get(class_id)
            if files is not None:
                own = encoded(image[None])[0]
                same = (self._images[class_id] == image).flatten(1).all(1) | torch.tensor([one == own for one in files])
                self.keep(class_id, (~same).nonzero().flatten())

    def renumber(self, ids: Mapping[ClassId, ClassId]) -> None:
        """Give the classes other ids."""
        super().renumber(ids)
        self._files = {ids[class_id]: files for class_id, files in self._files.items()}

    def state_dict(self) -> dict[str, object]:
        """Return everything that is kept: the files of each class one after another, and the size of each file."""
        shape = next((list(pixels.shape[1:]) for pixels in self._images.values()), [0, 0, 0])
        return {
            "unit": "bytes",
            "budget": self.budget,
            "selection": self.selection,
            "classes": list(self._images),
            "shape": shape,
            "files": {str(c): _bytes_tensor(b"".join(files)) for c, files in self._files.items()},
            "sizes": {str(c): torch.tensor([*map(len, files)], dtype=torch.int64) for c, files in self._files.items()},
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Restore a saved memory.

        Raises:
            CheckpointError: it is not one, or it is of images.
        """
        try:
            self.budget = int(state["budget"])  # type: ignore[call-overload]
            self.selection = str(state["selection"])
            found = saved_files(state)
            channels, height, width = map(int, state["shape"])  # type: ignore[call-overload]
            self._files = {c: found[str(c)] for c in state["classes"]}  # type: ignore[attr-defined]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"not a saved memory of bytes: {error!r}") from error
        self._store, self._keys = None, {}
        self._images = {c: decoded(files, (channels, height, width)) for c, files in self._files.items()}


def fitting(sizes: Iterable[int], share: int) -> list[int]:
    """Return the positions of files that fit into `share` bytes: from the first that does to the next that does not."""
    positions: list[int] = []
    for position, size in enumerate(sizes):
        if size <= share:
            positions.append(position)
            share -= size
        elif positions:
            break
    return positions


def _ordered(order: Tensor, old: Sequence[bytes], members: ImageSet) -> Iterator[bytes]:
    """Yield files in an order over the old ones and new images behind them, which are encoded when they are needed."""
    for part in order.split(CHUNK):
        new = part[part >= len(old)] - len(old)
        pixels, positions = members.numbered().batch(new)  # without those that cannot be read
        fresh = dict(zip(positions.tolist(), encoded(pixels), strict=True))
        for position in part.tolist():
            file = old[position] if position < len(old) else fresh.get(position - len(old))
            if file is not None:
                yield file


def _noted(files: Iterator[bytes], seen: list[bytes]) -> Iterator[bytes]:
    """Yield files, and note them in `seen`."""
    for file in files:
        seen.append(file)
        yield file


def _bytes_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
