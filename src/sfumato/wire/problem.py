"""A problem: an error as it travels (RFC 9457). `sfumato.problems` says which error is which problem."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from sfumato.accounting.charges import Charge
from sfumato.wire.base import Record


class Problem(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). Only `budget-exhausted` has `asked`, `left`, `resets` and `try`."""

    type: Annotated[
        str,
        Meta(
            description="The path of a page that says what to do.",
            extra_json_schema={"format": "uri-reference"},
        ),
    ]
    title: str
    status: int
    detail: str
    asked: Annotated[Charge | UnsetType, Meta(description="What the request can cost at most.")] = UNSET
    left: Annotated[Charge | UnsetType, Meta(description="What is left on the account that it does not fit.")] = UNSET
    resets: Annotated[
        date | UnsetType | None, Meta(description="First day of the account's next period; null if it never resets.")
    ] = UNSET
    instead: Annotated[list[dict[str, Any]] | UnsetType, Meta(description="Smaller requests that would fit now.")] = (
        field(default=UNSET, name="try")
    )
