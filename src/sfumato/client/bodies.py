"""Questions as the JSON that the service reads.

What JSON cannot carry exactly is refused here, with the class and, where they fit, the words of embedded use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, get_args

from sfumato.errors import InvalidArgument, NotSupported
from sfumato.query.parameters import Params, params_json
from sfumato.query.predicate import AllOf, AnyOf, Cut, In, Predicate, Values
from sfumato.query.reports.request import ReportKeywords, report_question
from sfumato.query.request import (
    NOT_A_FILTER,
    NOT_A_REQUEST,
    NOT_AN_OBJECT,
    Request,
    RequestLike,
    check_size,
    filter_json,
)
from sfumato.query.values import json_value, read_value
from sfumato.types import MAX_INTEGER


def request_body(request: RequestLike, params: Params | None = None) -> bytes:
    """The body of a POST that asks `request`, with the values of its parameters."""
    if isinstance(request, str):
        request = {"sql": str.__str__(request)}
    serial = request if isinstance(request, Mapping) else _request_json(request)
    if not all(isinstance(name, str) for name in serial):
        raise NotSupported(NOT_AN_OBJECT)
    check_size(serial.get("where"))
    body = {str.__str__(name): _json(name, value) for name, value in serial.items() if name != "params"}
    given = serial.get("params")
    if params is not None and given is not None:
        raise InvalidArgument("params", "stand in the request already; leave one of them out")
    values = given if params is None else params
    return encode_body(body if values is None else {**body, "params": params_json(values)})


def report_body(report: str | Mapping[str, Any] | None, keywords: ReportKeywords) -> bytes:
    """The body of a POST that asks for a report."""
    try:
        return encode_body(_report_json("report", report_question(report, keywords)))
    except (ValueError, RecursionError):
        raise NotSupported("the question holds what JSON does not: a number without end, or itself") from None


def encode_body(serial: Any) -> bytes:
    """JSON in UTF-8, without numbers and characters that other readers refuse."""
    try:
        return json.dumps(serial, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        raise NotSupported("the question holds half a character (a lone surrogate), which is not text") from None


def _report_json(name: str, value: Any) -> Any:
    """A part of a question to a report as JSON has it. Days and moments are ISO 8601."""
    if isinstance(value, Mapping):
        if not all(isinstance(inner, str) for inner in value):
            raise NotSupported("must have names that are text", field=name[:60])
        return {str.__str__(inner): _report_json(inner, held) for inner, held in value.items()}
    if isinstance(value, list | tuple):
        return [_report_json(name, item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return str.__str__(value)  # an enum of text counts by its value
    if value is None or isinstance(value, int | float):
        return value
    raise NotSupported("must be text, a number, a list or a day", field=name[:60])


def _request_json(request: Request) -> dict[str, Any]:
    """A request in Python as its JSON fields; those that have their default are left out."""
    if not isinstance(request, get_args(Request)):
        raise NotSupported(NOT_A_REQUEST)
    given = {field.name: getattr(request, field.name) for field in fields(request)}
    usual = {field.name: field.default for field in fields(request)}
    serial = {name: value for name, value in given.items() if value is not usual[name]}
    if isinstance(request.where, In | AllOf | AnyOf):
        serial["where"] = filter_json(_with_fractions(request.where))
    return {"type": request.kind, **serial}


def _json(name: str, value: Any) -> Any:
    """A part of a request as JSON has it; `name` is the field or the column that it belongs to."""
    if isinstance(value, Mapping):
        if not all(isinstance(inner, str) for inner in value):
            raise NotSupported(NOT_A_FILTER, field="where")
        owner = name if name not in ("where", "and", "or", "not") else ""
        return {str.__str__(inner): _json(owner or inner, held) for inner, held in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_json(name, item) for item in value), key=json.dumps)
    if isinstance(value, list | tuple):
        return [_json(name, item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # an enum of text counts by its value
    if isinstance(value, date):
        return json_value(read_value(name[:60], "timestamp" if isinstance(value, datetime) else "date", value))
    if isinstance(value, Integral | float | Decimal | Fraction):
        return _number(name[:60], value)
    raise NotSupported(f"{name[:60]} is compared with something that is not text, a number, TRUE, FALSE or a date")


def _number(name: str, value: Any) -> int | float:
    """An int or a double that the service reads as the very same number. Other numbers, JSON readers may round."""
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        raise NotSupported(f"{name} is compared with something that is not a number, such as 0.5")
    if abs(value) <= MAX_INTEGER and value == int(value):
        return float(value) if isinstance(value, float) else int(value)
    try:
        double = float(value)
        exact = isinstance(value, float) or type(value)(repr(double)) == value
    except (OverflowError, ValueError, TypeError):
        exact = False
    if not exact or not math.isfinite(double):
        raise NotSupported(f"{name} is compared with a number of more digits than JSON keeps; write it as text")
    return double


def _with_fractions(where: Predicate) -> Predicate:
    """A filter whose numbers are Fractions, as `filter_json` needs them."""
    if not isinstance(where, In):
        return type(where)(tuple(map(_with_fractions, where.parts)))

    def cut(at: Cut) -> Cut:
        inexact = isinstance(at.value, float | Decimal | Fraction)
        return Cut(read_value(where.column, "number", at.value), at.side) if inexact else at

    return In(where.column, Values(tuple((cut(low), cut(high)) for low, high in where.values.intervals)))
