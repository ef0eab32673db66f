"""`open_regular`: links, pipes, devices and oversized files are refused at once; `parse_json` has one exception."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from itaml.errors import CheckpointError, UnsafeFileError
from itaml.storage import load_state, open_regular, parse_json, parse_state, read_regular, save_state

UNIX = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and devices")


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_regular(tmp_path / "a", limit=5) == b"12345"
    with open_regular(str(tmp_path / "a"), limit=5) as file:
        assert file.read() == b"12345"
    with pytest.raises(UnsafeFileError, match=r"a has 5 bytes, more than the limit of 4"):
        read_regular(tmp_path / "a", limit=4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "b", limit=4)


def test_a_file_that_grows_beyond_its_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    before = (tmp_path / "a").stat()
    (tmp_path / "a").write_bytes(b"1234567")
    monkeypatch.setattr(os, "fstat", lambda handle: before)
    with pytest.raises(UnsafeFileError, match="more than the limit of 5 bytes"):
        read_regular(tmp_path / "a", limit=5)


@UNIX
@pytest.mark.parametrize("target", ["/dev/zero", "/etc/hostname", "missing", "b"])
def test_links_are_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "b").write_bytes(b"b")
    (tmp_path / "a").symlink_to(target)
    with pytest.raises(UnsafeFileError, match="a is a symbolic link"):
        open_regular(tmp_path / "a", limit=100)


@UNIX
def test_links_inside_a_folder_are_followed_if_the_caller_says_so(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b").write_bytes(b"b")
    (tmp_path / "data" / "a").symlink_to("b")
    assert read_regular(tmp_path / "data" / "a", limit=9, within=tmp_path / "data") == b"b"
    (tmp_path / "secret").write_bytes(b"s")
    (tmp_path / "data" / "c").symlink_to("../secret")
    with pytest.raises(UnsafeFileError, match="leads out of"):
        read_regular(tmp_path / "data" / "c", limit=9, within=tmp_path / "data")


@UNIX
def test_pipes_sockets_folders_and_devices_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsafeFileError, match="a named pipe"):
        open_regular(tmp_path / "pipe", limit=9)
    with pytest.raises(UnsafeFileError, match="a folder"):
        open_regular(tmp_path, limit=9)
    with pytest.raises(UnsafeFileError, match="a device"):
        open_regular("/dev/zero", limit=9)
    with socket.socket(socket.AF_UNIX) as there:
        monkeypatch.chdir(tmp_path)  # because the name of a socket is short
        there.bind("s")
        with pytest.raises((UnsafeFileError, OSError)):
            open_regular(tmp_path / "s", limit=9)


@UNIX
def test_a_state_is_not_read_through_a_link_or_a_pipe(tmp_path: Path) -> None:
    save_state(tmp_path / "s", {"n": 1}, kind="thing")
    (tmp_path / "link").symlink_to("s")
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("link", "symbolic link"), ("pipe", "a named pipe")):
        with pytest.raises(CheckpointError, match=words):
            load_state(tmp_path / name, kind="thing")
    with pytest.raises(CheckpointError, match="more than the limit of 10"):
        load_state(tmp_path / "s", kind="thing", limit=10)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "{", "", "\ud800", b"\xff\xfe\xfa"])
def test_hostile_json_is_a_value_error(text: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


@pytest.mark.parametrize(
    "metadata",
    [
        {"format": "1", "body": "[" * 100_000},
        {"format": "9" * 5000, "body": "{}"},
        {"format": "1", "body": "[]"},
        {"format": "1", "body": '{"a": {"$tensor": "gone"}}'},
        {"format": "1", "body": '{"a": {"$tensor": []}}'},
    ],
)
def test_a_hostile_header_is_one_sentence(tmp_path: Path, metadata: dict[str, str]) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "s", metadata={"itaml": "thing", **metadata})
    data = (tmp_path / "s").read_bytes()
    for checked in (False, True):
        with pytest.raises(CheckpointError, match=r"^[^\n]{1,300}$"):
            parse_state(tmp_path / "s", data, kind="thing", checked=checked)
