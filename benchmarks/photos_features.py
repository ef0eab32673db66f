"""Extract frozen EfficientNet-Lite features of image sets once, for the trials of `photos_*.py`.

One file per set, split, view and resolution: `SET-SPLIT-VIEW-SIZE.npz` with `features` (n, 2, 1904) for the image and
its horizontal flip, `labels` and `classes`. The features are the pooled outputs of the head (1,280), the last block
(320), the last block with 192 channels and the last one with 112. A file that exists is skipped, so the script can be
stopped and started again.

    python benchmarks/photos_features.py --data FOLDER --output FOLDER [--only clothing-10]
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn

from itaml.models.backbones.efficientnet_lite import EfficientNetLite
from itaml.models.backbones.wheels import open_wheel_backbone

Pixels = npt.NDArray[np.uint8]
BATCH = 32
TAPS = (14, 10)  # blocks of EfficientNet-Lite0 whose outputs are pooled beside the last one: 192 and 112 channels


@dataclass(frozen=True)
class Job:
    """One file of features."""

    images: str
    split: str
    view: str
    size: int
    backbone: str = "efficientnet-lite0"

    @property
    def name(self) -> str:
        tail = "" if self.backbone == "efficientnet-lite0" else f"-{self.backbone[-5:]}"
        return f"{self.images}-{self.split}-{self.view}-{self.size}{tail}.npz"


JOBS = (  # image sets, view, size, backbone: the most useful first
    (("clothing-10", "grocery-81"), "crop", 224, "efficientnet-lite0"),
    (("clothing-10",), "squash", 224, "efficientnet-lite0"),
    (("tiny-imagenet-100",), "crop", 160, "efficientnet-lite0"),
    (("cifar-100",), "crop", 128, "efficientnet-lite0"),
    (("clothing-10", "grocery-81"), "squash", 256, "efficientnet-lite0"),
    (("grocery-81",), "squash", 224, "efficientnet-lite0"),
    (("clothing-10", "grocery-81"), "crop", 160, "efficientnet-lite0"),
    (("clothing-10",), "pad", 224, "efficientnet-lite0"),
    (("clothing-10",), "bicubic", 224, "efficientnet-lite0"),
    (("clothing-10", "grocery-81"), "squash", 240, "efficientnet-lite1"),
    (("clothing-10", "grocery-81"), "squash", 260, "efficientnet-lite2"),
)
SUBSET = {"train": 40, "test": 20}  # images per class of CIFAR-100 and Tiny-ImageNet


def jobs() -> Iterator[Job]:
    """Yield what to extract."""
    for sets, view, size, backbone in JOBS:
        for images, split in itertools.product(sets, ("train", "test")):
            yield Job(images, split, view, size, backbone)


def resized(image: Image.Image, view: str, size: int) -> Pixels:
    """Return an image as a square (size, size, 3): its centre square, all of it stretched, or all of it padded."""
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    if view == "squash":
        image = image.resize((size, size), Image.Resampling.BILINEAR, reducing_gap=3.0)
    elif view == "pad":
        scale = size / max(width, height)
        small = image.resize((round(width * scale), round(height * scale)), Image.Resampling.BILINEAR)
        image = Image.new("RGB", (size, size), (127, 127, 127))
        image.paste(small, ((size - small.width) // 2, (size - small.height) // 2))
    else:
        method = Image.Resampling.BICUBIC if view == "bicubic" else Image.Resampling.BILINEAR
        image = image.resize((size, size), method, box=(left, top, left + side, top + side), reducing_gap=3.0)
    return np.asarray(image)


def folder_images(root: Path) -> tuple[list[Path], list[str]]:
    files = sorted(path for path in root.glob("*/*") if path.is_file())
    return files, [path.parent.name for path in files]


def read(data: Path, job: Job) -> tuple[Iterator[Pixels], list[str]]:
    """Return the resized images of a job and the class of each."""
    if job.images == "cifar-100":
        rows = np.fromfile(data / "cifar-100-binary" / f"{job.split}.bin", np.uint8).reshape(-1, 3074)
        rows = rows[first_per_class(rows[:, 1], SUBSET[job.split])]
        names = (data / "cifar-100-binary" / "fine_label_names.txt").read_text().split()
        pixels = rows[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return (resized(Image.fromarray(p), job.view, job.size) for p in pixels), [names[row[1]] for row in rows]
    if job.images.startswith("tiny"):
        files, names = folder_images(data / job.images / {"train": "train", "test": "val"}[job.split])
        keep = first_per_class(np.unique(names, return_inverse=True)[1], SUBSET[job.split])
        files, names = [files[i] for i in keep], [names[i] for i in keep]
    else:
        files, names = folder_images(data / "photos" / job.images / job.split)
    return (resized(Image.open(file).convert("RGB"), job.view, job.size) for file in files), names


def first_per_class(labels: npt.NDArray[np.integer], count: int) -> npt.NDArray[np.intp]:
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in np.unique(labels)]))


class Tapped(nn.Module):
    """The backbone with the pooled outputs of some blocks beside its own features."""

    def __init__(self, network: EfficientNetLite) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        x = self.network.stem(images)
        pooled = {}
        for index, block in enumerate(self.network.blocks):
            x = block(x)
            pooled[index] = x.mean((2, 3))
        last = len(self.network.blocks) - 1
        return torch.cat([self.network.head(x).mean((2, 3)), pooled[last], *(pooled[tap] for tap in TAPS)], 1)


@torch.inference_mode()
def extract(data: Path, job: Job) -> tuple[npt.NDArray[np.float32], list[str]]:
    backbone = open_wheel_backbone(job.backbone)
    assert isinstance(backbone.network, EfficientNetLite)
    network = Tapped(backbone.network)
    images, names = read(data, job)
    found: list[Tensor] = []
    waiting: list[Pixels] = []
    for pixels in images:
        waiting.append(pixels)
        if len(waiting) == BATCH or len(found) + len(waiting) == len(names):
            batch = torch.from_numpy(np.stack(waiting)).permute(0, 3, 1, 2)
            inputs = backbone.spec.preprocessing.normalize(batch).contiguous(memory_format=torch.channels_last)
            found += list(torch.stack([network(inputs), network(inputs.flip(3))], 1))
            waiting = []
    return torch.stack(found).numpy(), names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for job in jobs():
        target = options.output / job.name
        if target.exists() or not job.name.startswith(options.only):
            continue
        start = time.perf_counter()
        features, names = extract(options.data, job)
        classes, labels = np.unique(names, return_inverse=True)
        unfinished = target.with_suffix(".part.npz")
        np.savez(unfinished, features=features, labels=labels, classes=classes)
        unfinished.rename(target)
        print(
            f"{job.name}: {len(names)} images, {2 * len(names) / (time.perf_counter() - start):.1f} a second",
            flush=True,
        )


if __name__ == "__main__":
    main()
