"""Hypothesis looks for bytes that any parser answers with something else than a value or one of our errors."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.fuzz_targets import TARGETS, check, seeds
from itaml.errors import UsageError
from itaml.modelstore.checksummed_json import add_checksum

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KEYS = (
    "event",
    "time",
    "task",
    "tasks",
    "epoch",
    "epochs",
    "loss",
    "seconds",
    "row",
    "final",
    "format",
    "checksum",
    "version",
)
EVENTS = st.sampled_from(("RunStarted", "TaskStarted", "EpochDone", "TaskDone", "RunDone"))
RECORD = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8)


@st.composite
def changed(draw: st.DrawFn, name: str) -> bytes:
    """Return a good input with a few bytes replaced, removed or put in."""
    data = bytearray(draw(st.sampled_from(seeds(name))))
    for place, removed, put in draw(
        st.lists(st.tuples(st.integers(0, len(data)), st.integers(0, 8), st.binary(max_size=8)), max_size=6)
    ):
        data[place : place + removed] = put
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_are_read_or_refused(name: str) -> None:
    @settings(max_examples=25)
    @given(changed(name) | st.binary(max_size=200))
    def run(data: bytes) -> None:
        check(name, data)

    run()


@settings(max_examples=25)
@given(st.lists(RECORD | st.fixed_dictionaries({"event": EVENTS}, optional=dict.fromkeys(KEYS[1:], JSON)), max_size=6))
def test_any_events_can_be_watched(events: list[dict[str, Any]]) -> None:
    check("events", b"".join(json.dumps(event).encode() + b"\n" for event in events))


@settings(max_examples=25)
@given(RECORD)
def test_any_object_as_a_result_is_refused_in_words(record: dict[str, Any]) -> None:
    check("result", json.dumps(record | {"format": 1}).encode())


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from(("version", "options", "shape", "classes", "tasks", "learns", "files")), JSON))
def test_any_record_of_a_model_is_refused_in_words(record: dict[str, Any]) -> None:
    try:
        data = add_checksum("model", record)
    except ValueError:  # NaN and surrogates are not in our files
        return
    check("manifest", data)


@settings(max_examples=25)
@given(st.sampled_from(("epochs", "lr", "memory", "backbone", "x")), JSON)
def test_any_value_of_a_setting_is_taken_or_refused_in_words(name: str, value: Any) -> None:
    check("set", f"{name}={json.dumps(value)}".encode())


NAMES = st.sampled_from(("epochs", "lr", "digits", "memory", "milestones", "x"))
TOML = st.sampled_from(
    ("1", "-1", "0.5", "nan", "inf", "true", '"x"', "[1, 2]", "[[[]]]", "{a = 1}", "1979-05-27", "9" * 5000, "[" * 9999)
)


@settings(max_examples=50)
@given(st.lists(st.tuples(NAMES, TOML).map(" = ".join) | NAMES.map(lambda name: f"[{name}]"), max_size=6))
def test_any_preset_is_read_or_refused_in_words(lines: list[str]) -> None:
    check("preset", "\n".join(lines).encode())


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"epochs = ", "a preset is not TOML: Invalid value"),
        (b"\xff = 1", "a preset is not TOML: 'utf-8' codec"),
        (b"x = " + b"[" * 100_000, "a preset is not TOML: nested too deeply"),
        (b"epochs = " + b"9" * 5000, "a preset is not TOML: Exceeds the limit"),
        (b"digits = 3", "no setting 'digits'"),
        (b"[digits]\nepochs = 0", "setting epochs: must be greater than or equal to 1 (got 0)"),
    ],
)
def test_what_is_wrong_with_a_preset_is_said(data: bytes, sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        TARGETS["preset"](data)


@settings(max_examples=25)
@given(st.integers(0, 2**64 - 1), st.binary(max_size=64))
def test_any_header_of_safetensors_is_refused_in_words(length: int, rest: bytes) -> None:
    check("state", struct.pack("<Q", length) + rest)
