"""HTTP as uvicorn reads it with httptools, with a limit for the head of a request, which uvicorn does not have."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT = 64 << 10  # bytes of a request line and its headers


class LimitedHttpProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not come to the end of its head."""

    in_head = True
    head_bytes = 0

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
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin with the body."""
        self.in_head = False
        super().on_headers_complete()
