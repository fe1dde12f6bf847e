"""A problem: an error as it travels (RFC 9457). `sfumato.problems` says which error is which problem."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from sfumato.accounting.charges import Charge
from sfumato.wire.base import Record


class Problem(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). Only `budget-exhausted` has `asked`, `left` and `resets`.

    `argument` and `nearest` are there where the detail names them, `line` and `column` where SQL cannot be read, and
    `try` where a request is the way out.
    """

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
    argument: Annotated[str | UnsetType, Meta(description="The argument, field or setting that is refused.")] = UNSET
    nearest: Annotated[str | UnsetType, Meta(description="The name that was probably meant.")] = UNSET
    line: Annotated[int | UnsetType, Meta(description="The line of SQL that cannot be read, from 1 on.")] = UNSET
    column: Annotated[int | UnsetType, Meta(description="The column there, from 1 on.")] = UNSET
    asked: Annotated[Charge | UnsetType, Meta(description="What the request can cost at most.")] = UNSET
    left: Annotated[Charge | UnsetType, Meta(description="What is left on the account that it does not fit.")] = UNSET
    resets: Annotated[
        date | UnsetType | None, Meta(description="First day of the account's next period; null if it never resets.")
    ] = UNSET
    instead: Annotated[list[dict[str, Any]] | UnsetType, Meta(description="Requests that can be sent instead.")] = (
        field(default=UNSET, name="try")
    )
