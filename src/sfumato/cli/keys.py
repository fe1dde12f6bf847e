"""`sfumato keys`: the keys that the service accepts. Opens the ledger and nothing else: no table, no noise key."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.books import open_books
from sfumato.cli.options import with_config
from sfumato.cli.output import Commands, now, print_result, with_json
from sfumato.errors import InvalidArgument

if TYPE_CHECKING:
    from sfumato.config import Role

ROLES = ("analyst", "reader", "owner", "auditor")


class Expiry(click.ParamType[date | timedelta]):
    """A day, or how long from now: 2026-12-31, 30d or 12h."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date | timedelta:
        if isinstance(value, date | timedelta):
            return value
        if length := re.fullmatch("([0-9]{1,5})([dh])", value):
            return int(length[1]) * timedelta(hours=24 if length[2] == "d" else 1)
        try:
            return datetime.strptime(value, "%Y-%m-%d").date()
        except ValueError:
            return self.fail("write a day such as 2026-12-31, or how long: 30d, 12h", param, ctx)


@click.group("keys", cls=Commands)
def keys() -> None:
    """Create, list and revoke the keys with which analysts call the service."""


@keys.command("create")
@click.option("--analyst", required=True, metavar="NAME", help="Who calls with it.")
@click.option("--role", type=click.Choice(ROLES), help="What it may do; by default the analyst's role in the file.")
@click.option("--expires", type=Expiry(), metavar="DAY", help="Its last day (UTC), or how long: 30d, 12h.")
@with_config
@with_json
def create(as_json: bool, config: str, analyst: str, role: Role | None, expires: date | timedelta | None) -> None:
    """Create a key and show it, this once.

    Only its hash is kept. Without --expires it is valid until it is revoked. A reader has reports and no questions; an
    auditor sees what all analysts spent and cannot ask; an owner may do all. A key gives no right that the analyst's
    role in the file does not have.

    \b
      sfumato keys create --analyst anna --expires 90d
    """
    from sfumato.cli.terminal.keys import render_new_key
    from sfumato.ledger.api_keys import TOO_FAR, ApiKeys
    from sfumato.ledger.types import current_user
    from sfumato.wire import KeyRow

    moment = now()
    try:
        until = moment + expires if isinstance(expires, timedelta) else expires
    except OverflowError:
        raise InvalidArgument("--expires", TOO_FAR) from None
    with open_books(config) as (settings, ledger):
        who = settings.analyst(analyst)
        text, key = ApiKeys(ledger).create(analyst, role or who.role, until, moment, by=current_user())
    print_result({"key": text, **KeyRow.of_key(key).to_dict()}, lambda: render_new_key(text, key), as_json=as_json)


@keys.command("list")
@click.option("--analyst", metavar="NAME", help="One analyst; without it, all of them.")
@with_config
@with_json
def list_keys(as_json: bool, config: str, analyst: str | None) -> None:
    """List the keys that were created.

    A key is shown by its first characters: enough to tell it from others, and not enough to use it.

    \b
      sfumato keys list --analyst anna
    """
    from sfumato.cli.terminal.keys import render_keys
    from sfumato.ledger.api_keys import ApiKeys
    from sfumato.wire import Keys, KeyState

    moment = now()
    with open_books(config) as (settings, ledger):
        api_keys = ApiKeys(ledger).list(analyst)
        if analyst is not None and not api_keys:
            settings.analyst(analyst)
    listed = Keys([KeyState.at(key, moment) for key in api_keys])
    print_result(listed.to_dict(), lambda: render_keys(api_keys, moment), as_json=as_json)


@keys.command("revoke")
@click.argument("id")
@with_config
@with_json
def revoke(as_json: bool, config: str, id: str) -> None:  # noqa: A002
    """Revoke a key: from now on, every call with it is refused.

    ID is what `sfumato keys list` shows, not the key itself.

    \b
      sfumato keys revoke 5f0c2a9be471
    """
    from sfumato.cli.terminal.keys import render_revocation
    from sfumato.ledger.api_keys import ApiKeys
    from sfumato.ledger.types import current_user
    from sfumato.wire import KeyRow

    with open_books(config) as (_, ledger):
        key = ApiKeys(ledger).revoke(id, now(), by=current_user())
    print_result(KeyRow.of_key(key).to_dict(), lambda: render_revocation(key), as_json=as_json)
