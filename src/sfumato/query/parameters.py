"""Parameters of a question in SQL: the values that stand for `?` and `:name`.

    ask("... WHERE region = ? AND day >= ? ...", params=["emea", date(2026, 11, 1)])
    ask("... WHERE region = :region LIMIT :k", params={"region": "emea", "k": 10})

As JSON a value is text, a number, true or false, or an object that names its type, such as {"date": "2026-11-01"}.

The client needs this module, so it reads no SQL. `sfumato.query.sql.binding` puts the values into the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, TypeAlias

from sfumato.errors import InvalidArgument
from sfumato.query.values import MAX_EXACT, decimal
from sfumato.types import TYPES, TooManyDigits, Type, Value

Params: TypeAlias = list[Any] | tuple[Any, ...] | Mapping[str, Any]
"""The values: a list, one for each `?` in their order, or by name, one for each `:name`."""

_FORM = "must be a list with a value for each ?, or an object with a value for each :name"
_VALUE = "must be text, a number, true or false, a date or a timestamp"


def read_params(params: Any) -> dict[str, Value]:
    """The values by what refusals call them: `:region` by name, `?2` by place."""
    if isinstance(params, Mapping):
        if not all(isinstance(name, str) for name in params):
            raise InvalidArgument("params", "must have names that are text, such as {'region': 'emea'}")
        return {f":{name}": read_parameter(f":{name[:60]}", raw) for name, raw in params.items()}
    if not isinstance(params, list | tuple):
        raise InvalidArgument("params", _FORM)
    return {f"?{place}": read_parameter(f"?{place}", raw) for place, raw in enumerate(params, 1)}


def read_parameter(name: str, raw: Any) -> Value:
    """The value of one parameter. The refusal has its name, and not the value."""
    kind, given = _find_type(name, raw)
    row = TYPES[kind]
    try:
        return row.read(given)
    except TooManyDigits as error:
        raise InvalidArgument("params", f"{name} is {error}") from None
    except (ValueError, TypeError, ArithmeticError):
        raise InvalidArgument("params", f"{name} is not {row.words}, such as {row.example}") from None


def _find_type(name: str, raw: Any) -> tuple[Type, Any]:
    """The type of a raw value, and what is read as this type."""
    if raw is None:
        null = "is NULL, and a comparison with NULL is true of no row; write `column IS NULL` in the statement"
        raise InvalidArgument("params", f"{name} {null}")
    if isinstance(raw, Mapping):
        if len(raw) == 1 and (kind := next(iter(raw))) in TYPES:
            return TYPES[kind].name, raw[kind]
        known = ", ".join(TYPES)
        raise InvalidArgument("params", f'{name} must name its type, as in {{"date": "2026-11-15"}}; there is {known}')
    kinds: tuple[tuple[type | tuple[type, ...], Type], ...] = (
        (bool, "boolean"),
        (str, "text"),
        (datetime, "timestamp"),
        (date, "date"),
        (Integral, "integer"),
        ((float, Decimal, Fraction), "number"),
    )
    for classes, kind in kinds:
        if isinstance(raw, classes):
            return kind, raw
    raise InvalidArgument("params", f"{name} {_VALUE}")


def params_json(params: Any) -> list[Any] | dict[str, Any]:
    """Parameters as JSON has them, exactly: `read_params` reads the same values back."""
    values = [_json(value) for value in read_params(params).values()]
    return dict(zip(params, values, strict=True)) if isinstance(params, Mapping) else values


def _json(value: Value) -> Any:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, date):
        return {"timestamp" if isinstance(value, datetime) else "date": value.isoformat()}
    if isinstance(value, int):
        return value if abs(value) <= MAX_EXACT else {"integer": str(value)}
    return {"number": decimal(value)}
