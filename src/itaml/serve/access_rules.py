"""Who may do what: names of the service, tokens, and requests that pages of other sites make."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from itaml.serve.api_errors import ApiError
from itaml.serve.service_options import ServiceOptions, is_loopback

OPEN = ("/", "/v1/session", "/healthz", "/readyz")  # never protected
LOCAL = ("localhost", "127.0.0.1", "::1")
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
Headers = Mapping[bytes, bytes]


class AccessRules:
    """Decides by the head of a request alone."""

    def __init__(self, options: ServiceOptions) -> None:
        self.token = None if options.token is None else options.token.encode()
        self.protect_reading = options.protect_reading
        self.origins = frozenset(options.cors_origins)
        restricted = is_loopback(options.host) or bool(options.allowed_hosts)
        self.hosts = frozenset({*LOCAL, options.host, *options.allowed_hosts}) if restricted else None

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Refuse a request that may not be made.

        Raises:
            ApiError: it may not.
        """
        self._check_host(headers)
        if method == "OPTIONS":  # a question of a browser, which the rules for other origins answer
            return
        changes = method in CHANGING and path != "/v1/predict"
        if self.token is None:
            if changes:
                self._check_origin(headers)
            return
        if changes or (self.protect_reading and path not in OPEN and not path.startswith("/static/")):
            self._check_token(headers)

    def _check_host(self, headers: Headers) -> None:
        """Refuse other names, so that a page of another site cannot reach a local service under its own name."""
        if self.hosts is None:
            return
        name = host_name(headers.get(b"host", b"").decode("latin-1"))
        if name not in self.hosts:
            raise ApiError(400, "this is not a name of the service; see --allowed-host", code="unknown_host")

    def _check_token(self, headers: Headers) -> None:
        assert self.token is not None
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        right = hmac.compare_digest(given.strip(), self.token)
        if kind.lower() != b"bearer" or not right:
            raise ApiError(
                401,
                "this needs the token of the service in the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _check_origin(self, headers: Headers) -> None:
        """Refuse changes that pages of other sites ask for, where no token keeps them from it."""
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin in self.origins and origin:
            return
        foreign = bool(origin) and urlsplit(origin).netloc != headers.get(b"host", b"").decode("latin-1")
        if foreign or headers.get(b"sec-fetch-site", b"") == b"cross-site":
            raise ApiError(403, "pages of other sites may not change the model", code="cross_site")


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port and the brackets of an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
