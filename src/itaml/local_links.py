"""Direct connections between the processes of a run on one machine, for small messages that all of them wait for.

gloo receives every message in a separate thread, which interrupts the thread that computes and then has to wake it. A
training step has two messages for each batch-norm layer, so that this takes a fifth of the step (docs/scale.md). Here
the thread that needs a message reads it from a Unix socket itself: it polls for a moment, because the other process
is usually about as far, and then sleeps until something arrives.

The sockets have abstract names, which only Linux has, and no file that could be left behind. The system closes the
socket of a process that dies, which ends the waiting of all others. Where the processes cannot reach each other in this
way, because they are on several machines or in containers, all of them use gloo.
"""

from __future__ import annotations

import hmac
import os
import secrets
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

POLL_SECONDS = 0.002  # of asking again and again before a process sleeps
PATIENCE = 1800.0  # seconds that a process waits for another one, as in torch.distributed
HELLO_SECONDS = 10.0  # that connecting may take
TOKEN = 16  # bytes
Waiting = dict[socket.socket, memoryview]  # what is still to be sent or received


class LocalLinks:
    """Connections to all other processes.

    Args:
        links: a socket for each other process, by its number.
        rank: the number of this process.
    """

    def __init__(self, links: dict[int, socket.socket], rank: int) -> None:
        self.links, self.rank = links, rank
        for link in links.values():
            link.setblocking(False)

    def gather(self, own: Tensor) -> list[Tensor]:
        """Return the tensors of all processes, which have one shape and type. All call this in the same order.

        Raises:
            ConnectionError: another process has ended.
            TimeoutError: another process does not answer.
        """
        own = own.detach().contiguous()
        parts = [own if number == self.rank else torch.empty_like(own) for number in range(len(self.links) + 1)]
        if not own.numel():
            return parts
        unsent = {link: _bytes(own) for link in self.links.values()}
        missing = {link: _bytes(parts[number]) for number, link in self.links.items()}
        asked = time.monotonic()
        while unsent or missing:
            if _move(unsent, _send) + _move(missing, _receive):
                asked = time.monotonic()
            elif time.monotonic() - asked < POLL_SECONDS:
                os.sched_yield()  # to another process that may share the core
            elif not any(select.select(list(missing), list(unsent), [], PATIENCE)):
                raise TimeoutError("another process does not answer")
        return parts

    def close(self) -> None:
        """End the connections."""
        for link in self.links.values():
            link.close()


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.view(-1).view(torch.uint8).numpy().data


def _send(link: socket.socket, data: memoryview) -> int:
    return link.send(data)


def _receive(link: socket.socket, data: memoryview) -> int:
    count = link.recv_into(data)
    if not count:
        raise ConnectionResetError("another process has ended")
    return count


def _move(waiting: Waiting, step: Callable[[socket.socket, memoryview], int]) -> int:
    """Send or receive as much as is possible at once; return the number of bytes."""
    total = 0
    for link, data in list(waiting.items()):
        try:
            count = step(link, data)
        except BlockingIOError:
            continue
        total += count
        waiting[link] = data[count:]
        if count == len(data):
            del waiting[link]
    return total


# The beginning.


def connect(rank: int, size: int, gather_objects: Callable[[Any], list[Any]]) -> LocalLinks | None:
    """Connect all processes with each other; return None in all of them if they cannot all reach each other.

    Args:
        rank: the number of this process.
        size: the number of processes.
        gather_objects: returns the objects of all processes.
    """
    name, token, links = f"\0itaml-{secrets.token_hex(16)}", secrets.token_bytes(TOKEN), dict[int, socket.socket]()
    if not all(gather_objects(sys.platform == "linux")):
        return None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()  # to as many as the system allows; all others have called before this one accepts
        listener.settimeout(HELLO_SECONDS)
        doors = gather_objects((name, token))
        for number, door in enumerate(doors[:rank]):
            links |= _call(*door, rank=rank, number=number)
        if all(gather_objects(len(links) == rank)) and all(gather_objects(_accept(listener, token, links, size - 1))):
            return LocalLinks(links, rank)
    for link in links.values():
        link.close()
    return None


def _call(name: str, token: bytes, *, rank: int, number: int) -> dict[int, socket.socket]:
    """Connect to a process with a lower number; return no link if that is impossible."""
    link = socket.socket(socket.AF_UNIX)
    try:
        link.settimeout(HELLO_SECONDS)
        link.connect(name)
        link.sendall(token + bytes([rank]))
    except OSError:  # no such name: on another machine, or in another container
        link.close()
        return {}
    return {number: link}


def _accept(listener: socket.socket, token: bytes, links: dict[int, socket.socket], count: int) -> bool:
    """Accept the processes with higher numbers, until there are `count` links; others do not know the token."""
    end = time.monotonic() + HELLO_SECONDS
    while len(links) < count and time.monotonic() < end:
        with suppress(OSError):
            link, _ = listener.accept()
            number = _caller(link, token)
            if number is None:
                link.close()
            else:
                links[number] = link
    return len(links) == count


def _caller(link: socket.socket, token: bytes) -> int | None:
    """Return the number of the process that calls; None for a stranger."""
    link.settimeout(HELLO_SECONDS / 10)
    with suppress(OSError):
        hello = link.recv(TOKEN + 1, socket.MSG_WAITALL)
        if len(hello) == TOKEN + 1 and hmac.compare_digest(hello[:TOKEN], token):
            return hello[TOKEN]
    return None
