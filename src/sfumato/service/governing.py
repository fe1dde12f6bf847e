"""Keys and grants over HTTP. Making them is off until `[console] govern = true`; revoking a key always works."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from sfumato.accounting import Charge
from sfumato.accounting.charges import read_amount
from sfumato.config import Config
from sfumato.errors import GoverningOff, InvalidArgument, find_nearest
from sfumato.ledger import IdempotentCall
from sfumato.ledger.types import OWN, Actor
from sfumato.problems import find_problem_type
from sfumato.service.calls import Authenticated
from sfumato.service.limits import read_idempotency_key, read_object
from sfumato.session import Session
from sfumato.wire import AccountStanding, NewKey

MAX_KEY_DAYS = 90
MAX_REASON = 500  # characters
ROLES = ("analyst", "reader", "auditor")
"""The roles of keys that are made over HTTP: never an owner's."""

KEY_EXAMPLE = '{"analyst": "anna", "expires": "2026-12-31"}'
GRANT_EXAMPLE = '{"account": "anna", "information": "300", "calls": "3", "reason": "the board meets"}'


def create_key(session: Session, caller: Authenticated, body: bytes, key: str | None) -> NewKey:
    """Make a key that ends within MAX_KEY_DAYS. `key` is the idempotency key of the call."""
    check_governing(session.config)
    fields = read_fields(body, ("analyst", "role", "expires"), KEY_EXAMPLE)
    now, analyst = session.now(), read_text(fields, "analyst")
    role = fields.get("role") or session.config.analyst(analyst).role
    if role not in ROLES:
        raise InvalidArgument("role", f"must be one of {', '.join(ROLES)}", nearest=find_nearest(role, ROLES))
    expires = read_end(fields.get("expires"), now)
    once = read_call(caller, body, key)
    return session.create_key(analyst, role, expires, by=actor_of(caller), call=once)


def grant(session: Session, caller: Authenticated, body: bytes, key: str | None) -> AccountStanding:
    """Grant to an account. `key` is the idempotency key of the call."""
    check_governing(session.config)
    fields = read_fields(body, ("account", "information", "calls", "reason"), GRANT_EXAMPLE)
    reason = read_text(fields, "reason")
    if len(reason) > MAX_REASON:
        raise InvalidArgument("reason", f"must be at most {MAX_REASON} characters")
    amount = Charge(*(read_addend(fields, name) for name in ("information", "calls")))
    once = read_call(caller, body, key)
    return session.grant(read_text(fields, "account"), amount, reason, by=actor_of(caller), call=once)


def check_governing(config: Config) -> None:
    """Raise unless the configuration allows to make keys and grants over HTTP."""
    if not config.console.govern:
        raise GoverningOff(find_problem_type("governing-off").detail)


def actor_of(caller: Authenticated) -> Actor:
    return Actor(analyst=caller.analyst, key=caller.principal.key_id or "")


def read_call(caller: Authenticated, body: bytes, key: str | None) -> tuple[str, IdempotentCall] | None:
    """The idempotent call, if it has a key: a repeat changes nothing."""
    once = read_idempotency_key(key)
    return None if once is None else (OWN + caller.analyst, IdempotentCall.of(once, body))


def read_fields(body: bytes, known: Collection[str], example: str) -> Mapping[str, Any]:
    """The fields of a body; one that is not known is refused."""
    content = read_object(body, example)
    for name in content:
        if name not in known:
            near = find_nearest(name, known)
            raise InvalidArgument(name[:60], f"is not a field; there is {', '.join(known)}", nearest=near)
    return content


def read_text(fields: Mapping[str, Any], name: str) -> str:
    """A text of visible characters that is not empty."""
    text = fields.get(name)
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise InvalidArgument(name, "must be text that is not empty")
    return text


def read_addend(fields: Mapping[str, Any], name: str) -> Fraction:
    """An exact amount that is not negative; nothing, if it is left out."""
    amount = read_amount(name, fields.get(name, "0"))
    if amount < 0:
        raise InvalidArgument(name, "must not be negative: a grant adds to a budget")
    return amount


def read_end(text: Any, now: datetime) -> date | datetime:
    """The last day of a key; without one, as late as it may end."""
    latest = now + timedelta(days=MAX_KEY_DAYS)
    if text is None:
        return latest
    try:
        day = date.fromisoformat(text) if isinstance(text, str) and len(text) == len("2026-12-31") else None
    except ValueError:
        day = None
    if day is None:
        raise InvalidArgument("expires", "must be a day, such as 2026-12-31")
    if day >= latest.date():
        raise InvalidArgument("expires", f"must be within {MAX_KEY_DAYS} days")
    return day
