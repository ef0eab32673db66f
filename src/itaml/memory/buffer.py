"""`Memory`: at most `budget` images, an equal share for each class (to within one), kept as pixels.

With the selection `content` a class keeps the images with the smallest keys, which follow from their content, and every
class has the same share. What is kept then depends on the images alone and not on the order in which they arrived.

A memory of more than `MAP_ABOVE` bytes is kept in a memory-mapped file (`itaml.memory.mapped_store`); what it holds and
returns is the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy

import torch
from torch import Tensor

from itaml.data.images import ArrayPixels, ClassId, ImageSet
from itaml.data.ownership import read_together
from itaml.errors import CheckpointError, SettingsError
from itaml.memory import mapped_store
from itaml.memory.mapped_store import MappedStore
from itaml.memory.selection import SELECTIONS, content_keys, herding_order, in_turns, random_order

Features = Callable[[Tensor], Tensor]


class Memory:
    """The fixed-budget exemplar memory M.

    Args:
        budget: images kept in all, of all classes together.
        selection: `random` (the paper), `herding` (needs features), `first` or `content` (in any order the same).
    """

    def __init__(self, *, budget: int, selection: str = "random") -> None:
        if budget < 0:
            raise SettingsError(f"a memory of {budget} images is not possible")
        if selection not in SELECTIONS:
            raise SettingsError(f"selection must be one of {', '.join(SELECTIONS)}, not {selection!r}")
        self.budget = budget
        self.selection = selection
        self._images: dict[ClassId, Tensor] = {}  # class -> (k, c, h, w), best first
        self._store: MappedStore | None = None  # of which the images are views, if there are many
        self._keys: dict[ClassId, Tensor] = {}  # class -> (k,), of the selection `content` alone

    def __len__(self) -> int:
        return sum(map(len, self._images.values()))

    @property
    def classes(self) -> tuple[ClassId, ...]:
        """Classes in order of arrival."""
        return tuple(self._images)

    def count(self, class_id: ClassId) -> int:
        """Return how many images of a class are kept."""
        return int(self._images[class_id].shape[0])

    def share(self, rank: int, classes: int) -> int:
        """Return the share of the class that arrived `rank`-th among `classes`; it never grows as classes arrive."""
        if self.selection == "content":
            return self.budget // classes
        return self.budget // classes + (rank < self.budget % classes)

    def as_stored(self, images: ImageSet) -> ImageSet:
        """Return images as they would be after a stay in the memory, which changes nothing here."""
        return images

    def check_room(self, classes: int, images: ImageSet | None = None) -> None:
        """Refuse a number of classes that leaves some without an image.

        Args:
            classes: how many there are to be.
            images: some of theirs, for a memory that depends on the size of images.

        Raises:
            SettingsError: the budget is smaller than the number of classes.
        """
        if 0 < self.budget < classes:
            raise SettingsError(f"a memory of {self.budget} images is smaller than the {classes} classes to remember")

    def add(
        self,
        images: ImageSet,
        classes: Iterable[ClassId],
        *,
        generator: torch.Generator,
        features: Features | None = None,
        keys: Tensor | None = None,
    ) -> None:
        """Choose exemplars of `classes` from `images` and shrink the shares of the classes already there.

        A class that is in the memory already is chosen again from its old exemplars and the new images together.

        Args:
            images: where to choose from; classes other than `classes` are ignored.
            classes: classes to add or to refresh.
            generator: for the random selection.
            features: maps pixels to features, for herding.
            keys: of `images` (n,), for the selection `content`; made from the pixels if not given.
        """
        there = set(images.labels.unique().tolist())
        arriving = dict.fromkeys(class_id for class_id in classes if class_id in there)
        known = [*self._images, *(c for c in arriving if c not in self._images)]
        if not known:
            return
        self.check_room(len(known))
        shares = {class_id: self.share(rank, len(known)) for rank, class_id in enumerate(known)}
        store = self._new_store(images, shares)
        for class_id in known:
            if class_id not in arriving:
                self._shrink(class_id, shares[class_id])
            elif self.selection == "content":
                self._merge_by_key(class_id, images, keys, shares[class_id])
            else:
                self._images[class_id] = self._choose(class_id, images, shares[class_id], generator, features)
            if store is not None:
                self._images[class_id] = store.put(self._images[class_id])
        self._store = store

    def _new_store(self, images: ImageSet, shares: Mapping[ClassId, int]) -> MappedStore | None:
        """Return a mapped store for all that can be kept, if it is large; the budget itself may be without bound."""
        there = Counter(images.labels.tolist())
        count = sum(min(share, there[c] + (self.count(c) if c in self._images else 0)) for c, share in shares.items())
        pixels = count * math.prod(images.shape)
        if pixels * 8 <= mapped_store.MAP_ABOVE:  # whatever their type is
            return None
        some = next(iter(self._images.values()), None)
        some = read_together(images, torch.arange(min(1, len(images))))[0] if some is None else some
        if pixels * some.element_size() <= mapped_store.MAP_ABOVE:
            return None
        return MappedStore(count, images.shape, some.dtype)

    def _merge_by_key(self, class_id: ClassId, images: ImageSet, keys: Tensor | None, limit: int) -> None:
        positions = (images.labels == class_id).nonzero().flatten()
        pixels, readable = read_together(images.numbered(), positions)
        found = content_keys(pixels) if keys is None else keys[readable]
        if class_id in self._images:
            pixels, found = torch.cat([self._images[class_id], pixels]), torch.cat([self._keys[class_id], found])
        order = found.argsort(stable=True)[:limit]
        self._images[class_id], self._keys[class_id] = pixels[order], found[order]

    def _choose(
        self, class_id: ClassId, images: ImageSet, limit: int, generator: torch.Generator, features: Features | None
    ) -> Tensor:
        members = images.of_classes([class_id])
        old = self._images.get(class_id)
        if self.selection == "herding":
            assert features is not None, "herding needs features"
            pixels = _with_old(read_together(members, torch.arange(len(members)))[0], old)
            return pixels[herding_order(features(pixels), limit=limit)]
        if old is not None:
            pixels = _with_old(read_together(members, torch.arange(len(members)))[0], old)
            return pixels[self._order(len(pixels), generator)[:limit]]
        return read_together(members, self._order(len(members), generator)[:limit])[0].clone()

    def _order(self, count: int, generator: torch.Generator) -> Tensor:
        return random_order(count, generator=generator) if self.selection == "random" else torch.arange(count)

    def keep(self, class_id: ClassId, positions: Tensor) -> None:
        """Keep only the exemplars of a class at `positions` (k,), in that order."""
        self._images[class_id] = self._images[class_id][positions]
        if class_id in self._keys:
            self._keys[class_id] = self._keys[class_id][positions]

    def _shrink(self, class_id: ClassId, share: int) -> None:
        if self.count(class_id) > share:
            self.keep(class_id, torch.arange(share))

    def remove(self, class_id: ClassId) -> None:
        """Drop a class and its exemplars; a class that has none is dropped already."""
        self._images.pop(class_id, None)
        self._keys.pop(class_id, None)

    def merge(self, source: ClassId, target: ClassId) -> None:
        """Give the exemplars of `source` to `target`, cut to its share: by their keys, or as many of each, in turns."""
        parts = [self._images[c] for c in (target, source) if c in self._images]
        keys = [self._keys[c] for c in (target, source) if c in self._keys]
        self.remove(source)
        if not parts:
            return
        order = torch.cat(keys).argsort(stable=True) if keys else in_turns(parts)
        self._images[target] = torch.cat(parts)
        if keys:
            self._keys[target] = torch.cat(keys)
        rank = list(self._images).index(target)
        self.keep(target, order)
        self._shrink(target, self.share(rank, len(self._images)))

    def discard(self, images: Tensor, labels: Tensor) -> None:
        """Drop images (n, c, h, w) of classes (n,) where they are exemplars; features may differ by rounding."""
        for image, class_id in zip(images, labels.tolist(), strict=True):
            kept = self._images.get(class_id)
            if kept is not None:
                same = kept == image if not kept.is_floating_point() else kept.isclose(image, rtol=1e-4, atol=1e-5)
                self.keep(class_id, (~same.flatten(1).all(1)).nonzero().flatten())

    def renumber(self, ids: Mapping[ClassId, ClassId]) -> None:
        """Give the classes other ids."""
        self._images = {ids[class_id]: pixels for class_id, pixels in self._images.items()}
        self._keys = {ids[class_id]: keys for class_id, keys in self._keys.items()}

    def exemplars(self, classes: Iterable[ClassId] | None = None) -> ImageSet | None:
        """Return the images of `classes` (of all, if not given), or None when there are none."""
        kept = [c for c in (self._images if classes is None else classes) if c in self._images and self.count(c)]
        if not kept:
            return None
        labels = torch.tensor(kept).repeat_interleave(torch.tensor([self.count(c) for c in kept]))
        rows = [None if self._store is None else self._store.rows_of(self._images[c]) for c in kept]
        mapped = [one for one in rows if one is not None]
        if self._store is not None and len(mapped) == len(kept):  # no image is copied
            return ImageSet(ArrayPixels(self._store.values), labels, torch.cat(mapped))
        return ImageSet.from_arrays(torch.cat([self._images[c] for c in kept]), labels)

    def copy(self) -> Memory:
        """Return a memory of the same images that can be changed by itself."""
        twin = copy(self)
        twin._images, twin._keys = dict(self._images), dict(self._keys)
        return twin

    def state_dict(self) -> dict[str, object]:
        """Return everything that is kept."""
        images, keys = ({str(c): part for c, part in kept.items()} for kept in (self._images, self._keys))
        state: dict[str, object] = {"budget": self.budget, "selection": self.selection}
        state |= {"classes": list(self._images), "images": images}
        return state | ({"keys": keys} if keys else {})

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Restore a saved memory.

        Raises:
            CheckpointError: it is not one.
        """
        try:
            self.budget = int(state["budget"])  # type: ignore[call-overload]
            self.selection = str(state["selection"])
            self._store = None
            self._images = {c: state["images"][str(c)].clone() for c in state["classes"]}  # type: ignore[index, attr-defined]
            keys = state.get("keys", {})
            self._keys = {c: keys[str(c)].clone() for c in self._images} if self.selection == "content" else {}  # type: ignore[index]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"not a saved memory: {error!r}") from error


def _with_old(new: Tensor, old: Tensor | None) -> Tensor:
    return new if old is None else torch.cat([old, new])
