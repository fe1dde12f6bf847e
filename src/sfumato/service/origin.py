"""How people reach the service: the host that requests must be for, and the origin that is its own.

A page of another site can make a browser send requests here, and can have its own name lead to this machine. So a
request for another host is refused, and pages compare origins. No forwarded header is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from sfumato.client.base import is_loopback
from sfumato.config import ServiceSettings

ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104


class Origin:
    """The origin of `[service] origin`; without it, plain HTTP to the address that is bound."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._origin, self._bound = settings.origin, settings.host
        self._host = None if settings.origin is None else _host_of(settings.origin.partition("://")[2])

    def is_ours(self, hosts: Sequence[str]) -> bool:
        """Whether a request with these `Host` headers is for this service; their ports do not count.

        Without the setting, a service that is bound to this machine takes all names of this machine, and one that is
        bound to all addresses takes every name, because it does not know its own.
        """
        names = [_host_of(host) for host in hosts]
        if self._host is not None:
            return all(name == self._host for name in names)
        if self._bound in ALL_ADDRESSES:
            return True
        if is_loopback(self._bound):
            return all(name is not None and is_loopback(name) for name in names)
        return all(name == self._bound.lower() for name in names)

    def url(self, host: str) -> str:
        """The origin of a request for `host`, its `Host` header, which `is_ours`: for links and redirects."""
        return self._origin or f"http://{host.lower()}"

    def is_same(self, origin: str | None, host: str) -> bool:
        """Whether an `Origin` header names the origin of this service. A request without one is not of this origin."""
        return origin is not None and origin.lower() == self.url(host)

    def is_encrypted(self) -> bool:
        """Whether people reach the service by TLS."""
        return self._origin is not None and self._origin.startswith("https://")


def _host_of(text: str) -> str | None:
    """The name in a `Host` header, in small letters and without its port; None where it is none."""
    try:
        parts = urlsplit(f"//{text}")
        is_host = not (parts.path or parts.query or parts.fragment or "@" in text or "\\" in text)
        return parts.hostname if is_host and (parts.port is None or parts.port > 0) else None
    except ValueError:
        return None
