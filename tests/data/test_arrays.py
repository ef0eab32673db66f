"""MNIST's, SVHN's and CIFAR's files, written here in their original layouts and read back exactly."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from itaml.data.benchmarks import LoadOptions, benchmark, build_stream
from itaml.data.pickles import read_pickle
from itaml.data.sources import cifar, mnist, svhn
from itaml.errors import DataError

RNG = np.random.default_rng(0)
LABELS = np.arange(20, dtype=np.uint8) % 10


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def write_mnist(folder: Path, *, zipped: bool, labels: np.ndarray = LABELS) -> np.ndarray:
    folder.mkdir(parents=True)
    images = RNG.integers(0, 256, (len(LABELS), 28, 28), dtype=np.uint8)
    for part in ("train", "t10k"):
        for name, values in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            if zipped:
                (folder / f"{name}.gz").write_bytes(gzip.compress(idx(values)))
            else:
                (folder / name).write_bytes(idx(values))
    return images


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(("load", "folder"), [(mnist.load, "MNIST/raw"), (mnist.load_fashion, "FashionMNIST/raw")])
def test_idx_files_are_read_exactly(tmp_path: Path, load: Any, folder: str, zipped: bool) -> None:
    images = write_mnist(tmp_path / folder, zipped=zipped)
    dataset = load(LoadOptions(root=tmp_path))
    for part in (dataset.train, dataset.test):
        assert np.array_equal(part.load()[0].numpy()[:, 0], images)
        assert part.labels.tolist() == LABELS.tolist()
    assert len(set(dataset.class_names)) == 10


def test_a_stream_of_mnist_has_two_digits_a_task(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw", zipped=True)
    stream = build_stream(benchmark("mnist-5"), LoadOptions(root=tmp_path))
    assert [task.classes for task in stream] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert len(stream[0].train) == 4


BROKEN_IDX: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda raw: raw[:-1], "should hold 20 bytes"),
    "too long": (lambda raw: raw + b"x", "should hold 20 bytes"),
    "another magic": (lambda raw: b"\0\0\x0b" + raw[3:], "not an idx file"),
    "empty": (lambda raw: b"", "not an idx file"),
    "a label of 10": (lambda raw: raw[:-1] + b"\x0a", "label 10"),
    "fewer labels": (lambda raw: idx(LABELS[:19]), "20 images but .* 19 labels"),
}


@pytest.mark.parametrize("kind", BROKEN_IDX)
def test_broken_idx_files_are_refused(tmp_path: Path, kind: str) -> None:
    write_mnist(tmp_path / "MNIST/raw", zipped=False)
    path = tmp_path / "MNIST/raw/train-labels-idx1-ubyte"
    change, message = BROKEN_IDX[kind]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message):
        mnist.load(LoadOptions(root=tmp_path))


def test_a_corrupt_gzip_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw", zipped=True)
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match="cannot read"):
        mnist.load(LoadOptions(root=tmp_path))


def test_missing_data_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"mnist is not in .*: looked for MNIST/raw/.*itaml data fetch mnist"):
        mnist.load(LoadOptions(root=tmp_path))


def write_svhn(root: Path, labels: list[int]) -> np.ndarray:
    (root / "svhn").mkdir(parents=True)
    images = RNG.integers(0, 256, (32, 32, 3, len(labels)), dtype=np.uint8)
    for part in ("train", "test"):
        content = {"X": images, "y": np.array(labels, dtype=np.uint8)[:, None]}
        import_module("scipy.io").savemat(str(root / f"svhn/{part}_32x32.mat"), content)
    return images


def test_svhn_is_read_exactly_and_ten_means_zero(tmp_path: Path) -> None:
    images = write_svhn(tmp_path, [1, 10, 9])
    dataset = svhn.load(LoadOptions(root=tmp_path))
    assert dataset.train.labels.tolist() == [1, 0, 9]
    assert np.array_equal(dataset.test.load()[0].numpy(), images.transpose(3, 2, 0, 1))


@pytest.mark.parametrize("label", [0, 11])
def test_svhn_labels_out_of_range_are_refused(tmp_path: Path, label: int) -> None:
    write_svhn(tmp_path, [1, label])
    with pytest.raises(DataError, match="should lie in 1 to 10"):
        svhn.load(LoadOptions(root=tmp_path))


def test_a_broken_matlab_file_is_refused(tmp_path: Path) -> None:
    write_svhn(tmp_path, [1])
    path = tmp_path / "svhn/train_32x32.mat"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="MATLAB"):
        svhn.load(LoadOptions(root=tmp_path))


def old_pickle(content: dict[str, Any]) -> bytes:
    """Write a dictionary as Python 2 did, which is how CIFAR is distributed: byte strings, numpy's old module name."""

    def text(value: bytes) -> bytes:
        return pickle.BINSTRING + struct.pack("<i", len(value)) + value

    def array(value: np.ndarray) -> bytes:
        made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text(b"b") + b"tR"
        shape = b"(" + b"".join(b"J" + struct.pack("<i", side) for side in value.shape) + b"t"
        dtype = (
            b"cnumpy\ndtype\n("
            + text(b"u1")
            + b"K\x00K\x01tR(K\x03"
            + text(b"|")
            + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        )
        return made + b"(K\x01" + shape + dtype + b"I00\n" + text(value.tobytes()) + b"tb"

    def number_or_text(value: Any) -> bytes:
        return text(value.encode()) if isinstance(value, str) else b"J" + struct.pack("<i", int(value))

    body = b""
    for key, value in content.items():
        written = array(value) if isinstance(value, np.ndarray) else b"](" + b"".join(map(number_or_text, value)) + b"e"
        body += text(key.encode()) + written
    return b"\x80\x02}(" + body + b"u."


def write_cifar(root: Path, classes: int, form: str, labels: np.ndarray) -> np.ndarray:
    """Write CIFAR-10 or -100 in one of its forms: binary or python, as a folder or packed (with -tar)."""
    images = RNG.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    names = [f"class_{number}" for number in range(classes)]
    ten = classes == 10
    parts = (
        {f"data_batch_{n}": [n - 1] for n in range(1, 6)} | {"test_batch": range(5)}
        if ten
        else {"train": range(5), "test": range(5)}
    )
    files: dict[str, bytes] = {}
    for part, chunks in parts.items():
        rows = np.concatenate([np.arange(len(labels)).reshape(5, -1)[chunk] for chunk in chunks])
        if form.startswith("binary"):
            coarse = np.zeros((len(rows), 0 if ten else 1), dtype=np.uint8)
            files[f"{part}.bin"] = np.concatenate([coarse, labels[rows, None], images[rows]], axis=1).tobytes()
        else:
            files[part] = old_pickle({"data": images[rows], "labels" if ten else "fine_labels": labels[rows].tolist()})
    if form.startswith("binary"):
        files["batches.meta.txt" if ten else "fine_label_names.txt"] = "\n".join([*names, ""]).encode()
        folder = "cifar-10-batches-bin" if ten else "cifar-100-binary"
    else:
        files["batches.meta" if ten else "meta"] = old_pickle({"label_names" if ten else "fine_label_names": names})
        folder = "cifar-10-batches-py" if ten else "cifar-100-python"
    if form.endswith("-tar"):
        with tarfile.open(root / f"cifar-{classes}-{form.removesuffix('-tar')}.tar.gz", "w:gz") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    else:
        (root / folder).mkdir()
        for name, data in files.items():
            (root / folder / name).write_bytes(data)
    return images.reshape(-1, 3, 32, 32)


@pytest.mark.parametrize("form", ["binary", "python", "binary-tar", "python-tar"])
@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_is_read_exactly_in_all_its_forms(tmp_path: Path, classes: int, form: str) -> None:
    labels = np.arange(50, dtype=np.uint8) * (classes // 50 or 1) % classes
    images = write_cifar(tmp_path, classes, form, labels)
    dataset = (cifar.load_10 if classes == 10 else cifar.load_100)(LoadOptions(root=tmp_path))
    for part in (dataset.train, dataset.test):
        assert np.array_equal(part.load()[0].numpy(), images)
        assert part.labels.tolist() == labels.tolist()
    assert dataset.class_names == tuple(f"class_{number}" for number in range(classes))


@pytest.mark.parametrize("form", ["binary", "python"])
def test_cifar_labels_out_of_range_are_refused(tmp_path: Path, form: str) -> None:
    write_cifar(tmp_path, 100, form, np.full(5, 100, dtype=np.uint8))
    with pytest.raises(DataError, match="label 100; there are classes 0 to 99"):
        cifar.load_100(LoadOptions(root=tmp_path))


@pytest.mark.parametrize("form", ["binary-tar", "binary", "python"])
def test_cut_off_cifar_files_are_refused(tmp_path: Path, form: str) -> None:
    write_cifar(tmp_path, 100, form, np.zeros(5, dtype=np.uint8))
    path = {
        "binary-tar": "cifar-100-binary.tar.gz",
        "binary": "cifar-100-binary/train.bin",
        "python": "cifar-100-python/train",
    }[form]
    (tmp_path / path).write_bytes((tmp_path / path).read_bytes()[:7000])
    with pytest.raises(DataError):
        cifar.load_100(LoadOptions(root=tmp_path))


class Hostile:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch hacked",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    write_cifar(tmp_path, 100, "python", np.zeros(5, dtype=np.uint8))
    (tmp_path / "cifar-100-python/train").write_bytes(pickle.dumps({"data": Hostile()}, protocol=protocol))
    with pytest.raises(DataError, match=r"it asks for (posix|os|nt)\.system"):
        cifar.load_100(LoadOptions(root=tmp_path))
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\ngetattr\n.",
        b"cnumpy.f2py.crackfortran\nmyeval\n.",
        b"\x80\x02cnumpy\nload\n.",
        b"c_codecs\nencode\n(S'x'\nS'zlib'\ntR.",
        b"P1\n.",
        b"",
        b"\x80\x02]q",
        b"I1\n.",
        b"cnumpy\nndarray\n(I999999999999999\ntR.",
    ],
)
def test_other_pickles_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(DataError, match="a file"):
        read_pickle(data, source="a file")


def test_a_pickle_of_todays_python_is_read_too() -> None:
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for protocol in (2, 4):
        content = read_pickle(pickle.dumps({b"data": values, "labels": [1, 2]}, protocol=protocol), source="a file")
        assert np.array_equal(content["data"], values)
        assert content["labels"] == [1, 2]
