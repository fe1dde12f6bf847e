"""Requests that may be meant by one that was refused: another name, a shorter list, groups, a measure, a type.

They are proposals. `sfumato.answer` plans each of them, and offers those that would not be refused. They hold what the
caller sent and names of the policy, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import NotSupported, TableNotFound, find_nearest
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.request import REQUESTS, Request, RequestLike
from sfumato.query.sql.core import read_limit
from sfumato.query.sql.inline import inline_rows
from sfumato.query.sql.parse import QuestionSql, parse_query
from sfumato.query.sql.refusals import identifier
from sfumato.query.sql.tokens import tokenize

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_AFTER_GROUPS = frozenset(
    (TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH, TokenType.SEMICOLON)
)


def ways_out(refusal: NotSupported | TableNotFound, request: RequestLike, policy: Policy) -> Iterator[dict[str, Any]]:
    """The proposals for a refused request, the likeliest first."""
    serial = _serial(request)
    if "sql" in serial:
        yield from _sql_ways(refusal, str(serial["sql"]), policy)
    elif serial:
        yield from _field_ways(refusal, serial, policy)
    yield from map(dict, refusal.instead)


def _serial(request: RequestLike) -> dict[str, Any]:
    """The request as JSON; empty where it has no such form."""
    if isinstance(request, str):
        return {"sql": request}
    if isinstance(request, Request):
        where = getattr(request, "where", None)
        if not isinstance(where, Mapping | None):
            return {}
        given = {field.name: getattr(request, field.name) for field in fields(request) if field.name != "measures"}
        if request.measures:
            given["measures"] = request.measures
        return {"type": next(name for name, kind in REQUESTS.items() if kind is type(request)), **given}
    return dict(request) if isinstance(request, Mapping) else {}


def _names(refusal: NotSupported | TableNotFound, tables: list[TablePolicy]) -> Iterator[tuple[str, str]]:
    """An unknown name, and each name that it may be: the nearest, also among columns and measures together."""
    unknown = refusal.table if isinstance(refusal, TableNotFound) else refusal.unknown
    if unknown and refusal.nearest:
        yield unknown, refusal.nearest
    for table in tables if unknown else ():
        near = find_nearest(unknown, [*table.columns, *table.measures])
        if near and near != refusal.nearest:
            yield unknown, near


# -- SQL --


def _sql_ways(refusal: NotSupported | TableNotFound, sql: str, policy: Policy) -> Iterator[dict[str, Any]]:
    try:
        tokens = tokenize(sql)
    except SqlglotError:
        return
    texts = {token.text.casefold() for token in tokens if token.token_type in _NAMES}
    for unknown, near in _names(refusal, [each for name, each in policy.tables.items() if name.casefold() in texts]):
        places = [
            token for token in tokens if token.token_type in _NAMES and token.text.casefold() == unknown.casefold()
        ]
        yield {"sql": _replaced(sql, places, identifier(near))}
    group_by = getattr(refusal, "group_by", ())
    if group_by and not any(token.token_type is TokenType.GROUP_BY for token in tokens):
        end = next((token.start for token in tokens if token.token_type in _AFTER_GROUPS), len(sql))
        clause = f"GROUP BY {', '.join(map(identifier, group_by))}"
        yield {"sql": f"{sql[:end].rstrip()} {clause} {sql[end:]}".rstrip()}


def _replaced(sql: str, places: list[Token], text: str) -> str:
    """The statement with `text` at the places of these tokens."""
    pieces, at = list[str](), 0
    for token in places:
        pieces += [sql[at : token.start], text]
        at = token.end + 1
    return "".join([*pieces, sql[at:]])


def shorten_lists(sql: str, longest: int, tables: Collection[str]) -> str:
    """A statement whose lists of these tables have at most so many rows; what needs a whole list stays as it is."""
    query, names = inline_rows(parse_query(sql)), {name.casefold() for name in tables}
    for select in [*query.find_all(exp.Select)]:
        source, order = select.args.get("from_"), select.args.get("order")
        is_list = source is not None and isinstance(source.this, exp.Table) and source.this.name.casefold() in names
        if not is_list or not select.args.get("group") or (order and not order.expressions[0].args.get("desc")):
            continue
        if any(select.args.get(clause) for clause in ("having", "offset", "distinct")):
            continue
        limit = read_limit(select)
        if limit is None or limit > longest:
            select.set("limit", exp.Limit(expression=exp.Literal.number(longest)))
            if isinstance(select.parent, exp.Union):
                select.replace(exp.Subquery(this=select.copy()))
    return query.sql(QuestionSql, comments=False)


# -- JSON --


def _field_ways(
    refusal: NotSupported | TableNotFound, serial: dict[str, Any], policy: Policy
) -> Iterator[dict[str, Any]]:
    field, longest = getattr(refusal, "field", ""), getattr(refusal, "longest", None)
    table = policy.tables.get(serial["table"]) if isinstance(serial.get("table"), str) else None
    for unknown, near in _names(refusal, [] if table is None else [table]):
        yield {
            name: _renamed(value, unknown, near, keys=name == "where")
            if name in ("table", "by", "measure", "where")
            else value
            for name, value in serial.items()
        }
    if refusal.nearest and field == "type":
        yield {**serial, "type": refusal.nearest}
    elif refusal.nearest and field in serial and refusal.nearest not in serial:
        yield {refusal.nearest if name == field else name: value for name, value in serial.items()}
    if longest is not None:
        yield {**serial, "k": longest}
    if field == "measure" and "measure" not in serial and table is not None:
        measures = sorted(table.measures.values(), key=lambda each: each.counts != "units")
        yield from ({**serial, "measure": measure.name} for measure in measures[:1])
    if field == "type" and "type" not in serial:
        yield from ({"type": name, **serial} for name in REQUESTS)


def _renamed(value: Any, unknown: str, near: str, *, keys: bool) -> Any:
    """A name in place of another: of a text and in a list of texts; in a filter, of its `keys` at every depth."""
    if isinstance(value, Mapping):
        return {
            (near if keys and name == unknown else name): _renamed(each, unknown, near, keys=keys)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_renamed(each, unknown, near, keys=keys) for each in value]
    return near if not keys and value == unknown else value
