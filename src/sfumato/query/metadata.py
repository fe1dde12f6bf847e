"""What tools ask beside their questions: whether there is a connection, which tables there are, and names and types.

    SELECT 1 | SELECT version(), current_schema(), ...
    SHOW TABLES | SHOW SCHEMAS | SHOW COLUMNS FROM table | DESCRIBE table
    SELECT ... FROM information_schema.tables | columns | schemata [WHERE ...] [ORDER BY ...] [LIMIT n]
    SELECT ... FROM table [WHERE ...] LIMIT 0

All of it is in the policy of the analyst. No row is read, so it is free and does not depend on the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sfumato import __version__
from sfumato.errors import NotSupported, find_nearest
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.predicate import NOTHING
from sfumato.query.public import PublicTable
from sfumato.query.request import CATALOG, SCHEMA, RequestLike
from sfumato.query.sql.aggregates import read_measure
from sfumato.query.sql.core import read_limit
from sfumato.query.sql.inline import inline_rows
from sfumato.query.sql.parse import MAX_LENGTH, parse_query, parse_select
from sfumato.query.sql.refusals import check_clauses, first_names
from sfumato.query.sql.scope import Scope, read_scope
from sfumato.query.sql.statement import Statement, read_statement
from sfumato.query.sql.tokens import tokenize
from sfumato.query.sql.where import read_where
from sfumato.types import TYPES, Type

RELATION = "metadata"
"""What the SELECT of a `Metadata` calls its rows."""

_SPACE = r"(?:\s++|--[^\n]*+|/\*.*?\*/)"
_FLAGS = re.IGNORECASE | re.DOTALL
_COMMAND = re.compile(rf"{_SPACE}*+(SHOW|DESC(?:RIBE)?)\b", _FLAGS)
_EXPLAIN = re.compile(rf"{_SPACE}*+EXPLAIN{_SPACE}++(?!ANALYZE\b)", _FLAGS)
_SELECT = re.compile(rf"{_SPACE}*+SELECT\b", _FLAGS)
_FROM = re.compile(r"\bFROM\b", re.IGNORECASE)
_SCHEMA = re.compile(rf"\bFROM{_SPACE}++[`\"]?information_schema\b", _FLAGS)
_NO_LIMIT = re.compile(rf"\bLIMIT\s+0+{_SPACE}*+;?{_SPACE}*+$", _FLAGS)
_NO_ROWS = re.compile(r"\bLIMIT\s+0+\b|\b(?:FALSE|1\s*=\s*0|0\s*=\s*1|1\s*<>\s*1)\b", re.IGNORECASE)

_WORDS = {
    *(TokenType.LIKE, TokenType.ILIKE, TokenType.IS, TokenType.NULL, TokenType.OFFSET, TokenType.CASE, TokenType.WHEN),
    *(TokenType.THEN, TokenType.ELSE, TokenType.END, TokenType.CURRENT_SCHEMA, TokenType.CURRENT_USER),
    *(TokenType.CURRENT_CATALOG, TokenType.SESSION_USER, TokenType.VARCHAR, TokenType.TEXT, TokenType.INT),
    *(TokenType.BIGINT, TokenType.CHAR, TokenType.DOUBLE, TokenType.BOOLEAN, TokenType.TABLE, TokenType.SCHEMA),
}
"""Tokens that a SELECT of names may have, beside those of a question."""

_NODES = (
    *(exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Star, exp.Alias, exp.Literal),
    *(exp.Boolean, exp.Null, exp.Paren, exp.Neg, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or),
    *(exp.Not, exp.In, exp.Between, exp.Like, exp.ILike, exp.Is, exp.Lower, exp.Upper, exp.Coalesce, exp.Case, exp.If),
    *(exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Distinct, exp.Where, exp.Cast, exp.DataType, exp.Add, exp.Sub),
    *(exp.Mul, exp.DataTypeParam, exp.Count),
)

_TABLES: Mapping[str, Mapping[str, Type]] = {
    "schemata": {"catalog_name": "text", "schema_name": "text", "schema_owner": "text"},
    "tables": {"table_catalog": "text", "table_schema": "text", "table_name": "text", "table_type": "text"},
    "columns": {
        **dict.fromkeys(("table_catalog", "table_schema", "table_name", "column_name"), "text"),
        "ordinal_position": "integer",
        **dict.fromkeys(("column_default", "is_nullable", "data_type"), "text"),
        **dict.fromkeys(("character_maximum_length", "numeric_precision", "numeric_scale"), "integer"),
        "datetime_precision": "integer",
    },
}
"""The columns of information_schema, as the standard names them."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Rows of names and types, and the SELECT over them, which calls them `RELATION`. Without one, all rows.

    With a `statement` it is the names and types of the answer to that, without its rows.
    """

    columns: Mapping[str, Type]
    rows: Sequence[Sequence[Any]] = ()
    select: exp.Select | None = None
    statement: Statement | None = None


def read_explained(request: RequestLike) -> RequestLike | None:
    """The question behind EXPLAIN; None where it is another statement."""
    text = _text(request)
    explained = _EXPLAIN.match(text)
    return None if explained is None else {"sql": text[explained.end() :]}


def read_metadata(request: RequestLike, policy: Policy, analyst: str) -> Metadata | None:
    """What a statement of `analyst` reads of her policy; None where it is a question."""
    text = _text(request)
    if _COMMAND.match(text):
        return _read_command(text, policy)
    unlimited = _NO_LIMIT.search(text)
    if unlimited is not None and _FROM.search(text) and not _SCHEMA.search(text):
        return _read_without_rows(text, text[: unlimited.start()], policy)
    if not _SELECT.match(text):
        return None
    # What functions without arguments give.
    facts = {
        "version": f"Sfumato {__version__}",
        **dict.fromkeys(("current_schema", "current_namespace"), SCHEMA),
        **dict.fromkeys(("current_database", "current_catalog"), CATALOG),
        **dict.fromkeys(("current_user", "session_user"), analyst),
    }
    has_source, is_of_schema = _FROM.search(text), _SCHEMA.search(text)
    if has_source and not is_of_schema and not _NO_ROWS.search(text):
        return None
    try:
        select = parse_select(text, more=() if has_source and not is_of_schema else _WORDS)
    except NotSupported:
        return None  # refused where questions are read
    if not has_source:
        return _read_constants(select, facts)
    # The words may also stand in a literal of a question: then it is neither.
    read = _read_information_schema(select, policy, facts) if is_of_schema else None
    return _read_names(select, policy) if read is None else read


def _read_without_rows(text: str, unlimited: str, policy: Policy) -> Metadata | None:
    """The names and types of a statement with LIMIT 0; None where it is refused where questions are read."""
    try:
        query = inline_rows(parse_query(text))
    except NotSupported:
        return None
    if read_limit(query) != 0:
        return None  # the words stand in a comment
    refusal: NotSupported | None = None
    if (
        isinstance(query, exp.Select)
        and not query.args.get("with_")
        and isinstance(query.args["from_"].this, exp.Table)
    ):
        try:
            return _read_names(query, policy)
        except NotSupported as error:
            refusal = error
    try:
        return Metadata({}, statement=read_statement(unlimited, policy))
    except NotSupported as error:
        raise refusal or error from None


def _text(request: RequestLike) -> str:
    text = request.get("sql") if isinstance(request, Mapping) and len(request) == 1 else request
    return text if isinstance(text, str) and len(text) <= MAX_LENGTH else ""


def _read_command(text: str, policy: Policy) -> Metadata:
    """SHOW and DESCRIBE."""
    try:
        first, *rest = [token for token in tokenize(text) if token.token_type is not TokenType.SEMICOLON]
    except SqlglotError:
        raise NotSupported("this could not be read as SQL: a text or a name is not closed") from None
    words = [token.text.casefold() for token in rest]
    if first.text.casefold() == "show":
        if words == ["tables"]:
            return Metadata({"name": "text"}, [(name,) for name in (*policy.tables, *policy.public)])
        if words in (["schemas"], ["databases"]):
            return Metadata({"name": "text"}, [(SCHEMA,)])
        if words[:2] not in (["columns", "from"], ["columns", "in"]):
            raise NotSupported("SHOW lists names: SHOW TABLES, SHOW SCHEMAS, or SHOW COLUMNS FROM a table")
        rest = rest[2:]
    elif words[:1] == ["table"] and len(words) > 1:
        rest = rest[1:]
    # As a SELECT, a name is read as in a question: with its schema, in quotes, or both.
    name = text[rest[0].start : rest[-1].end + 1] if rest else ""
    select = parse_select(f"SELECT 1 FROM {name}")  # noqa: S608 - it is parsed, never run
    check_clauses(select, {"expressions", "from_"})
    columns: dict[str, Type] = dict.fromkeys(("column_name", "column_type", "description"), "text")
    source = select.args["from_"].this
    public = policy.public_table(source.name) if isinstance(source, exp.Table) else None
    if public is not None:
        return Metadata(columns, [*_describe_public(public)])
    return Metadata(columns, [*_describe(read_scope(select, policy).table)])


def _describe(table: TablePolicy) -> Iterator[tuple[str, str, str]]:
    """The columns of a table, its privacy unit and its measures: name, type and meaning."""
    for column in table.columns.values():
        values = "any value" if column.domain is None else f"one of {len(column.domain)} values"
        averaged = "" if column.bounds is None else f"; averaged from {column.bounds}"
        yield column.name, TYPES[column.type].postgres, f"{values}{averaged}"
    # The policy has no type for it, because it can only be counted.
    yield table.privacy_unit, "unknown", f"the privacy unit: COUNT(DISTINCT {table.privacy_unit})"
    for measure in table.measures.values():
        yield measure.name, TYPES["integer"].postgres, f"a measure of {measure.counts}"


def _describe_public(table: PublicTable) -> Iterator[tuple[str, str, str]]:
    """The columns of a public table: name, type and meaning."""
    for name, kind in table.columns.items():
        meaning = f"the key that tables are joined by: JOIN {table.name} USING ({name})" if name == table.key else ""
        yield name, TYPES[kind].postgres, meaning or "of a public table"


def _read_information_schema(select: exp.Select, policy: Policy, facts: Mapping[str, str]) -> Metadata | None:
    table = select.args["from_"].this
    name = table.name.casefold()
    if not isinstance(table, exp.Table) or table.db.casefold() != "information_schema":
        return None
    if name not in _TABLES:
        raise NotSupported(f"information_schema has {', '.join(_TABLES)}; ask of one of them at a time")
    columns = _TABLES[name]
    for column in select.find_all(exp.Column):
        known = column.name.casefold() in columns or isinstance(column.this, exp.Star)
        if not known and column.name not in {item.alias for item in select.expressions}:
            near = find_nearest(column.name.casefold(), columns)
            raise NotSupported(f"information_schema.{name} has no column {column.name[:60]!r}", nearest=near)
        column.set("db", None)
        column.set("catalog", None)
    alias = exp.TableAlias(this=exp.to_identifier(table.alias or table.name, quoted=True))
    table.replace(exp.Table(this=exp.to_identifier(RELATION), alias=alias))
    return Metadata(columns, [*_rows(name, policy)], _check(select, facts))


def _rows(name: str, policy: Policy) -> Iterator[tuple[Any, ...]]:
    """The rows of a table of information_schema."""
    if name == "schemata":
        yield CATALOG, SCHEMA, CATALOG
        return
    described = {table.name: [*_describe(table)] for table in policy.tables.values()}
    described |= {table.name: [*_describe_public(table)] for table in policy.public.values()}
    for table, columns in described.items():
        own = CATALOG, SCHEMA, table
        if name == "tables":
            yield *own, "BASE TABLE"
            continue
        for place, (column, kind, _) in enumerate(columns, 1):
            yield *own, column, place, None, "YES", kind, None, None, None, None


def _read_constants(select: exp.Select, facts: Mapping[str, str]) -> Metadata | None:
    """A SELECT without FROM that has literals only. With a column in it, it is a question that lacks its table."""
    for column in [*select.find_all(exp.Column)]:
        if column.name.casefold() in facts and not column.table:  # CURRENT_SCHEMA is written without parentheses too
            column.replace(exp.Anonymous(this=column.name))
    if not select.expressions or select.find(exp.Column, exp.Star, exp.AggFunc):
        return None
    return Metadata({}, (), _check(select, facts))


def _check(select: exp.Select, facts: Mapping[str, str]) -> exp.Select:
    """The SELECT with the values of its functions, if it has only nodes that cannot fail or reach anything else."""
    for call in [*select.find_all(exp.Func)]:
        function = (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).casefold()
        if function in facts and not call.expressions:
            value = exp.Literal.string(facts[function])
            is_item = call.parent is select and call.arg_key == "expressions"
            call.replace(exp.alias_(value, function, quoted=True) if is_item else value)
    for node in select.walk():
        if not isinstance(node, _NODES) or (isinstance(node, exp.Table) and node.name != RELATION):
            raise NotSupported(
                f"{node.sql()[:60]} is not understood here: names are read by plain columns, literals, comparisons "
                f"and {first_names([*map('{}()'.format, facts)])}"
            )
    return select


def _read_names(select: exp.Select, policy: Policy) -> Metadata | None:
    """The names and types of a SELECT that has no rows: LIMIT 0, or * with a filter that is never true."""
    is_limited = select.args.get("limit") is not None and select.args["limit"].expression.name.strip("0") == ""
    every = [item for item in select.expressions if item.is_star]
    if not (is_limited or every) or select.args.get("distinct"):
        return None
    check_clauses(select, {"expressions", "from_", "joins", "where", "group", "order", "limit"})
    scope = read_scope(select, policy)
    where = select.args.get("where")
    has_no_row = where is not None and canonical_filter(read_where(where.this, scope), scope.table) == NOTHING
    if not is_limited and not has_no_row:
        return None
    columns: dict[str, Type] = {}
    for item in select.expressions:
        columns |= _item_types(item, scope)
    return Metadata(columns)


def _item_types(item: exp.Expr, scope: Scope) -> dict[str, Type]:
    """The columns that one item of a SELECT list makes, under their aliases."""
    if item.is_star:
        kinds: dict[str, Type] = {column.name: column.type for column in scope.table.columns.values()}
        joined = {name: kind for join in scope.joins for name, kind in join.public.columns.items()}
        return joined | kinds | dict.fromkeys(scope.table.measures, "integer")
    measure = read_measure(item.unalias(), scope)
    if measure is not None:
        return {item.alias or measure.name: measure.type}
    column = scope.column(item.unalias())
    return {item.alias or scope.label(item.unalias()) or column.name: column.type}
