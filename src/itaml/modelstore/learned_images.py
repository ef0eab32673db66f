"""Which images a model has learned, by the digests of their content, also where it does not keep them.

Learners of sums would count an image twice that is learned twice. Exemplars are recognised because they are kept; of
every image 20 bytes are kept: its digest and its class. At most `LIMIT` images are remembered, which takes 2 MB; then
the oldest `DROPPED` go, and one of them that is not an exemplar would be counted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.errors import CheckpointError

LIMIT = 100_000
DROPPED = 10_000  # go at a time beyond the limit: what is before stays the same from version to version
DIGEST = 16  # bytes


@dataclass(frozen=True, eq=False)
class LearnedImages:
    """Digests of images and the classes that they were learned under, oldest first."""

    digests: Tensor  # (n, 16) uint8
    labels: Tensor  # (n,) int32

    def pairs(self) -> list[tuple[ClassId, bytes]]:
        """Return class and digest of each image."""
        data = self.digests.contiguous().numpy().tobytes()
        digests = (data[start : start + DIGEST] for start in range(0, len(data), DIGEST))
        return list(zip(self.labels.tolist(), digests, strict=True))

    def with_images(self, digests: Sequence[bytes], labels: Tensor) -> LearnedImages:
        """Return these images and some more; the oldest go beyond the limit."""
        if not digests:
            return self
        added = torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.uint8).view(-1, DIGEST)
        together = torch.cat([self.digests, added]), torch.cat([self.labels, labels.int()])
        start = -(-max(0, len(together[1]) - LIMIT) // DROPPED) * DROPPED
        return LearnedImages(*(part[start:].clone() for part in together))

    def without(self, gone: frozenset[tuple[ClassId, bytes]]) -> LearnedImages:
        """Return these images without some."""
        return self._at([row for row, pair in enumerate(self.pairs()) if pair not in gone]) if gone else self

    def renumbered(self, ids: Mapping[ClassId, ClassId]) -> LearnedImages:
        """Return the images with other class ids; those of classes without one are gone."""
        kept = self._at([row for row, label in enumerate(self.labels.tolist()) if label in ids])
        labels = torch.tensor([ids[label] for label in kept.labels.tolist()], dtype=torch.int32)
        return LearnedImages(kept.digests, labels)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors to save."""
        return {"digests": self.digests, "labels": self.labels}

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None, *, classes: int) -> LearnedImages:
        """Return what `state_dict` described; none in models that were stored without it.

        Raises:
            CheckpointError: it is not such a state.
        """
        if state is None:
            return NO_IMAGES
        digests, labels = state.get("digests"), state.get("labels")
        if (
            not (isinstance(digests, Tensor) and isinstance(labels, Tensor))
            or (digests.dtype, labels.dtype) != (torch.uint8, torch.int32)
            or (digests.shape[1:], labels.shape) != ((DIGEST,), digests.shape[:1])
            or bool(((labels < 0) | (labels >= classes)).any())
        ):
            raise CheckpointError("the digests of learned images are damaged")
        return cls(digests, labels)

    def _at(self, rows: Sequence[int]) -> LearnedImages:
        positions = torch.tensor(rows, dtype=torch.int64)
        return LearnedImages(self.digests[positions], self.labels[positions])


NO_IMAGES = LearnedImages(torch.empty(0, DIGEST, dtype=torch.uint8), torch.empty(0, dtype=torch.int32))
