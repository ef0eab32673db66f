"""The event log is as docs/events.md says: every field of every event that is written is in the document."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from handmade import final
from itaml import events
from itaml.experiment import event_log as run_events
from itaml.experiment.event_log import EventLog, RunDone, RunStarted

DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"
KINDS = [  # of a run; other modules may have events of their own, which no log is kept of
    kind
    for kind in events.Event.__subclasses__()
    if kind is not events.BatchDone and kind.__module__ in (events.__name__, run_events.__name__)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_documented(kind: type[events.Event]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.search(rf"^\| `{kind.__name__}` .*\n(?:\| \|.*\n)*", text, re.MULTILINE)
    assert found is not None, f"{kind.__name__} is not in docs/events.md"
    fields = set(re.findall(r"`(\w+)`", "".join(line.split("|")[2] for line in found[0].splitlines())))
    assert fields == {field.name for field in dataclasses.fields(kind)}


def test_lines_are_json_with_time_and_kind_and_batches_are_left_out(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log(RunStarted("ü", "itaml", "best", 0, 2, resumed=False))
    log(events.BatchDone(0, 0, 1, 5, 10, 0.1))
    log(RunDone(final(forgetting=0.5)))
    lines = [json.loads(line) for line in log.path.read_text(encoding="utf-8").splitlines()]
    assert [line["event"] for line in lines] == ["RunStarted", "RunDone"]
    assert lines[0]["benchmark"] == "ü"
    assert lines[1]["final"]["forgetting"] == 0.5
    assert lines[1]["final"]["continuum"]["1"] == {"class": 0.9, "task": 0.9}
    assert all(isinstance(line["time"], float) for line in lines)
