"""Pages of `sfumato keys`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.console import Group, RenderableType

from sfumato.cli.terminal.tables import plain_table
from sfumato.cli.terminal.text import Words, copy_line, paragraphs
from sfumato.ledger.api_keys import ApiKey


def render_new_key(text: str, key: ApiKey) -> RenderableType:
    """The key itself, which is shown only here."""
    until = "until it is revoked" if key.expires is None else f"until {minute(key.expires)}"
    return Group(
        paragraphs(f"A key for {key.analyst}, role {key.role}, valid {until}:"),
        "",
        copy_line(text),
        "",
        paragraphs(
            "It is not shown again: only its hash is kept. Hand it over as you would a password.",
            f"To end it: sfumato keys revoke {key.id}",
        ),
    )


def render_keys(keys: Sequence[ApiKey], moment: datetime) -> RenderableType:
    """Keys by their first characters, with the last day on which each is or was valid."""
    if not keys:
        return paragraphs("There are no keys. To make one: sfumato keys create --analyst NAME")
    grid = plain_table("id", "key", "analyst", "role", "made", "state", whole=(0, 1, 3, 4))
    for key in keys:
        state, end = key.state(moment), key.revoked or key.expires
        # `end` is exclusive: the last valid day is that of the moment before it.
        last = "" if end is None else f" {end - timedelta(microseconds=1):%Y-%m-%d}"
        words = f"{'until' if last and state == 'valid' else state}{last}"
        whose = Words(key.analyst, cropped=False)
        grid.add_row(key.id, key.prefix, whose, key.role, f"{key.created:%Y-%m-%d}", words)
    return grid


def render_revocation(key: ApiKey) -> RenderableType:
    since = "" if key.revoked is None else f": it has not been valid since {minute(key.revoked)}"
    return paragraphs(f"Revoked {key.id}, a key of {key.analyst}{since}.")


def minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
