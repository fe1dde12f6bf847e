"""The pages of keys and grants: what there is, making, revoking and granting.

Making and granting need `[console] govern` and a sign-in of the latest minutes. Revoking always works: it takes away.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any

from starlette.responses import RedirectResponse, Response

from sfumato.errors import Conflict, GoverningOff, InvalidArgument, NotFound
from sfumato.ledger import all_accounts
from sfumato.service import governing
from sfumato.web.frame import PageCall
from sfumato.web.owner_pages import MAX_LISTED, asked, describe_refusal, listed_analysts, moment, owner_page
from sfumato.web.rendering import HEADERS, render
from sfumato.wire import ActorInfo, KeyState

FRESH = timedelta(minutes=10)
"""A sign-in is not older than this where keys and grants are made."""

SOON = timedelta(days=14)
MAX_ROWS = 500

STALE = (
    "This needs a sign-in of the last ten minutes, with a key, so nothing was done. "
    "Sign in again, and send it once more."
)
REFUSALS = (InvalidArgument, NotFound, GoverningOff, Conflict)


def show_keys(call: PageCall) -> Response:
    return _keys_page(call)


def make_key(call: PageCall) -> Response:
    """Make a key, and show it in this reply and nowhere else: no address leads to it."""
    fields = {name: call.first(name).strip() or None for name in ("analyst", "role", "expires")}
    body = json.dumps(fields).encode()
    if _is_stale(call):
        return _keys_page(call, STALE, 403)
    try:
        made = governing.create_key(call.session, call.caller, body, _once(call, body))
    except REFUSALS as error:
        return _keys_page(call, *describe_refusal(call, error))
    return render("new_key.html", title="A new key", key=made.key, made=_key_row(call, made))


def _keys_page(call: PageCall, refused: str = "", status: int = 200) -> Response:
    """The keys, the latest first. What was typed and refused is still in the form."""
    chosen = asked(call, "analyst")
    rows = [_key_row(call, each) for each in reversed(call.session.keys(chosen["analyst"]).rows)]
    config, now = call.session.config, call.session.now()
    return owner_page(
        call,
        "keys.html",
        "Keys",
        status,
        here="/keys",
        rows=rows[:MAX_ROWS],
        more=max(len(rows) - MAX_ROWS, 0),
        chosen=chosen,
        soon=[row for row in rows if row["is_soon"]],
        analysts=listed_analysts(call),
        roles=governing.ROLES,
        most_days=governing.MAX_KEY_DAYS,
        latest=(now + timedelta(days=governing.MAX_KEY_DAYS - 1)).date(),
        today=now.date(),
        typed={name: call.first(name) for name in ("analyst", "role", "expires")},
        can_govern=call.may("govern"),
        is_on=config.console.govern,
        is_stale=_is_stale(call),
        refused=refused,
    )


def _key_row(call: PageCall, key: KeyState) -> dict[str, Any]:
    expires, now = moment(key.expires), call.session.now()
    return {
        "id": key.id,
        "prefix": key.prefix,
        "analyst": key.analyst,
        "role": key.role,
        "state": key.state,
        "created": moment(key.created),
        "created_by": _actor(key.created_by),
        "expires": expires,
        "revoked": moment(key.revoked),
        "revoked_by": _actor(key.revoked_by),
        "is_soon": key.state == "valid" and expires is not None and expires - now <= SOON,
        "is_own": key.id == call.caller.principal.key_id,
    }


def _actor(actor: ActorInfo | None) -> str:
    return "" if actor is None else actor.analyst or actor.user


def show_revoke(call: PageCall) -> Response:
    """Ask before a key is revoked, and name what ends."""
    name = call.request.path_params["id"]
    key = next((each for each in call.session.keys().rows if each.id == name), None)
    if key is None:
        raise NotFound("there is no such key")
    return owner_page(call, "revoke.html", "Revoke a key", here="/keys", key=_key_row(call, key))


def revoke_key(call: PageCall) -> Response:
    call.session.revoke_key(call.request.path_params["id"], by=governing.actor_of(call.caller))
    return RedirectResponse("/keys", 303, HEADERS)


# -- grants --


def show_grant(call: PageCall) -> Response:
    return _grant_page(call)


def grant(call: PageCall) -> Response:
    fields = {name: call.first(name).strip() or "0" for name in ("information", "calls")}
    fields |= {name: call.first(name).strip() for name in ("account", "reason")}
    body = json.dumps(fields).encode()
    if _is_stale(call):
        return _grant_page(call, STALE, 403)
    try:
        governing.grant(call.session, call.caller, body, _once(call, body))
    except REFUSALS as error:
        return _grant_page(call, *describe_refusal(call, error))
    return RedirectResponse("/overview", 303, HEADERS)


def _grant_page(call: PageCall, refused: str = "", status: int = 200) -> Response:
    names = [*all_accounts(call.session.config)]
    return owner_page(
        call,
        "grant.html",
        "Grant",
        status,
        here="/overview",
        accounts=names if len(names) <= MAX_LISTED else [],
        typed={
            "account": call.first("account") or call.request.query_params.get("account", ""),
            **{name: call.first(name) for name in ("information", "calls", "reason")},
        },
        most_reason=governing.MAX_REASON,
        is_on=call.session.config.console.govern,
        is_stale=_is_stale(call),
        refused=refused,
    )


# -- what both need --


def _is_stale(call: PageCall) -> bool:
    """Whether governing is allowed, but not with this sign-in: it is too old, or it came from the identity provider.

    The provider may sign in again without asking, so its sign-in does not show that the owner is still there.
    """
    is_old = call.session.now() - call.sign_in.began > FRESH
    return call.session.config.console.govern and (is_old or call.sign_in.key is None)


def _once(call: PageCall, body: bytes) -> str | None:
    """The idempotency key of a form, bound to what it says: the same form sent twice is one call."""
    once = call.first("once")
    return hashlib.sha256(once.encode() + body).hexdigest() if once else None
