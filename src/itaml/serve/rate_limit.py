"""A limit of requests per second for each client: a token bucket."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from itaml.serve.api_errors import ApiError

SECONDS = 10  # of requests that a client may make at once
CLIENTS = 10_000  # that are remembered


class RateLimit:
    """Counts the requests of each client.

    Args:
        rate: requests per second; 0 is no limit.
        clock: returns seconds.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self.burst = max(1.0, rate * SECONDS)
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client -> requests left, when

    def check(self, client: str) -> None:
        """Count a request.

        Raises:
            ApiError: the client has made too many.
        """
        if not self.rate:
            return
        now = self._clock()
        left, then = self._clients.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - then) * self.rate)
        allowed = left >= 1
        self._clients[client] = (left - allowed, now)
        if len(self._clients) > CLIENTS:
            self._clients.popitem(last=False)
        if not allowed:
            wait = max(1, math.ceil((1 - left) / self.rate))
            raise ApiError(429, f"more than {self.rate:g} requests per second", headers={"Retry-After": str(wait)})
