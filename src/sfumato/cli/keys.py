"""`sfumato keys`: who may call the service. Opens the ledger and nothing else: no table, no noise key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.output import Commands, answering, now, paragraphs, read, show, with_config

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.config import Config, Role
    from sfumato.ledger.api_keys import ApiKey, ApiKeys

ROLES = ("analyst", "owner", "auditor")


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
    """Make, list and revoke the keys that analysts call the service with."""


@keys.command("create")
@click.option("--analyst", required=True, metavar="NAME", help="Who will call with it.")
@click.option("--role", type=click.Choice(ROLES), help="What it may do; by default the analyst's role in the file.")
@click.option("--expires", type=Expiry(), metavar="DAY", help="Its last day (UTC), or how long: 30d, 12h.")
@with_config
@answering
def create(as_json: bool, config: str, analyst: str, role: Role | None, expires: date | timedelta | None) -> None:
    """Make a key and show it, this once.

    Only its hash is kept. Without --expires it is valid until it is revoked. An auditor sees what everybody spent, and
    cannot ask; an owner may do both.

    \b
      sfumato keys create --analyst anna --expires 90d
    """
    moment = now()
    with _opened(config) as (settings, known):
        who = settings.analyst(analyst)
        text, key = known.create(analyst, role or who.role, _until(expires, moment), moment)
    show({"key": text, **key.to_dict()}, lambda: _made(text, key), as_json=as_json)


@keys.command("list")
@click.option("--analyst", metavar="NAME", help="One analyst; without it, all of them.")
@with_config
@answering
def listing(as_json: bool, config: str, analyst: str | None) -> None:
    """List the keys that were made.

    A key is shown by its first characters, which only tell it from others.

    \b
      sfumato keys list --analyst anna
    """
    moment = now()
    with _opened(config) as (settings, known):
        found = known.list(analyst)
        if analyst is not None and not found:
            settings.analyst(analyst)
    rows = [{**key.to_dict(), "state": key.state(moment)} for key in found]
    show({"rows": rows}, lambda: _listed(found, moment), as_json=as_json)


@keys.command("revoke")
@click.argument("id")
@with_config
@answering
def revoke(as_json: bool, config: str, id: str) -> None:  # noqa: A002
    """Revoke a key: from now on, every call with it is refused.

    ID is what `sfumato keys list` shows, not the key itself.

    \b
      sfumato keys revoke 5f0c2a9be471
    """
    with _opened(config) as (_, known):
        key = known.revoke(id, now())
    told = f"Revoked {key.id}, a key of {key.analyst}: it has not been valid since {_moment(key.revoked)}."
    show(key.to_dict(), lambda: paragraphs(told), as_json=as_json)


@contextmanager
def _opened(config: str) -> Iterator[tuple[Config, ApiKeys]]:
    from sfumato.ledger import open_ledger
    from sfumato.ledger.api_keys import ApiKeys

    settings = read(config)
    with open_ledger(settings.ledger, settings.folder) as ledger:
        yield settings, ApiKeys(ledger)


def _until(expires: date | timedelta | None, moment: datetime) -> date | datetime | None:
    return moment + expires if isinstance(expires, timedelta) else expires


def _made(text: str, key: ApiKey) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    until = "until it is revoked" if key.expires is None else f"until {_moment(key.expires)}"
    return Group(
        paragraphs(f"A key for {key.analyst}, role {key.role}, valid {until}:"),
        "",
        Text(f"  {text}", "bold", no_wrap=True, overflow="ignore"),
        "",
        paragraphs(
            "It is not shown again: only its hash is kept. Hand it over as you would a password.",
            f"To end it: sfumato keys revoke {key.id}",
        ),
    )


def _listed(found: Sequence[ApiKey], moment: datetime) -> RenderableType:
    from rich.table import Table

    from sfumato.cli.terminal import Words

    if not found:
        return paragraphs("There are no keys. To make one: sfumato keys create --analyst NAME")
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("id", "key", "analyst", "role", "made", "state"):
        grid.add_column(name, no_wrap=name not in ("analyst", "state"))
    for key in found:
        whose = Words(key.analyst, cropped=False)
        grid.add_row(key.id, key.prefix, whose, key.role, f"{key.created:%Y-%m-%d}", _state(key, moment))
    return grid


def _state(key: ApiKey, moment: datetime) -> str:
    """Whether it is valid, and the last day on which it is or was: that of the moment before its end."""
    state, end = key.state(moment), key.revoked or key.expires
    if end is None:
        return state
    return f"{'until' if state == 'valid' else state} {end - timedelta(microseconds=1):%Y-%m-%d}"


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
