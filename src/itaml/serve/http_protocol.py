"""HTTP as uvicorn reads it with httptools, with limits for the head of a request, which uvicorn does not have."""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT = 64 << 10  # bytes of a request line and its headers
HEAD_SECONDS = 20.0  # until they have arrived


def send_at_once(transport: asyncio.BaseTransport) -> None:
    """Have small packets sent at once: asyncio does this only for sockets whose protocol number is given.

    Otherwise the body of a response waits for the client to acknowledge its head, for 40 milliseconds on Linux.
    """
    found = transport.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class LimitedHttpProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not come to the end of its head."""

    in_head = True
    head_bytes = 0
    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a connection."""
        send_at_once(transport)
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with a connection."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        super().data_received(data)
        if self.in_head:
            self.head_bytes += len(data)
            if self.head_bytes > HEAD_LIMIT:
                self.transport.close()

    def on_message_begin(self) -> None:
        """Begin with a request."""
        self.in_head, self.head_bytes = True, 0
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin with the body."""
        self.in_head = False
        self._expect_nothing()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._expect_nothing()
        self.timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _expect_nothing(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
