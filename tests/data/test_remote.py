"""Images at URLs: listings, index files, tar shards, the cache and its bounds, what a hostile archive can do."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from itaml.data.benchmarks import LoadOptions, benchmark, build_stream
from itaml.data.image_files import FilePixels
from itaml.data.remote_cache import RemoteCache
from itaml.data.remote_files import expand_braces, is_inside, is_url, list_remote
from itaml.data.tar_shards import ShardImages, read_shard
from itaml.errors import DataError, MissingExtraError, SettingsError

fsspec = pytest.importorskip("fsspec")
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
IMAGES_EACH = 5


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("itaml.data.remote_cache.cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "remote"


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's file system in memory, empty."""
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def png(colour: tuple[int, int, int], shade: int = 0) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8), tuple(max(0, value - shade) for value in colour)).save(out, "PNG")
    return out.getvalue()


def shard(samples: list[tuple[str, dict[str, bytes]]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for key, parts in samples:
            for ending, data in parts.items():
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def colour_shards() -> list[bytes]:
    """Two shards; labels are in .cls files of the first and in .json files of the second."""
    samples = [
        (f"{name}{number}", number, label, png(colour, number))
        for number in range(2 * IMAGES_EACH)
        for label, (name, colour) in enumerate(COLOURS.items())
    ]
    first = [(key, {"png": data, "cls": str(label).encode()}) for key, n, label, data in samples if n < IMAGES_EACH]
    second = [
        (key, {"json": json.dumps({"label": label}).encode(), "png": data})
        for key, n, label, data in samples
        if n >= IMAGES_EACH
    ]
    return [shard(first), shard(second)]


def test_names_are_expanded_and_checked() -> None:
    assert expand_braces("s3://b/x-{08..11}.tar") == [f"s3://b/x-{n}.tar" for n in ("08", "09", "10", "11")]
    assert expand_braces("a{0..1}b{0..1}") == ["a0b0", "a0b1", "a1b0", "a1b1"]
    assert expand_braces("plain.tar") == ["plain.tar"]
    for wrong in ("a{3..1}", "a{0..99999999}"):
        with pytest.raises(DataError, match="must run upwards"):
            expand_braces(wrong)
    assert is_url("s3://bucket")
    assert not is_url("C:\\photos")
    assert [is_inside(name) for name in ("a/b.png", "../b", "a/../b", "/etc/x", ".hidden/x", "http://x/y")] == [
        True,
        *[False] * 5,
    ]


def test_class_folders_at_a_url_are_a_benchmark(memory: Any) -> None:
    for name, colour in COLOURS.items():
        for number in range(IMAGES_EACH):
            memory.pipe(f"/photos/{name}/{number}.png", png(colour, number))
    memory.pipe("/photos/readme.txt", b"no image")
    stream = build_stream(benchmark("folder:memory://photos"), LoadOptions(image_size=8))
    assert stream.class_names == ("blue", "green", "red")
    assert len(stream) == 3
    assert len(stream.dataset.train) == 12
    assert len(stream.dataset.test) == 3  # a fifth of each class
    images, labels = stream.dataset.train.load()
    for image, label in zip(images, labels.tolist(), strict=True):
        assert int(image.flatten(1).sum(1).argmax()) == {"red": 0, "green": 1, "blue": 2}[stream.class_names[label]]


def test_train_and_test_folders_are_kept_apart(memory: Any) -> None:
    for part, count in (("train", 3), ("val", 2)):
        for name, colour in COLOURS.items():
            for number in range(count):
                memory.pipe(f"/set/{part}/{name}/{part}{number}.png", png(colour, number))
    data = build_stream(benchmark("folder:memory://set/"), LoadOptions(image_size=8)).dataset
    assert (len(data.train), len(data.test)) == (9, 6)


def test_an_index_file_names_images_labels_and_parts(memory: Any) -> None:
    lines = [f"img/{name}{n}.png,{name},{'test' if n == 2 else 'train'}" for name in COLOURS for n in range(3)]
    for name, colour in COLOURS.items():
        for number in range(3):
            memory.pipe(f"/data/img/{name}{number}.png", png(colour, number))
    memory.pipe("/data/index.csv", "\n".join(lines).encode())
    data = build_stream(benchmark("folder:memory://data/index.csv"), LoadOptions(image_size=8)).dataset
    assert (len(data.train), len(data.test)) == (6, 3)
    assert data.train.load()[0].shape == (6, 3, 8, 8)
    for wrong in ("../secret.png,red", "a.png", "a.png,red,maybe"):
        memory.pipe("/data/bad.csv", wrong.encode())
        with pytest.raises(DataError, match=r"bad.csv, line 1: not `path,label`"):
            build_stream(benchmark("folder:memory://data/bad.csv"), LoadOptions())
        (RemoteCache().folder / "urls" / hashlib.sha256(b"memory://data/bad.csv").hexdigest()).unlink()


def test_shards_are_read_over_http_and_decoded_when_needed(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    served = tmp_path / "served"
    served.mkdir()
    for number, data in enumerate(colour_shards()):
        (served / f"shard-{number:03}.tar").write_bytes(data)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(served)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/shard-{{000..001}}.tar"
        stream = build_stream(benchmark(f"folder:{url}"), LoadOptions(image_size=8))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert stream.class_names == ("0", "1", "2")
    assert len(stream.dataset.train) + len(stream.dataset.test) == 30
    images, labels = stream.dataset.train.load()  # from the cache: the server is gone
    assert images.flatten(2).sum(2).argmax(1).tolist() == labels.tolist()
    pixels = stream.dataset.train.pixels
    assert isinstance(pixels, FilePixels)
    assert isinstance(pixels.index, ShardImages)
    held = pixels.index.shard.nbytes + pixels.index.offset.nbytes + pixels.index.size.nbytes
    assert held == 20 * 30  # and no pixels


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


def test_a_broken_image_is_left_out_and_named_by_its_url(memory: Any) -> None:
    samples = [(f"k{n}", {"png": png((n, n, n)), "cls": b"a"}) for n in range(4)]
    memory.pipe("/t/0.tar", shard([*samples, ("bad", {"png": b"no image", "cls": b"a"})]))
    data = build_stream(benchmark("folder:memory://t/0.tar"), LoadOptions(image_size=8)).dataset
    count = len(data.train.load()[0]) + len(data.test.load()[0])
    assert count == 4
    assert isinstance(data.train.pixels, FilePixels)
    ((name, _),) = data.train.pixels.bad.entries
    assert name.startswith("memory://t/0.tar at byte ")


def test_the_cache_holds_equal_bytes_once_and_downloads_once(memory: Any, cache: Path) -> None:
    memory.pipe({"/a": b"same", "/b": b"same"})
    store = RemoteCache()
    assert store.fetch("memory://a") == store.fetch("memory://b")
    assert [path.name for path in (cache / "blobs").iterdir()] == [hashlib.sha256(b"same").hexdigest()]
    memory.store.clear()
    assert store.fetch("memory://a").read_bytes() == b"same"
    assert not list(cache.glob("*.partial"))
    with pytest.raises(DataError, match=r"cannot read memory://nothing"):
        store.fetch("memory://nothing")
    assert not list(cache.glob("*.partial"))


def test_a_forged_pointer_leads_nowhere(memory: Any, cache: Path, tmp_path: Path) -> None:
    memory.pipe("/a", b"data")
    store = RemoteCache()
    store.fetch("memory://a")
    (tmp_path / "secret").write_text("secret")
    (pointer,) = (cache / "urls").iterdir()
    pointer.write_text("../../../secret")
    assert store.fetch("memory://a").read_bytes() == b"data"


def test_the_cache_deletes_what_was_not_used_for_longest(memory: Any, cache: Path) -> None:
    store = RemoteCache(limit=250)
    for name in "abc":
        memory.pipe(f"/{name}", name.encode() * 100)
    long_ago = time.time() - 1000
    for age, name in enumerate("ab"):
        os.utime(store.fetch(f"memory://{name}"), (long_ago + age, long_ago + age))
    os.utime(store.fetch("memory://a"))  # used again
    store.fetch("memory://c")
    kept = {path.read_bytes()[:1] for path in (cache / "blobs").iterdir()}
    assert kept == {b"a", b"c"}
    memory.pipe("/large", bytes(300))
    with pytest.raises(DataError, match="larger than the cache"):
        store.fetch("memory://large")
    assert not list(cache.glob("*.partial"))


def test_the_size_of_the_cache_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITAML_REMOTE_CACHE_GB", "0.5")
    assert RemoteCache().limit == 500_000_000
    monkeypatch.setenv("ITAML_REMOTE_CACHE_GB", "much")
    with pytest.raises(SettingsError, match="must be a number of gigabytes"):
        RemoteCache()


def _bomb(**fields: Any) -> bytes:
    member = tarfile.TarInfo("a.png")
    for name, value in fields.items():
        setattr(member, name, value)
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"not a tar file" * 100, "cannot read memory://x"),
        (_bomb(size=10**12), "has 1000000000000 bytes"),
        (_bomb(size=-5), "cannot read memory://x|has -5 bytes"),
        (_bomb(name="x" * 20, type=tarfile.GNUTYPE_LONGNAME, size=10**10), "a header of"),
        (shard([("a", {"cls": b"1" * 1_000_001, "png": b""})]), "the label a.cls has 1000001 bytes"),
    ],
)
def test_hostile_archives_are_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(read_shard(path, "memory://x"))


def test_links_and_unlabelled_images_are_passed_over(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        link = tarfile.TarInfo("a.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for name, data in (("a.cls", b"1"), ("lonely.png", b"x"), ("b.png", b"y"), ("b.cls", b"2"), ("c.cls", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    path = tmp_path / "x.tar"
    path.write_bytes(out.getvalue())
    assert [(member.key, member.label, member.size) for member in read_shard(path, "x")] == [("b", "2", 1)]


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtraError, match="s3:// needs another package"):
        list_remote("s3://bucket/x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"itaml\[remote\]"):
        list_remote("memory://x")
    monkeypatch.undo()
    with pytest.raises(DataError, match="cannot read nosuch://x"):
        list_remote("nosuch://x")
