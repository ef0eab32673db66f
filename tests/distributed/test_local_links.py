"""Direct connections of processes on one machine: what arrives, who is refused, and what a lost process causes."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from itaml import local_links
from itaml.local_links import LocalLinks, connect
from process_groups import finish_group, start_group

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract names of sockets are Linux'")
Change = Callable[[int, Any], Any]


class Meeting:
    """`gather_objects` for threads, each of which is one process; `change` sees what each one says."""

    def __init__(self, size: int, change: Change = lambda rank, value: value) -> None:
        self.said: list[Any] = [None] * size
        self.barrier, self.change = threading.Barrier(size, timeout=60), change

    def gatherer(self, rank: int) -> Callable[[Any], list[Any]]:
        def gather(value: Any) -> list[Any]:
            self.said[rank] = self.change(rank, value)
            self.barrier.wait()
            heard = list(self.said)
            self.barrier.wait()
            return heard

        return gather


def together(size: int, work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, range(size)))


def connected(size: int, change: Change = lambda rank, value: value) -> list[LocalLinks | None]:
    meeting = Meeting(size, change)
    return together(size, lambda rank: connect(rank, size, meeting.gatherer(rank)))


MESSAGES = [
    torch.arange(6, dtype=torch.float64).view(2, 3),
    torch.tensor(3.5),
    torch.zeros(0, 4),
    torch.tensor([True, False]),
    torch.arange(4).to(torch.bfloat16),
    torch.arange(24).view(4, 6).t(),  # not contiguous
    torch.rand(700_001, generator=torch.Generator().manual_seed(0)),  # more than a socket holds
    torch.ones(3, requires_grad=True),
]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_process_gets_the_tensors_of_all(size: int) -> None:
    links = connected(size)

    def work(rank: int) -> list[list[Tensor]]:
        own = links[rank]
        assert own is not None
        return [own.gather(~m if m.dtype == torch.bool else m + rank) for m in MESSAGES]

    for found in together(size, work):
        for message, parts in zip(MESSAGES, found, strict=True):
            for rank, part in enumerate(parts):
                expected = ~message if message.dtype == torch.bool else message + rank
                assert part.dtype == message.dtype
                assert torch.equal(part, expected)
    for link in filter(None, links):
        link.close()


def test_processes_that_cannot_reach_each_other_have_no_links() -> None:
    def elsewhere(rank: int, value: Any) -> Any:
        """The second process is on another machine: nobody there has the names of the others."""
        return (f"\0itaml-elsewhere-{rank}", value[1]) if isinstance(value, tuple) and rank == 1 else value

    assert connected(3, elsewhere) == [None] * 3
    assert connected(2, lambda rank, value: value and rank == 0 if isinstance(value, bool) else value) == [None] * 2


def test_a_stranger_who_finds_the_name_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_links, "HELLO_SECONDS", 2.0)
    strangers: list[socket.socket] = []

    def visit(rank: int, value: Any) -> Any:
        if isinstance(value, tuple) and rank == 0:
            for hello in (b"x" * 17, b"short", b""):  # a false token, part of one, and silence
                strangers.append(socket.socket(socket.AF_UNIX))
                strangers[-1].connect(value[0])
                strangers[-1].sendall(hello)
        return value

    links = connected(3, visit)
    assert all(link is not None and len(link.links) == 2 for link in links)
    found = together(3, lambda rank: links[rank].gather(torch.tensor([rank])))  # type: ignore[union-attr]
    assert [torch.cat(parts).tolist() for parts in found] == [[0, 1, 2]] * 3
    for link in filter(None, links):
        link.close()
    for stranger in strangers:
        stranger.close()


def test_a_process_that_ends_is_noticed_by_those_that_wait_or_send() -> None:
    first, second = connected(2)
    assert first is not None
    assert second is not None
    second.close()
    for count in (1, 1_000_000):
        with pytest.raises(ConnectionError):
            first.gather(torch.zeros(count))
    first.close()


def test_a_process_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_links, "PATIENCE", 0.01)
    first, second = connected(2)
    assert first is not None
    assert second is not None
    with pytest.raises(TimeoutError, match="does not answer"):
        first.gather(torch.zeros(1))
    first.close()
    second.close()


PROGRAM = """
import json, os, sys, torch
from itaml import distributed
from itaml.errors import PeerError
distributed.start()
direct = distributed._group.links is not None
sums = distributed.add_up([torch.tensor([float(distributed.rank() + 1)]), torch.tensor([0.5])])
largest = distributed.add_up([torch.tensor([distributed.rank(), 7])])
print(json.dumps({"direct": direct, "sums": [s.item() for s in sums], "largest": largest[0].tolist()}), flush=True)
try:
    while True:
        distributed.gather(torch.zeros(100))
except PeerError as error:
    print(error, flush=True)
    os._exit(1)
"""


def test_a_killed_process_ends_the_waiting_of_the_others_with_one_sentence() -> None:
    started = start_group(["-c", PROGRAM], count=3)
    lines = [json.loads(process.stdout.readline()) for process in started]  # type: ignore[union-attr]
    assert lines == [{"direct": True, "sums": [6.0, 1.5], "largest": [2, 7]}] * 3
    time.sleep(0.1)
    started[1].send_signal(signal.SIGKILL)
    ended = finish_group(started, seconds=60)
    assert [process.returncode for process in ended] == [1, -signal.SIGKILL, 1]
    for process in (ended[0], ended[2]):
        assert process.stdout.startswith("another process of this run was lost")
