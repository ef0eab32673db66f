"""States on disk: what goes in comes out; damage, strangers and the future are refused; a failed save is no save."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from itaml import storage
from itaml.errors import CheckpointError
from itaml.storage import load_state, save_state, write_json
from support import same_bits

STATE: dict[str, Any] = {
    "weights": {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3, dtype=torch.int64)},
    "list": [1, 2.5, None, "text", torch.tensor([True, False])],
    "empty": torch.empty(0, 4),
    "half": torch.tensor([1.5], dtype=torch.bfloat16),
    "nothing": None,
    "deep": {"er": {"still": [{"x": torch.zeros(1, dtype=torch.uint8)}]}},
}


def test_a_state_comes_back_to_the_bit(tmp_path: Path) -> None:
    save_state(tmp_path / "s", STATE, kind="thing")
    assert same_bits(load_state(tmp_path / "s", kind="thing"), STATE)


def test_views_and_layouts_come_back_by_value(tmp_path: Path) -> None:
    base = torch.randn(4, 3, 2, 2)
    state = {"t": base[1:, :, 0].mT, "last": base.to(memory_format=torch.channels_last), "same": base}
    save_state(tmp_path / "s", state, kind="thing")
    assert same_bits(load_state(tmp_path / "s", kind="thing"), state)


def test_keys_with_a_slash_do_not_collide(tmp_path: Path) -> None:
    state = {"a/b": torch.tensor(1.0), "a": {"b": torch.tensor(2.0)}}
    save_state(tmp_path / "s", state, kind="thing")
    assert same_bits(load_state(tmp_path / "s", kind="thing"), state)


TEXT = st.text('a/$é\n"', max_size=4)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, plain, max_size=4))
def test_plain_values_come_back(tmp_path_factory: pytest.TempPathFactory, state: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("plain") / "s"
    save_state(path, state, kind="thing")
    assert load_state(path, kind="thing") == state


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"gone\.safetensors does not exist"):
        load_state(tmp_path / "gone.safetensors", kind="thing")


def test_a_flipped_byte_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "s"
    state = {"w": torch.arange(4.0), "n": 3}
    save_state(path, state, kind="thing")
    good = path.read_bytes()
    refused = 0
    for position in range(len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        try:
            found = load_state(path, kind="thing")
        except CheckpointError as error:
            assert str(path) in str(error)  # noqa: PT017
            refused += 1
        else:
            assert same_bits(found, state)
    assert refused >= len(good) - 1  # the format's own digit is the only byte that does not matter


def test_a_truncated_file_is_refused_at_any_length(tmp_path: Path) -> None:
    path = tmp_path / "s"
    save_state(path, STATE, kind="thing")
    good = path.read_bytes()
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        with pytest.raises(CheckpointError, match="damaged"):
            load_state(path, kind="thing")


def test_strangers_are_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / "s"
    save_file({"w": torch.zeros(2)}, path)
    content = path.read_bytes()
    with pytest.raises(CheckpointError, match="is not a thing of itaml but a file of another program"):
        load_state(path, kind="thing")
    assert path.read_bytes() == content
    save_state(path, {}, kind="other")
    with pytest.raises(CheckpointError, match="not a thing of itaml but other"):
        load_state(path, kind="thing")
    for text in (b"", b"PK\x03\x04 a zip", b"\x80\x04\x95pickle", b"{}" * 100):
        path.write_bytes(text)
        with pytest.raises(CheckpointError, match="damaged"):
            load_state(path, kind="thing")


@pytest.mark.parametrize("metadata", [{"itaml": "thing"}, {"itaml": "thing", "format": "one", "body": "{}"}])
def test_a_forged_header_is_refused(tmp_path: Path, metadata: dict[str, str]) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "s", metadata=metadata)
    with pytest.raises(CheckpointError, match="damaged"):
        load_state(tmp_path / "s", kind="thing")


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "FORMAT", storage.FORMAT + 1)
    save_state(tmp_path / "s", STATE, kind="thing")
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 3, newer than 2: a newer itaml is needed"):
        load_state(tmp_path / "s", kind="thing")


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (os, "fsync", OSError(28, "No space left on device")),
        (Path, "replace", OSError(28, "No space left on device")),
        (Path, "replace", KeyboardInterrupt()),
    ],
)
def test_a_failed_save_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException
) -> None:
    path = tmp_path / "s"
    save_state(path, {"n": 1}, kind="thing")

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        with pytest.raises(type(error)):
            save_state(path, {"n": 2, "w": torch.zeros(100)}, kind="thing")
    assert load_state(path, kind="thing") == {"n": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_values_that_json_cannot_hold_are_refused_before_the_file_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "s"
    save_state(path, {"n": 1}, kind="thing")
    with pytest.raises(ValueError, match="JSON compliant"):
        save_state(path, {"n": float("nan")}, kind="thing")
    with pytest.raises(AssertionError, match="keys must be text"):
        save_state(path, {"n": {1: 2}}, kind="thing")
    assert load_state(path, kind="thing") == {"n": 1}


def test_json_is_readable_and_makes_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x.json"
    write_json(path, {"name": "café", "n": [1, None]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"name": "café", "n": [1, None]}
    assert "café" in path.read_text(encoding="utf-8")
