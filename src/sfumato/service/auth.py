"""Who asks, and what they may do.

A call carries `Authorization: Bearer <key>`: a key of `sfumato keys create`, or a token of the configured identity
provider. Either names an analyst of the configuration. Whatever is wrong with it, the refusal is the same; and what a
role may not do looks like what does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from sfumato.config import Config, Role
from sfumato.errors import NotFound, Unauthorized
from sfumato.ledger.api_keys import START, ApiKeys
from sfumato.problems import find_problem_type
from sfumato.service.oidc import Fetch, KeySet, TokenVerifier, fetch

Right: TypeAlias = Literal["ask", "report", "estimate", "look", "usage"]

RIGHTS: Mapping[Right, frozenset[Role]] = {
    "ask": frozenset({"analyst", "owner"}),
    "report": frozenset({"analyst", "owner"}),
    "estimate": frozenset({"analyst", "owner", "auditor"}),
    "look": frozenset({"analyst", "owner", "auditor"}),
    "usage": frozenset({"owner", "auditor"}),
}
"""Who may spend, have reports (of the entities that are hers), see what a question would cost, see what is her own
(budget, charges, answers) and the tables, and see what everybody spent."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `key_id` is the key she came with, and `until` the moment at which it expires; a token has neither."""

    analyst: str
    role: Role
    key_id: str | None = None
    until: datetime | None = field(default=None, compare=False)


def check(person: Principal, right: Right) -> None:
    """Refuse what this role may not do, as if there were no such thing."""
    if person.role not in RIGHTS[right]:
        raise NotFound(find_problem_type("not-found").detail)


class Authenticator:
    """Lets in whoever has a valid key or token. Thread-safe; a token may wait for the provider's keys, so that
    `admit` belongs into a thread that may wait."""

    def __init__(self, config: Config, keys: ApiKeys, clock: Callable[[], datetime], *, fetch: Fetch = fetch) -> None:
        oidc = config.service.oidc
        self._analysts, self._keys, self._clock = config.analysts, keys, clock
        self._tokens = None if oidc is None else TokenVerifier(oidc, KeySet(oidc.jwks_url, fetch))

    def admit(self, authorization: str | None) -> Principal:
        """Who sends this header, or `Unauthorized`, in the same words for all."""
        scheme, _, credential = (authorization or "").partition(" ")
        person = self._person(credential.strip(" ")) if scheme.lower() == "bearer" else None
        if person is None:
            raise Unauthorized(find_problem_type("unauthorized").detail)
        return person

    def _person(self, credential: str) -> Principal | None:
        now = self._clock()
        if credential.startswith(START):
            key = self._keys.find(credential, now)
            known = key is not None and key.analyst in self._analysts
            return Principal(key.analyst, key.role, key.id, key.expires) if key and known else None
        name = self._tokens.analyst(credential, now) if self._tokens else None
        return Principal(name, self._analysts[name].role) if name in self._analysts and name is not None else None
