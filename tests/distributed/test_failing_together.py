"""An error in a part that one process does for all: every process raises it, and none waits for ever."""

from __future__ import annotations

import json

import pytest

from itaml import distributed
from itaml.data.decoding import BadImageError
from itaml.errors import DataError, ItamlError, PeerError, sendable
from process_groups import finish_group, start_group

PROGRAM = """
import json, sys
from itaml import distributed
from itaml.data.decoding import BadImageError
from itaml.errors import DataError
distributed.start()
ran, caught = [], {}
def fail(error):
    def block():
        ran.append(type(error).__name__)
        raise error
    return block
for error in (DataError("no such folder"), BadImageError("a.png", "truncated"), KeyError("x"), OSError(28, "full")):
    for name in ("one_first", "on_main"):
        try:
            if name == "on_main":
                distributed.on_main(fail(error))
            else:
                with distributed.one_first():
                    fail(error)()
        except Exception as found:
            caught[f"{name} {type(error).__name__}"] = [type(found).__name__, str(found)]
with distributed.one_first():
    ran.append("good")
print(json.dumps({"ran": ran, "caught": caught, "sum": len(distributed.gather_objects(1))}))
distributed.stop()
"""


def test_all_processes_raise_the_error_of_the_one_that_went_first() -> None:
    ended = finish_group(start_group(["-c", PROGRAM]), seconds=120)
    assert [process.returncode for process in ended] == [0, 0], ended
    first, second = (json.loads(process.stdout) for process in ended)
    twice = [name for name in ("DataError", "BadImageError", "KeyError", "OSError") for _ in range(2)]
    assert first["ran"] == [*twice, "good"]
    assert second["ran"] == ["good"]  # the others never began what had failed
    for name in ("one_first", "on_main"):
        for process in (first, second):
            assert process["caught"][f"{name} DataError"] == ["DataError", "no such folder"]
            assert process["caught"][f"{name} BadImageError"][1] == "cannot read a.png: truncated"
            assert process["caught"][f"{name} OSError"] == ["OSError", "[Errno 28] full"]
        assert first["caught"][f"{name} KeyError"] == ["KeyError", "'x'"]
        expected = ["PeerError", "another process of this run failed: KeyError: 'x'"]
        assert second["caught"][f"{name} KeyError"] == expected
    assert (first["sum"], second["sum"]) == (2, 2)  # and their messages are still in step


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DataError("a"), DataError),
        (OSError(2, "b"), OSError),
        (BadImageError("c", "d"), ItamlError),
        (ZeroDivisionError("e"), PeerError),
    ],
)
def test_an_error_that_cannot_be_sent_as_it_is_keeps_its_text(error: Exception, kind: type[Exception]) -> None:
    sent = sendable(error)
    assert isinstance(sent, kind)
    assert str(error) in str(sent)


def test_one_process_alone_runs_the_block_and_raises_as_usual() -> None:
    with pytest.raises(KeyError), distributed.one_first():
        raise KeyError("x")
