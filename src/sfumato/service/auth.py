"""Authentication and rights.

A call carries `Authorization: Bearer <credential>`: an API key (`sfumato keys create`) or a token of the configured
identity provider. Both name an analyst of the configuration. Every failure gives the same 401. A right that the role
lacks gives the same 404 as a path that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from sfumato.config import RIGHTS, Config, Right, Role, sort_roles
from sfumato.errors import NotFound, Unauthorized
from sfumato.ledger.api_keys import START, ApiKeys
from sfumato.problems import find_problem_type
from sfumato.service.oidc import Fetch, KeySet, TokenVerifier, fetch


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. `key_id` and `prefix` name the API key, `until` is when it expires; None for a token.

    The caller has a right if `role` and `limit` both have it: a key has a role of its own, and cannot give more than
    the analyst's role in the file.
    """

    analyst: str
    role: Role
    key_id: str | None = None
    until: datetime | None = field(default=None, compare=False)
    limit: Role = "owner"
    prefix: str | None = field(default=None, compare=False)

    @property
    def rights(self) -> list[Right]:
        return [right for right, roles in RIGHTS.items() if {self.role, self.limit} <= roles]


def check_right(principal: Principal, right: Right) -> None:
    """Raise `NotFound`, as for an unknown path, if the principal lacks this right."""
    if not {principal.role, principal.limit} <= RIGHTS[right]:
        raise NotFound(find_problem_type("not-found").detail)


class Authenticator:
    """Finds the principal of an `Authorization` header. Thread-safe.

    A token may block on a fetch of the provider's keys, so `authenticate` belongs in a worker thread.
    """

    def __init__(self, config: Config, keys: ApiKeys, clock: Callable[[], datetime], *, fetch: Fetch = fetch) -> None:
        oidc = config.service.oidc
        self._analysts, self._keys, self._clock = config.analysts, keys, clock
        self._tokens = None if oidc is None else TokenVerifier(oidc, KeySet(oidc.jwks_url, fetch))

    def take(self, config: Config) -> None:
        """Know the analysts of this configuration from now on."""
        self._analysts = config.analysts

    def authenticate(self, authorization: str | None) -> Principal:
        """The principal of this header. Raises `Unauthorized`, with the same text for every reason."""
        scheme, _, credential = (authorization or "").partition(" ")
        principal = self._find(credential.strip(" ")) if scheme.lower() == "bearer" else None
        if principal is None:
            raise Unauthorized(find_problem_type("unauthorized").detail)
        return principal

    def _find(self, credential: str) -> Principal | None:
        now, analysts = self._clock(), self._analysts
        if credential.startswith(START):
            key = self._keys.find(credential, now)
            if key is None or key.analyst not in analysts:
                return None
            role, limit = sort_roles(key.role, analysts[key.analyst].role)
            return Principal(key.analyst, role, key.id, key.expires, limit, key.prefix)
        name = self._tokens.analyst(credential, now) if self._tokens else None
        return Principal(name, analysts[name].role) if name in analysts and name is not None else None
