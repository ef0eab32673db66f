"""Downloading from a server of the test's own: checked before use, nothing half-written, words without network."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from itaml.cli.data import app
from itaml.data import layouts
from itaml.data.fetch import fetch, status
from itaml.data.layouts import LAYOUTS, Layout, Remote, layout
from itaml.data.root import data_root
from itaml.errors import DataError, UnknownNameError

NO_SERVER = "http://127.0.0.1:9/"  # the discard port: nobody listens


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "served"
    folder.mkdir()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{httpd.server_port}/"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def known(monkeypatch: pytest.MonkeyPatch, *remotes: Remote, place: str = "sub/a.bin") -> None:
    entry = Layout("toy", "a toy", ((place,),), remotes)
    monkeypatch.setattr(layouts, "LAYOUTS", LAYOUTS)
    monkeypatch.setitem(LAYOUTS, "toy", entry)


def md5(data: bytes) -> str:
    return "md5:" + hashlib.md5(data).hexdigest()


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_fetched_from_the_first_mirror_that_has_it(
    tmp_path: Path, server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = server
    (folder / "a.bin").write_bytes(b"right")
    known(monkeypatch, Remote("sub/a.bin", (NO_SERVER + "a.bin", url + "a.bin"), md5(b"right")))
    assert fetch("toy", tmp_path / "root") == (tmp_path / "root/sub/a.bin",)
    assert (tmp_path / "root/sub/a.bin").read_bytes() == b"right"
    (folder / "a.bin").unlink()
    assert fetch("toy", tmp_path / "root") == (tmp_path / "root/sub/a.bin",)  # it is there: nothing is asked for


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(
    tmp_path: Path, server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = server
    (folder / "a.bin").write_bytes(b"wrong")
    known(monkeypatch, Remote("sub/a.bin", (url + "a.bin",), md5(b"right")))
    with pytest.raises(DataError, match=r"another checksum than md5:.*; put a\.bin into .*/sub by hand"):
        fetch("toy", tmp_path / "root")
    assert everything_in(tmp_path / "root") == []


def test_without_network_one_line_says_which_file_goes_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remotes = [Remote(f"sub/{name}.bin", (f"{NO_SERVER}{name}.bin",), md5(b"x")) for name in "ab"]
    known(monkeypatch, *remotes)
    with pytest.raises(DataError, match=r"no answer from .*; put a\.bin, b\.bin into .*/sub by hand") as caught:
        fetch("toy", tmp_path / "root")
    assert "\n" not in str(caught.value)
    assert everything_in(tmp_path / "root") == []


def zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{name}/train/x.txt", "x")
    return buffer.getvalue()


@pytest.mark.parametrize("inside", ["toy-folder", "another"])
def test_an_archive_becomes_its_folder_or_nothing(
    tmp_path: Path, server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    folder, url = server
    data = zipped(inside)
    (folder / "toy.zip").write_bytes(data)
    known(
        monkeypatch, Remote("toy.zip", (url + "toy.zip",), md5(data), unpacks_to="toy-folder"), place="toy-folder/train"
    )
    if inside == "toy-folder":
        assert fetch("toy", tmp_path / "root") == (tmp_path / "root/toy-folder/train",)
        assert everything_in(tmp_path / "root") == ["toy-folder/train/x.txt"]
    else:
        with pytest.raises(DataError, match="cannot unpack"):
            fetch("toy", tmp_path / "root")
        assert everything_in(tmp_path / "root") == ["toy.zip"]


@pytest.mark.parametrize(("name", "reason"), [("imagenet-1k", "image-net.org"), ("celeb-10k", "withdrawn")])
def test_what_cannot_be_fetched_says_so(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        fetch(name, tmp_path)


def test_an_unknown_name_is_met_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'cifar100'"):
        layout("cifar-100")


def test_status_tells_what_is_there_and_what_lacks(tmp_path: Path) -> None:
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn/train_32x32.mat").touch()
    (tmp_path / "cifar-10-python.tar.gz").touch()
    states = {state.name: state for state in status(tmp_path)}
    assert set(states) == set(LAYOUTS)
    assert not states["svhn"].present
    assert states["svhn"].missing == ("svhn/test_32x32.mat",)
    assert states["cifar10"].found == (tmp_path / "cifar-10-python.tar.gz",)
    assert states["cifar10"].missing == ()
    assert "cifar-100-binary.tar.gz" in states["cifar100"].looked_for
    assert not states["imagenet-1k"].fetchable
    assert "image-net.org" in states["imagenet-1k"].note


def test_every_remote_is_where_its_data_set_is_looked_for() -> None:
    for entry in LAYOUTS.values():
        assert bool(entry.remotes) != bool(entry.why_not)
        for remote in entry.remotes:
            algorithm, _, digest = remote.checksum.partition(":")
            assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
            wanted = remote.unpacks_to or remote.path.removesuffix(".gz")
            assert any(part.removesuffix(".gz").startswith(wanted) for place in entry.places for part in place)


def test_the_root_is_the_named_one_then_the_variable_then_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ITAML_DATA", str(tmp_path / "variable"))
    assert data_root(tmp_path / "named") == tmp_path / "named"
    assert data_root() == tmp_path / "variable"
    monkeypatch.setenv("ITAML_DATA", "")
    assert "itaml" in data_root().parts
    assert data_root("~/x") == Path.home() / "x"


def test_the_command_lists_as_words_and_as_json(tmp_path: Path) -> None:
    run = CliRunner()
    (tmp_path / "cifar-100-binary.tar.gz").touch()
    words = run.invoke(app, ["list", "--data-root", str(tmp_path)])
    assert words.exit_code == 0
    assert f"data root: {tmp_path}" in words.output
    assert any(line.split()[:2] == ["yes", "cifar100"] for line in words.output.splitlines())
    assert "itaml data fetch svhn" in words.output
    machine = json.loads(run.invoke(app, ["list", "--data-root", str(tmp_path), "--json"]).output)
    present = {entry["name"]: entry["present"] for entry in machine["data_sets"]}
    assert present["cifar100"]
    assert not present["mnist"]


def test_the_command_fetches(tmp_path: Path, server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, url = server
    (folder / "a.bin").write_bytes(b"right")
    known(monkeypatch, Remote("sub/a.bin", (url + "a.bin",), md5(b"right")))
    first = CliRunner().invoke(app, ["fetch", "toy", "--data-root", str(tmp_path / "one")])
    assert first.exit_code == 0, first.exception
    assert (tmp_path / "one/sub/a.bin").read_bytes() == b"right"
    second = CliRunner().invoke(app, ["fetch", "toy", "--data-root", str(tmp_path / "two"), "--json"])
    assert json.loads(second.stdout) == {"name": "toy", "files": [str(tmp_path / "two/sub/a.bin")]}
