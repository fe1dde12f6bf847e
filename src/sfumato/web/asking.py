"""The form of a question: from what was chosen or typed to a request, and back where the form can say it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from sfumato.errors import InvalidArgument, Refused
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.predicate import ALL_VALUES, EVERYTHING, AllOf, Cut, In, Predicate, Values
from sfumato.query.request import Histogram, Request, TopK, Total
from sfumato.query.serial import read_question, read_request
from sfumato.query.sql.write import write_sql
from sfumato.query.values import json_value
from sfumato.types import Value

Fields: TypeAlias = Mapping[str, Sequence[str]]
Comparison: TypeAlias = Literal["in", "not in", "ge", "gt", "le", "lt"]

COMPARISONS: Mapping[Comparison, str] = {
    "in": "is one of",
    "not in": "is none of",
    "ge": "is at least, or from",
    "gt": "is more than, or after",
    "le": "is at most, or up to",
    "lt": "is less than, or before",
}
SHAPES: Mapping[str, str] = {
    "top_k": "the largest groups",
    "histogram": "every group",
    "total": "the total",
}
LEAST_CONDITIONS = 2  # lines of the form for conditions, of which some are empty
MAX_CONDITIONS = 20


@dataclass(frozen=True, slots=True)
class Condition:
    """One line of the form: a column, how it is compared, and with what."""

    column: str = ""
    comparison: Comparison = "in"
    value: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What the page of questions holds: the two ways to say it, and which of them counts."""

    way: Literal["form", "sql"] = "form"
    sql: str = ""
    table: str = ""
    shape: str = "top_k"
    by: tuple[str, ...] = ()
    measure: str = ""
    k: str = "10"
    counts: bool = True
    conditions: tuple[Condition, ...] = field(default=())

    @property
    def lines(self) -> tuple[Condition, ...]:
        """The conditions, and one that is empty."""
        spare = max(1, LEAST_CONDITIONS - len(self.conditions))
        return (*self.conditions, *[Condition()] * spare)[:MAX_CONDITIONS]

    def request(self, policy: Policy) -> dict[str, Any]:
        """The request that is sent. Values are texts, which are read by the types of their columns."""
        if self.way == "sql":
            return {"sql": self.sql}
        table = policy.table(self.table)
        serial: dict[str, Any] = {"type": self.shape, "table": table.name, "measure": self.measure}
        if self.shape != "total":
            serial["by"] = self.by[0] if len(self.by) == 1 else [*self.by]
        if self.shape == "top_k":
            serial |= {"k": _read_whole("k", self.k), "counts": self.counts}
        clauses = [_clause(each, table) for each in self.conditions]
        return serial | ({"where": {"and": clauses}} if clauses else {})


def read_fields(fields: Fields) -> Question:
    """The question in the fields of a form. Nothing of it is checked yet."""

    def first(name: str, default: str) -> str:
        return next(iter(fields.get(name, ())), default)

    lines = zip(*(fields.get(name, ()) for name in ("column", "comparison", "value")), strict=False)
    conditions = tuple(
        Condition(column, next((known for known in COMPARISONS if known == comparison), "in"), value)
        for column, comparison, value in lines
        if column
    )
    return Question(
        way="sql" if first("way", "form") == "sql" else "form",
        sql=first("sql", ""),
        table=first("table", ""),
        shape=first("shape", "top_k"),
        by=tuple(fields.get("by", ())),
        measure=first("measure", ""),
        k=first("k", "10"),
        counts=first("counts", "yes") == "yes",
        conditions=conditions[:MAX_CONDITIONS],
    )


def write_fields(question: Question) -> list[tuple[str, str]]:
    """The fields of a form that hold a question."""
    pairs = [(name, getattr(question, name)) for name in ("way", "sql", "table", "shape", "measure", "k")]
    pairs += [("by", name) for name in question.by] + [("counts", "yes" if question.counts else "no")]
    for each in question.conditions:
        pairs += [("column", each.column), ("comparison", each.comparison), ("value", each.value)]
    return pairs


def complete(question: Question, policy: Policy) -> Question:
    """A question about the first table, column and measure where nothing was chosen yet."""
    if question.table not in policy.tables:
        question = replace(question, table=next(iter(policy.tables), ""), by=(), measure="", conditions=())
    table = policy.tables.get(question.table)
    if table is None:
        return question
    measures = sorted(table.measures, key=lambda name: table.measures[name].counts != "units")
    return replace(
        question,
        by=tuple(name for name in question.by if name in table.columns) or tuple(table.columns)[:1],
        measure=question.measure if question.measure in table.measures else next(iter(measures), ""),
        conditions=tuple(each for each in question.conditions if each.column in table.columns),
    )


def to_sql(question: Question, policy: Policy) -> str:
    """The same question as SQL. Raises `Refused` or `InvalidArgument` where it cannot be asked."""
    if question.way == "sql":
        return question.sql
    return write_sql(read_request(question.request(policy), policy), policy)


def to_form(sql: str, policy: Policy) -> Question | None:
    """The form that says what SQL says; None where no form does."""
    try:
        statement = read_question({"sql": sql}, policy)
        return form_of(statement.core, policy) if statement.is_plain else None
    except Refused:
        return None


def form_of(request: Request, policy: Policy) -> Question | None:
    table = policy.table(request.table)
    conditions = _conditions(canonical_filter(request.where, table), table)
    keys = () if isinstance(request, Total) else (request.by,) if isinstance(request.by, str) else tuple(request.by)
    if conditions is None or not all(name in table.columns for name in keys):
        return None
    shape = next(name for name, kind in _KINDS.items() if isinstance(request, kind))
    listed = isinstance(request, TopK)
    k = str(request.k or table.max_k) if isinstance(request, TopK) else "10"
    return Question(
        table=table.name,
        shape=shape,
        by=keys,
        measure=table.measure(request.measure).name,
        k=k,
        counts=request.counts if listed and isinstance(request, TopK) else True,
        conditions=conditions,
    )


_KINDS: Mapping[str, type] = {"top_k": TopK, "histogram": Histogram, "total": Total}


def _conditions(where: Predicate, table: TablePolicy) -> tuple[Condition, ...] | None:
    """A filter as lines of the form that all hold; None where that is not what it says."""
    if where == EVERYTHING:
        return ()
    lines: list[Condition] = []
    for part in where.parts if isinstance(where, AllOf) else (where,):
        if not isinstance(part, In) or part.column not in table.columns or part.values == ALL_VALUES:
            return None
        found = _lines(part.column, part.values)
        if found is None:
            return None
        lines += found
    return tuple(lines) if len(lines) <= MAX_CONDITIONS else None


def _lines(column: str, values: Values) -> list[Condition] | None:
    for comparison, points in (("in", values.points), ("not in", (~values).points)):
        if points is not None:
            # A field of a form has one line.
            is_writable = all(not isinstance(each, str) or each.isprintable() for each in points)
            return [Condition(column, comparison, _join(points))] if is_writable else None  # type: ignore[arg-type]
    if len(values.intervals) != 1:
        return None
    low, high = values.intervals[0]
    return [*_edge(column, low, "ge", "gt"), *_edge(column, high, "lt", "le")]


def _edge(column: str, cut: Cut, before: Comparison, after: Comparison) -> list[Condition]:
    if cut.value is None:
        return []
    return [Condition(column, before if cut.side < 0 else after, _join([cut.value]))]


def _join(values: Sequence[Value]) -> str:
    """Values as one line, in quotes where they hold a comma."""
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow([_text(json_value(value)) for value in values])
    return written.getvalue()


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _clause(condition: Condition, table: TablePolicy) -> dict[str, Any]:
    """One line as a filter."""
    column = table.column(condition.column)
    try:
        rows = [*csv.reader([condition.value], skipinitialspace=True, strict=True)]
    except csv.Error:
        raise InvalidArgument(condition.column, "has a quote without its partner; write two for one") from None
    values: list[Any] = (rows[0] if rows else []) or [""]
    if column.type == "boolean":
        values = [{"true": True, "false": False}.get(text.lower(), text) for text in values]
    if condition.comparison in ("in", "not in"):
        listed = {column.name: values}
        return listed if condition.comparison == "in" else {"not": listed}
    if len(values) != 1:
        raise InvalidArgument(condition.column, "is compared with one value; lists go with `is one of`")
    return {column.name: {condition.comparison: values[0]}}


def _read_whole(name: str, text: str) -> int:
    if not (text.isascii() and text.strip().isdigit() and len(text) < 10):
        raise InvalidArgument(name, "must be a whole number")
    return int(text)
