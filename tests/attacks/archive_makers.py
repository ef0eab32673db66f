"""Hostile data files: idx, MATLAB and tar files that lie about their size, are bombs, pipes, devices or cut off."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import numpy as np

Write = Callable[[Path], None]
IDX = "MNIST/raw/train-images-idx3-ubyte"
MAT = "svhn/train_32x32.mat"
TAR = "cifar-100-binary.tar.gz"
TAR_PYTHON = "cifar-100-python.tar.gz"
ZEROS = 64 << 20  # bytes of a bomb's layer
RECORD = 3074


def idx(sizes: tuple[int, ...], content: bytes) -> bytes:
    """Return an idx file."""
    return bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + content


def bomb(start: bytes, layers: int) -> bytes:
    """Return a gzip file that begins with `start` and goes on with `layers` times 64 MB of zeros."""
    return gzip.compress(start, 1) + packed_zeros() * layers


@lru_cache(maxsize=1)
def packed_zeros() -> bytes:
    """Return 64 MB of zeros in 64 kB."""
    return gzip.compress(bytes(ZEROS), 9)


def tar(members: list[tuple[str, bytes, bytes]]) -> bytes:
    """Return a tar.gz of (name, type, content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, kind, content in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.linkname = kind, len(content), "/dev/zero"
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def header(name: str, size: bytes, kind: bytes = b"0") -> bytes:
    """Return a tar header with any bytes in the field of its size."""
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
    block[124:136], block[156:157], block[148:156] = size.ljust(12, b"\0"), kind, b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def element(kind: int, body: bytes, size: int | None = None) -> bytes:
    """Return an element of a MATLAB file; `size` lies about its length."""
    return struct.pack("<II", kind, len(body) if size is None else size) + body + bytes(-len(body) % 8)


def matrix(
    sides: tuple[int, ...], content: bytes, *, name: bytes = b"X", kind: int = 9, size: int | None = None
) -> bytes:
    """Return a MATLAB array of bytes, or something that claims to be one."""
    flags = element(6, struct.pack("<II", kind, 0))
    shape = element(5, struct.pack(f"<{len(sides)}i", *sides))
    return element(14, flags + shape + element(1, name) + element(2, content, size), size and size + 64)


def matlab(*variables: bytes) -> bytes:
    """Return a MATLAB file."""
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(variables)


def packed(variable: bytes) -> bytes:
    """Return a compressed variable."""
    return struct.pack("<II", 15, len(zlib.compress(variable))) + zlib.compress(variable)


def special(target: str) -> Write:
    """Return a function that puts something in the place of a file that cannot be read to an end."""

    def write(path: Path) -> None:
        if target == "pipe":
            os.mkfifo(path)
        elif target == "link to a pipe":
            os.mkfifo(path.with_name("pipe"))
            path.symlink_to(path.with_name("pipe"))
        elif target == "folder":
            path.mkdir()
        elif target == "link to itself":
            path.symlink_to(path)
        elif target == "sparse":
            path.touch()
            os.truncate(path, 1 << 40)
        else:
            path.symlink_to(target)

    return write


def holding(data: bytes) -> Write:
    """Return a function that writes a file."""

    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


def hostile_files() -> Iterator[tuple[str, str, Write]]:
    """Yield (name, path under the data root, function that writes it)."""
    things = ("pipe", "link to a pipe", "/dev/zero", "/dev/full", "/dev/stdin", "folder", "link to itself", "sparse")
    for path in (IDX, IDX + ".gz", MAT, TAR, TAR_PYTHON, "cifar-100-binary/train.bin", "cifar-100-python/train"):
        for thing in things:
            yield f"{thing} as {path}", path, special(thing)
        yield f"nothing as {path}", path, holding(b"")
    for name, data in idx_files():
        yield name, IDX + ".gz" if data[:2] == b"\x1f\x8b" else IDX, holding(data)
    for name, data in matlab_files():
        yield name, MAT, holding(data)
    for name, data in tar_files():
        yield name, TAR, holding(data)


def idx_files() -> Iterator[tuple[str, bytes]]:
    """Yield hostile idx files."""
    for sizes in ((2**32 - 1,) * 3, (2**31, 1, 1), (1, 2**32 - 1, 1), (0, 2**32 - 1, 2**32 - 1), (190_000_000, 1, 1)):
        yield f"idx of {sizes}", idx(sizes, b"x")
        yield f"gzipped idx of {sizes}", gzip.compress(idx(sizes, b"x"))
    yield "idx bomb of 6 GB", bomb(idx((1, 28, 28), b""), 100)
    yield "idx bomb within its header", bomb(idx((2**32 - 1, 28, 28), b""), 100)
    yield "bytes after the gzip", gzip.compress(idx((1, 1, 1), b"x")) + b"rubbish"


def matlab_files() -> Iterator[tuple[str, bytes]]:
    """Yield hostile MATLAB files."""
    for sides in ((32, 32, 3, -1), (32, 32, 3, 2**31 - 1), (2**31 - 1,) * 4, (1,) * 40, (), (0, 2**31 - 1)):
        yield f"matrix of {sides}", matlab(matrix(sides, b"x" * 3072))
        yield f"packed matrix of {sides}", matlab(packed(matrix(sides, b"x" * 3072)))
    for kind in (1, 2, 3, 4, 5, 16, 17, 18, 255):
        yield f"class {kind}", matlab(matrix((2**31 - 1, 2**31 - 1), b"x", kind=kind))
    yield "matrix of 4 GB", matlab(matrix((32, 32, 3, 1), b"x" * 3072, size=2**32 - 100))
    yield "packed matrix of 4 GB", matlab(packed(matrix((32, 32, 3, 1), b"x" * 3072, size=2**32 - 100)))
    yield "a matrix twice", matlab(*[packed(matrix((32, 32, 3, 1), bytes(3072)))] * 50)
    zeros = struct.pack("<II", 15, 0) * 100_000
    yield "100,000 empty variables", matlab(zeros)
    yield "packed zeros", matlab(packed(bytes(ZEROS)))
    yield "a name of 1 MB", matlab(packed(matrix((1,), b"x", name=b"X" * 10**6)))
    yield "HDF5", b"\x89HDF\r\n\x1a\n" + bytes(1000)


def tar_files() -> Iterator[tuple[str, bytes]]:
    """Yield hostile archives."""
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"S", b"Z"):
        yield f"tar member of type {kind!r}", tar([("cifar-100-binary/train.bin", kind, b"")])
    yield "tar member in another folder", tar([("../../../tmp/train.bin", tarfile.REGTYPE, bytes(RECORD))])
    yield "2,000 tar members", tar([("x", tarfile.REGTYPE, b"")] * 2000)
    for size in (b"77777777777", b"-1", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"\xff" * 11 + b"\x00", b"9" * 11):
        for name in ("train.bin", "other"):
            yield f"{name} of size {size!r}", gzip.compress(header(name, size) + bytes(2048))
    for kind in (b"x", b"g", b"L", b"K"):
        yield f"tar header {kind!r} of 6 GB", bomb(header("x", b"77777777777", kind), 100)
        yield f"5,000 tar headers {kind!r}", gzip.compress(header("x", b"1", kind) + b"a".ljust(512, b"\0")) * 5000
    yield "tar bomb in an unwanted file", bomb(header("other", b"77777777777"), 100)
    yield "tar bomb in a wanted file", bomb(header("train.bin", b"77777777777"), 100)
    yield "tar bomb after the end", bomb(bytes(1024), 100)
    buffer = io.BytesIO()
    import_module("scipy.io").savemat(buffer, {"X": np.zeros((2, 2), np.uint8)})
    yield "a MATLAB file as tar", buffer.getvalue()
