"""A small HTTP client for load: requests made beforehand, one connection per client, latencies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

BOUNDARY = b"itaml-load"


def predict_request(images: Sequence[bytes], *, query: str = "") -> bytes:
    """Return the bytes of a request with images."""
    parts = [
        b'--%s\r\nContent-Disposition: form-data; name="images"; filename="%d.jpg"\r\n\r\n%s\r\n'
        % (BOUNDARY, number, data)
        for number, data in enumerate(images)
    ]
    body = b"".join(parts) + b"--%s--\r\n" % BOUNDARY
    head = (
        b"POST /v1/predict%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=%s\r\n"
        b"Content-Length: %d\r\n\r\n" % (query.encode(), BOUNDARY, len(body))
    )
    return head + body


@dataclass
class LoadResult:
    """What clients saw."""

    latencies: list[float] = field(default_factory=list)  # seconds
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def percentile(self, share: float) -> float:
        """Return a percentile of the latencies in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    def summary(self) -> dict[str, float]:
        """Return percentiles, throughput and the number of failures."""
        return {
            "requests": len(self.latencies),
            "failed": len(self.failed),
            "p50_ms": round(self.percentile(0.5), 1),
            "p90_ms": round(self.percentile(0.9), 1),
            "p99_ms": round(self.percentile(0.99), 1),
            "requests_per_second": round(len(self.latencies) / max(self.seconds, 1e-9), 1),
        }


async def one_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    """Send a request on an open connection; return status and body."""
    writer.write(request)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return status, await reader.readexactly(length)


async def load(port: int, requests: Iterator[bytes], *, clients: int, until: Callable[[int], bool]) -> LoadResult:
    """Send requests from clients that each wait for the answer before the next one.

    Args:
        port: of the service.
        requests: sent in turn.
        clients: connections at the same time.
        until: called with the number of answers; True ends the load.
    """
    result = LoadResult()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while not until(len(result.latencies) + len(result.failed)):
                start = time.perf_counter()
                try:
                    status, body = await one_request(reader, writer, next(requests))
                except (OSError, asyncio.IncompleteReadError) as error:
                    result.failed.append(repr(error))
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    continue
                if status == 200:
                    result.latencies.append(time.perf_counter() - start)
                else:
                    result.failed.append(f"{status} {body[:200]!r}")
        finally:
            writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    result.seconds = time.perf_counter() - start
    return result
