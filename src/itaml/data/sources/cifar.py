"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): the binary or the python distribution, unpacked or still in its tar.gz.

A binary record is the label (for CIFAR-100 the coarse label, then the fine one), then 1,024 bytes of red, green and
blue each. The python distribution has the same numbers in pickles, which are read without running anything.
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import torch

from itaml.data.benchmarks import LoadOptions
from itaml.data.halving import halved
from itaml.data.images import ImageSet
from itaml.data.layouts import layout
from itaml.data.pickles import read_pickle
from itaml.data.safe_reading import LimitedReader, data_file, read_data, unzipped
from itaml.data.stream import Dataset
from itaml.errors import DataError

PIXELS = 3 * 32 * 32
MAX_MEMBER = 200_000_000  # bytes; train.bin of CIFAR-100 has 153,700,000
MAX_TOTAL = 400_000_000  # bytes of an archive
MAX_MEMBERS = 1000
SLACK = 4_000_000  # bytes of an archive besides the files that are read: headers, padding, a description


@dataclass(frozen=True)
class Kind:
    """What differs between the two data sets."""

    name: str
    classes: int
    train: tuple[str, ...]
    test: str
    label_bytes: int  # in a binary record; the last one counts
    label_key: str  # in a pickle
    names_file: str  # of the binary distribution
    meta: str  # pickle with the names of the classes
    names_key: str


CIFAR10 = Kind(
    "cifar10", 10, tuple(f"data_batch_{number}" for number in range(1, 6)), "test_batch",
    1, "labels", "batches.meta.txt", "batches.meta", "label_names",
)  # fmt: skip
CIFAR100 = Kind(
    "cifar100", 100, ("train",), "test",
    2, "fine_labels", "fine_label_names.txt", "meta", "fine_label_names",
)  # fmt: skip


def load_10(options: LoadOptions) -> Dataset:
    """Read CIFAR-10: 50,000 training and 10,000 test images (3, 32, 32).

    Raises:
        DataError: files are missing, broken or not CIFAR's.
    """
    return _load(CIFAR10, options)


def load_100(options: LoadOptions) -> Dataset:
    """Read CIFAR-100 with its fine labels (see `load_10`)."""
    return _load(CIFAR100, options)


def load_100_16px(options: LoadOptions) -> Dataset:
    """Read CIFAR-100 in half the size, (3, 16, 16) (see `load_10` for errors)."""
    return halved(load_100(options))


def _load(kind: Kind, options: LoadOptions) -> Dataset:
    place = layout(kind.name).require(options.root)[0]
    packed = place.name.endswith(".tar.gz")
    binary = "-binary" in place.name if packed else place.suffix == ".bin"
    suffix = ".bin" if binary else ""
    wanted = [*(name + suffix for name in (*kind.train, kind.test)), kind.names_file, kind.meta]
    files = _from_tar(place, wanted) if packed else _from_folder(place.parent, wanted)
    parts = []
    for names in (kind.train, (kind.test,)):
        raw = [(f"{place}: {name + suffix}", _member(files, name + suffix, place)) for name in names]
        records = [_binary(kind, data, source) if binary else _python(kind, data, source) for source, data in raw]
        parts.append(_joined(records))
    return Dataset(kind.name, _class_names(kind, files, binary), parts[0], parts[1])


def _from_folder(folder: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    return {name: read_data(folder / name, limit=MAX_MEMBER) for name in wanted if (folder / name).exists()}


def _from_tar(path: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """Return the wanted members; what else is in the archive may take `SLACK` bytes and is not kept."""
    found: dict[str, bytes] = {}
    with data_file(path, limit=MAX_TOTAL) as file:
        content = LimitedReader(unzipped(file, path), SLACK, path)
        try:
            with tarfile.open(fileobj=cast(IO[bytes], content), mode="r|") as archive:
                for number, member in enumerate(archive):
                    if number >= MAX_MEMBERS:
                        raise DataError(f"cannot read {path}: it has more than {MAX_MEMBERS} members")
                    if not 0 <= member.size <= MAX_MEMBER:  # tarfile would read on to that place, for ever
                        raise DataError(f"cannot read {path}: it has a member of {member.size} bytes")
                    name = member.name.rpartition("/")[2]
                    if name in wanted and name not in found and member.isreg():
                        content.allow(member.size)
                        stream = archive.extractfile(member)
                        found[name] = stream.read() if stream else b""
        except (tarfile.TarError, ValueError, RecursionError, OverflowError) as error:
            raise DataError(f"cannot read {path}: {error}") from error
    return found


def _member(files: Mapping[str, bytes], name: str, place: Path) -> bytes:
    if name not in files:
        raise DataError(f"{place} has no file {name}")
    return files[name]


def _binary(kind: Kind, data: bytes, source: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    length = kind.label_bytes + PIXELS
    if not data or len(data) % length:
        raise DataError(f"{source} has {len(data)} bytes, not a multiple of a record's {length}")
    records = np.frombuffer(data, dtype=np.uint8).reshape(-1, length)
    return _checked(kind, records[:, kind.label_bytes :], records[:, kind.label_bytes - 1], source)


def _python(kind: Kind, data: bytes, source: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    content = read_pickle(data, source=source)
    pixels, labels = content.get("data"), content.get(kind.label_key)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise DataError(f"{source}: data should be bytes of shape (n, {PIXELS}), not {_described(pixels)}")
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        labels = labels.tolist()
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError(f"{source}: {kind.label_key} should be a list of whole numbers, not {_described(labels)}")
    wrong = next((label for label in labels if not 0 <= label < kind.classes), None)
    if wrong is not None:
        raise DataError(f"{source} has label {wrong}; there are classes 0 to {kind.classes - 1}")
    return _checked(kind, pixels, np.asarray(labels, dtype=np.int64), source)


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return "a mixed list" if isinstance(value, list) else "nothing" if value is None else f"a {type(value).__name__}"


def _checked(
    kind: Kind, pixels: npt.NDArray[Any], labels: npt.NDArray[Any], source: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if len(pixels) != len(labels):
        raise DataError(f"{source} has {len(pixels)} images but {len(labels)} labels")
    if len(labels) and not 0 <= labels.min() <= labels.max() < kind.classes:
        worst = labels.max() if labels.max() >= kind.classes else labels.min()
        raise DataError(f"{source} has label {worst}; there are classes 0 to {kind.classes - 1}")
    return pixels, labels.astype(np.int64)


def _joined(records: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]]) -> ImageSet:
    pixels = np.concatenate([images for images, _ in records]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in records])
    return ImageSet.from_arrays(torch.from_numpy(pixels), torch.from_numpy(labels))


def _class_names(kind: Kind, files: Mapping[str, bytes], binary: bool) -> tuple[str, ...]:
    """Return the names that come with the data, or numbers if none do."""
    names: list[str] = []
    if binary and kind.names_file in files:
        names = files[kind.names_file].decode("utf-8", "replace").split()
    elif not binary and kind.meta in files:
        listed = read_pickle(files[kind.meta], source=kind.meta).get(kind.names_key)
        found = listed if isinstance(listed, list) else []
        names = [name.decode("latin1") if isinstance(name, bytes) else str(name) for name in found]
    return tuple(names) if len(names) == kind.classes else tuple(map(str, range(kind.classes)))
