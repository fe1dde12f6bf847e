"""What `Client` and `AsyncClient` share: where the service is, the key, and how a call becomes an HTTP request."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from sfumato.accounting.numbers import whole
from sfumato.client.exchange import Call, Lost
from sfumato.errors import Failed, InvalidArgument

if TYPE_CHECKING:
    import httpx2

KEY_VARIABLE = "SFUMATO_KEY"
PLAIN_HTTP = (
    "sends the key and the answers readable over the network, because it is http:// and not this machine; "
    "use https://, or pass allow_plain_http=True if the network is trusted"
)
_EXAMPLE = "such as http://127.0.0.1:8080"


class ClientBase:
    """The address of a service and a key to it."""

    def __init__(self, url: str, key: str | None, timeout_s: float, retries: int, allow_plain_http: bool) -> None:
        try:
            import httpx2
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError("the client needs: pip install 'sfumato[client]'") from missing
        self._http = httpx2
        self.url = _address(url)
        try:
            httpx2.URL(self.url)
        except httpx2.InvalidURL:
            raise InvalidArgument("url", f"must be an address, {_EXAMPLE}") from None
        if not (allow_plain_http is True or keeps_secret(self.url)):
            raise InvalidArgument("url", PLAIN_HTTP)
        self._retries = whole("retries", retries, at_most=100)
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < 1e6:
            raise InvalidArgument("timeout_s", "must be a number of seconds greater than zero")
        self._timeout_s = float(timeout_s)
        self._headers = {
            "Authorization": f"Bearer {_key(key)}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # answers are short, and without compression there are no zip bombs
            "User-Agent": "sfumato-python",
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} holds a key and open connections: make one where it is used")

    def _options(self) -> dict[str, Any]:
        """The arguments of the HTTP client. It never follows a redirect, because the key would go with it."""
        return {"headers": self._headers, "timeout": self._timeout_s, "follow_redirects": False}

    def _request(self, http: httpx2.Client | httpx2.AsyncClient, call: Call[Any]) -> httpx2.Request:
        if http.is_closed:
            raise Failed("the client is closed; make a new one")
        url = self._http.URL(self.url + call.path)
        content_type = {} if call.body is None else {"Content-Type": "application/json"}
        return http.build_request(
            *(call.method, url.copy_with(params=call.params) if call.params else url),
            content=call.body,
            headers={**call.headers, **content_type},
        )

    def _describe_loss(self, error: Exception) -> Lost:
        """Why there is no reply. The words hold nothing of what was sent."""
        late = f"within {self._timeout_s:g} s"
        if isinstance(error, self._http.ConnectTimeout | self._http.PoolTimeout):
            return Lost(f"no connection {late}", arrived=False)
        if isinstance(error, self._http.ConnectError | self._http.ProxyError):
            return Lost(f"no connection ({str(error)[:200] or 'refused'})", arrived=False)
        if isinstance(error, self._http.TimeoutException):
            return Lost(f"nothing came {late}", arrived=True)
        return Lost("the connection broke off", arrived=True)


def keeps_secret(url: str) -> bool:
    """Whether a key that is sent there cannot be read on its way: by TLS, or because it is this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Whether this address is reached from this machine only."""
    from ipaddress import ip_address  # takes a while to import, and names of hosts are rare

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _address(url: str) -> str:
    """The address of the service, without a slash at the end."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except (AttributeError, TypeError, ValueError):
        raise InvalidArgument("url", f"must be an address, {_EXAMPLE}") from None
    if not isinstance(url, str) or not re.fullmatch(r"[!-~]+", url) or parts.scheme not in ("http", "https"):
        raise InvalidArgument("url", f"must begin with http:// or https://, {_EXAMPLE}")
    if not host:
        raise InvalidArgument("url", f"must name a host, {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument("url", "must not hold a key; pass it as key=")
    if parts.path.rstrip("/").endswith("/v1"):
        raise InvalidArgument("url", f"must be the service's own address, without /v1, {_EXAMPLE}")
    if parts.query or parts.fragment:
        raise InvalidArgument("url", f"must end with the host or a path, {_EXAMPLE}")
    return url.rstrip("/?#")


def _key(key: str | None) -> str:
    """The key. No message repeats it."""
    secret = os.environ.get(KEY_VARIABLE) if key is None else key
    if not secret:
        raise InvalidArgument("key", f"is missing; pass key=, or set {KEY_VARIABLE}")
    if not isinstance(secret, str) or not re.fullmatch(r"[!-~]{1,8192}", secret):
        raise InvalidArgument("key", "must be visible characters, without spaces and line ends")
    return secret
