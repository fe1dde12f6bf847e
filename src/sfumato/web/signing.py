"""Who is signed in: the cookie, the address that people reach the service by, and where a form must come from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request

from sfumato.client.base import is_loopback
from sfumato.config import Config, sort_roles
from sfumato.ledger import Ledger
from sfumato.ledger.api_keys import ApiKeys
from sfumato.ledger.sign_ins import SignIn, SignIns
from sfumato.service.auth import Principal
from sfumato.service.origin import Origin

SECURE_COOKIE, LOOPBACK_COOKIE = "__Host-sfumato", "sfumato"


@dataclass(frozen=True, slots=True)
class Address:
    """How the caller reached the service: its origin, as a browser writes it."""

    origin: str

    @property
    def host(self) -> str:
        return self.origin.partition("://")[2]

    @property
    def is_encrypted(self) -> bool:
        return self.origin.startswith("https://")

    @property
    def is_safe(self) -> bool:
        """Whether a key may travel: over TLS, or within this machine."""
        name = self.host.removeprefix("[").partition("]" if self.host.startswith("[") else ":")[0]
        return self.is_encrypted or is_loopback(name)

    @property
    def cookie(self) -> str:
        """The name of the cookie. Not every browser takes a secure one over plain HTTP, even within a machine."""
        return SECURE_COOKIE if self.is_encrypted else LOOPBACK_COOKIE

    @property
    def attempt_cookie(self) -> str:
        """The name of the cookie of a sign-in that is going on at the identity provider."""
        return f"{self.cookie}-provider"

    def set_cookie(self, name: str, secret: str, lasts_s: int | None = None) -> str:
        """The `Set-Cookie` that keeps a secret under one of these names; that forgets it, where it is empty."""
        secure = "; Secure" if self.is_encrypted else ""
        lasts_s = lasts_s if secret else 0
        age = "" if lasts_s is None else f"; Max-Age={lasts_s}"
        return f"{name}={secret}; Path=/; HttpOnly; SameSite=Lax{secure}{age}"


def find_address(request: Request, origin: Origin) -> Address:
    """The address of the service. Requests for another host never come here: the middleware refuses them."""
    return Address(origin.url(request.headers.get("host", "")))


def is_own_form(request: Request, address: Address) -> bool:
    """Whether a request that changes something comes from one of our pages.

    Browsers say so in `Sec-Fetch-Site`; those that do not send it send an `Origin`.
    """
    site = request.headers.getlist("sec-fetch-site")
    return site == ["same-origin"] if site else request.headers.getlist("origin") == [address.origin]


def read_cookie(request: Request, cookie: str) -> str | None:
    """What a cookie holds. Two cookies of this name are none: one of them was put there by another."""
    pairs = (pair.strip().partition("=") for header in request.headers.getlist("cookie") for pair in header.split(";"))
    found = [value for name, _, value in pairs if name == cookie]
    return found[0] if len(found) == 1 else None


class Doorkeeper:
    """Begins, finds and ends sign-ins. The methods block, so they belong in worker threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._keys, self._sign_ins = ApiKeys(ledger), SignIns(ledger)

    def begin(self, text: str, config: Config, now: datetime) -> tuple[str, SignIn] | None:
        """Sign in with an API key; None if it is none that is valid."""
        key = self._keys.find(text.strip(), now)
        if key is None or key.analyst not in config.analysts:
            return None
        return self._sign_ins.begin(key, config.console.session_hours, now)

    def begin_once(self, name: str, analyst: str, config: Config, now: datetime) -> tuple[str, SignIn] | None:
        """Sign in an analyst of the identity provider; None if there is none, or if this was done before."""
        if analyst not in config.analysts:
            return None
        role = config.analysts[analyst].role
        return self._sign_ins.begin_once(name, analyst, role, config.console.session_hours, now)

    def find(self, secret: str, config: Config, now: datetime) -> tuple[SignIn, Principal] | None:
        """The sign-in with this secret, if neither it nor what it came from nor its analyst has ended, and whose it is.

        What it came from is a key, or the provider of the configuration.
        """
        found = self._sign_ins.find(secret, now)
        if found is None or found.analyst not in config.analysts:
            return None
        if found.key is None and not config.service.has_provider:
            return None
        return found, self.principal(found, config)

    def principal(self, sign_in: SignIn, config: Config) -> Principal:
        """Whose a sign-in is. It gives the rights that both its key and the analyst's role in the file have."""
        role, limit = sort_roles(sign_in.role, config.analysts[sign_in.analyst].role)
        key = sign_in.key
        name, prefix = (None, None) if key is None else (key.id, key.prefix)
        return Principal(sign_in.analyst, role, name, sign_in.ends, limit, prefix)

    def end(self, secret: str, now: datetime) -> None:
        self._sign_ins.end(secret, now)
