"""Turn one root seed into as many independent generators as a run needs.

A generator is derived from the seed and a path of names (`"batches", task, epoch`), never from how often another
generator was used before. So a run that is resumed in epoch 7 draws what the uninterrupted run drew in epoch 7, and no
generator state has to be saved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(seed: int, *path: str | int) -> int:
    """Return a 63-bit seed that depends on every part of `path`."""
    text = "/".join([str(seed), *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *path: str | int) -> torch.Generator:
    """Return a CPU generator seeded by `derive(seed, *path)`."""
    return torch.Generator().manual_seed(derive(seed, *path))


@contextmanager
def seeded(seed: int, *path: str | int) -> Iterator[None]:
    """Seed torch's global generator inside the block and put it back afterwards.

    For code that offers no generator argument: layer initialisation and dropout. Besides the CPU's generator that is
    the one of the GPU in use; GPUs that this process has not touched are left alone.
    """
    value = derive(seed, *path)
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(value)
        if devices:
            torch.cuda.manual_seed(value)
        if mps is not None:
            torch.mps.manual_seed(value)
        try:
            yield
        finally:
            if mps is not None:
                torch.mps.set_rng_state(mps)
