"""Questions, and those to reports, as the JSON that the service reads.

What cannot be carried exactly is refused here, with the class and, where they fit, the words of embedded use.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from sfumato.errors import NotSupported
from sfumato.query.predicate import AllOf, AnyOf, Cut, In, Predicate, Values
from sfumato.query.values import read_value
from sfumato.types import MAX_INTEGER

if TYPE_CHECKING:
    from sfumato.query.request import Request

    RequestLike: TypeAlias = str | Request | Mapping[str, Any]

# As in sfumato.query.request, which is not imported for them: it brings the mechanisms, and they numpy.
MAX_LEVELS, MAX_NODES = 60, 10_000
_TYPES = {"TopK": "top_k", "Histogram": "histogram", "Total": "total"}
_LISTS = (list, tuple, set, frozenset)

_QUESTION = "a question is SQL, a TopK, a Histogram or a Total, or one of these as a dictionary"
_OBJECT = "a request is an object: {'type': 'top_k', 'table': ..., ...} or {'sql': 'SELECT ...'}"
_FILTER = "where: a filter maps columns to what they are compared with, such as {'region': 'emea'}"
_DEEP = "where is nested more than 20 deep; flatten it"
_LONG = f"where has more than {MAX_NODES} parts; ask for ranges instead of lists"

_UNSENT = "the question holds what JSON does not: a number without end, or itself"


def body_of(question: RequestLike) -> bytes:
    """The body of a POST that asks `question`."""
    try:
        return json.dumps(_object_of(question), ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        raise NotSupported("the question holds half a character (a lone surrogate), which is not text") from None


def report_body(report: str | Mapping[str, Any] | None, named: Mapping[str, Any]) -> bytes:
    """The body of a POST that asks for a report: a whole question, or a report by its name and what is `named`."""
    given = {name: value for name, value in named.items() if value is not None}
    if isinstance(report, Mapping) and given:
        raise NotSupported(f"{next(iter(given))}: stands beside a whole question; put it inside")
    question = report if isinstance(report, Mapping) else {"report": report, **given}
    try:
        return json.dumps(_carried("report", question), ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        raise NotSupported("the question holds half a character (a lone surrogate), which is not text") from None
    except (ValueError, RecursionError):
        raise NotSupported(_UNSENT) from None


def _carried(name: str, value: Any) -> Any:
    """A part of a question to a report as JSON has it; days and moments as they are written."""
    if isinstance(value, Mapping):
        if not all(isinstance(inner, str) for inner in value):
            raise NotSupported(f"{name[:60]}: must have names that are text")
        return {str.__str__(inner): _carried(inner, held) for inner, held in value.items()}
    if isinstance(value, list | tuple):
        return [_carried(name, item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return str.__str__(value)  # an enum of text counts by its value
    if value is None or isinstance(value, int | float):
        return value
    raise NotSupported(f"{name[:60]}: is of a kind that a report does not know; it is text, a number, a list or a day")


def _object_of(question: RequestLike) -> dict[str, Any]:
    if isinstance(question, str):
        return {"sql": str.__str__(question)}
    if not isinstance(question, Mapping):
        question = _fields_of(question)
    if not all(isinstance(name, str) for name in question):
        raise NotSupported(_OBJECT)
    _check_size(question.get("where"))
    return {str.__str__(name): _plain(name, value) for name, value in question.items()}


def _fields_of(question: Request) -> dict[str, Any]:
    """A request in Python as its JSON fields; those that have their default are left out."""
    asking = sys.modules.get("sfumato.query.request")  # whoever has a request has loaded it
    if asking is None or not isinstance(question, asking.Request):
        raise NotSupported(_QUESTION)
    given = {field.name: getattr(question, field.name) for field in fields(question)}
    usual = {field.name: field.default for field in fields(question)}
    told = {name: value for name, value in given.items() if value is not usual[name]}
    if isinstance(question.where, In | AllOf | AnyOf):
        told["where"] = asking.written(_exact_tree(question.where))
    return {"type": _TYPES[type(question).__name__], **told}


def _check_size(where: object) -> None:
    """Depth and size of a filter, before anything recurses over it."""
    level, seen = [where], 0
    for _ in range(MAX_LEVELS):
        level = [inner for outer in level for inner in _inside(outer)]
        seen += len(level)
        if seen > MAX_NODES:
            raise NotSupported(_LONG)
        if not level:
            return
    raise NotSupported(_DEEP)


def _inside(node: object) -> Sequence[Any]:
    if isinstance(node, Mapping):
        return list(node.values())
    return list(node) if isinstance(node, _LISTS) else ()


def _plain(name: str, value: Any) -> Any:
    """A value as JSON has it; `name` is the field or the column that it belongs to."""
    if isinstance(value, Mapping):
        if not all(isinstance(inner, str) for inner in value):
            raise NotSupported(_FILTER)
        owner = name if name not in ("where", "and", "or", "not") else ""
        return {str.__str__(inner): _plain(owner or inner, held) for inner, held in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(name, item) for item in value), key=json.dumps)
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # an enum of text counts by its value
    if isinstance(value, date):
        return _moment(name, value).isoformat()
    if isinstance(value, Integral | float | Decimal | Fraction):
        return _number(name, value)
    raise NotSupported(f"{name[:60]} is compared with something that is not text, a number, TRUE, FALSE or a date")


def _moment(name: str, value: date) -> date:
    read = read_value(name[:60], "timestamp" if isinstance(value, datetime) else "date", value)
    assert isinstance(read, date)  # noqa: S101 - for the type checker
    return read


def _number(name: str, value: Any) -> int | float:
    """An int or a double that the service reads as the very number: JSON has no others that everybody keeps."""
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        raise NotSupported(f"{name[:60]} is compared with something that is not a number, such as 0.5")
    if abs(value) <= MAX_INTEGER and value == int(value):
        return float(value) if isinstance(value, float) else int(value)
    try:
        double = float(value)
        exact = isinstance(value, float) or type(value)(repr(double)) == value
    except (OverflowError, ValueError, TypeError):
        exact = False
    if not exact or not math.isfinite(double):
        raise NotSupported(f"{name[:60]} is compared with a number of more digits than JSON keeps; write it as text")
    return double


def _exact_tree(where: Predicate) -> Predicate:
    """A filter whose numbers are Fractions, as its written form needs them."""
    if not isinstance(where, In):
        return type(where)(tuple(map(_exact_tree, where.parts)))

    def cut(at: Cut) -> Cut:
        inexact = isinstance(at.value, float | Decimal | Fraction)
        return Cut(read_value(where.column, "number", at.value), at.side) if inexact else at

    return In(where.column, Values(tuple((cut(low), cut(high)) for low, high in where.values.intervals)))
