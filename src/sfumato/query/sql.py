"""The SQL front door: one SELECT in, a request out, or a refusal in the asker's words.

    SELECT column, COUNT(DISTINCT unit) | COUNT(*) | a measure's name
    FROM table [WHERE ...] GROUP BY column [ORDER BY 2 DESC] [LIMIT k]

A list without its counts has its measure in ORDER BY alone:

    SELECT column FROM table [WHERE ...] GROUP BY column ORDER BY COUNT(DISTINCT unit) DESC [LIMIT k]

Anything that is not on the list of what is understood is refused; nothing is passed through. Size and nesting are
capped on the tokens, before anything recurses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import NotSupported
from sfumato.query.filters import compare
from sfumato.query.policy import Column, Measure, Policy, TablePolicy
from sfumato.query.predicate import EVERYTHING, NOTHING, Predicate, all_of, any_of, negate
from sfumato.query.request import MAX_DEPTH, Histogram, Request, TopK, Total

MAX_LENGTH = 20_000
MAX_TOKENS = 5_000

FORM = "SELECT column, COUNT(DISTINCT unit) FROM table WHERE ... GROUP BY column ORDER BY 2 DESC LIMIT 10"
BARE = "GROUP BY column ORDER BY COUNT(DISTINCT unit) DESC"

_CLAUSES = {"expressions", "from_", "where", "group", "order", "limit"}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_PREFIXES = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}

# Everything the form needs. The rest never reaches the parser, which some constructs keep busy for ever.
_TOKENS = {
    *(_OPENING - {TokenType.L_BRACKET, TokenType.L_BRACE}),
    *(_CLOSING - {TokenType.R_BRACKET, TokenType.R_BRACE}),
    *(
        TokenType.NOT,
        TokenType.DASH,
        TokenType.PLUS,
        TokenType.COMMA,
        TokenType.DOT,
        TokenType.STAR,
        TokenType.SEMICOLON,
    ),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.LIMIT),
    *(TokenType.DISTINCT, TokenType.ALIAS, TokenType.ASC, TokenType.DESC, TokenType.AND, TokenType.OR),
    *(
        TokenType.IN,
        TokenType.BETWEEN,
        TokenType.EQ,
        TokenType.NEQ,
        TokenType.LT,
        TokenType.LTE,
        TokenType.GT,
        TokenType.GTE,
    ),
    *(TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE, TokenType.DATE, TokenType.TIMESTAMP),
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.DCOLON),
}
_QUOTE = 'if it is the name of a column, write it in "double quotes"'
_LITERALS = "a filter compares a column with literals: =, <>, <, <=, >, >=, IN, BETWEEN, AND, OR, NOT"

_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    # the operator, and the one it becomes when the literal stands first
    exp.EQ: ("eq", "eq"),
    exp.NEQ: ("ne", "ne"),
    exp.LT: ("lt", "gt"),
    exp.LTE: ("le", "ge"),
    exp.GT: ("gt", "lt"),
    exp.GTE: ("ge", "le"),
}

# What people try first, and what to try instead.
_HINTS: dict[str, str] = {
    "joins": "JOIN has no private form here; ask the owner for a view that joins the tables",
    "laterals": "JOIN has no private form here; ask the owner for a view that joins the tables",
    "with_": "WITH has no private form here; ask one SELECT of one table",
    "having": "HAVING has no private form: it would look at exact counts; take LIMIT k and read the list",
    "distinct": "SELECT DISTINCT has no private form, but for one column of a public domain and nothing beside it; "
    f"for the largest groups without their counts, {BARE}",
    "offset": "OFFSET has no private form; a longer LIMIT continues a shorter list and costs only the new rows",
    "windows": "window functions have no private form",
    "qualify": "QUALIFY has no private form; take LIMIT k",
    "sample": "TABLESAMPLE has no private form; the noise is the sampling",
}


# Words of SQL that nobody has a column of. What else is not understood may be a column that needs its quotes.
_SYNTAX = {
    *("ALL", "ANY", "CASE", "CUBE", "ELSE", "END", "FETCH", "FILTER", "FOR", "INTERVAL", "INTO", "ON", "OVER", "PIVOT"),
    *("ROLLUP", "SOME", "THEN", "UNPIVOT", "USING", "VALUES", "WHEN", "WINDOW"),
}
_STATEMENTS = {
    "WITH": _HINTS["with_"],
    "EXPLAIN": "EXPLAIN has no private form; to know what a question costs, ask for its price: sfumato estimate",
}
_SUBQUERY = "a SELECT inside a SELECT has no private form: ask of one table by its name, compare with literal values"
_DATE = "write the date: DATE '2026-11-15'"

_TOKEN_HINTS = {
    TokenType.JOIN: _HINTS["joins"],
    TokenType.WITH: _HINTS["with_"],
    TokenType.HAVING: _HINTS["having"],
    TokenType.OFFSET: _HINTS["offset"],
    TokenType.QUALIFY: _HINTS["qualify"],
    TokenType.OVER: _HINTS["windows"],
    TokenType.TABLE_SAMPLE: _HINTS["sample"],
    **dict.fromkeys(
        (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT),
        f"{{word}} has no private form; ask one SELECT at a time; the form is {FORM}",
    ),
    **dict.fromkeys(
        (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.GLOB, TokenType.SIMILAR_TO, TokenType.EXISTS),
        f"{{word}} has no private form; {_LITERALS}",
    ),
    TokenType.IS: f"IS has no private form, as rows without a value are left out; {_LITERALS}",
    **dict.fromkeys(
        (TokenType.CURRENT_DATE, TokenType.CURRENT_DATETIME, TokenType.CURRENT_TIME, TokenType.CURRENT_TIMESTAMP),
        f"{{word}} would be another question every time; {_DATE}",
    ),
    TokenType.NULL: "rows without a value are left out, and cannot be asked for; compare with literal values",
}


def read_sql(text: str, policy: Policy) -> Request:
    """The request that `text` makes, its filter typed by the policy."""
    select = parsed(text)
    check_clauses(select, _CLAUSES)
    table, alias = table_of(select, policy)
    return Reader(table, alias).request(select)


def check_clauses(select: exp.Select, known: Container[str]) -> None:
    """Refuse a clause that is not one of these, with what to try instead."""
    for clause, value in select.args.items():
        if value and clause not in known:
            raise NotSupported(
                _HINTS.get(clause, f"{clause.strip('_').upper()} has no private form; the form is {FORM}")
            )


def read_filter(text: str, table: TablePolicy) -> Predicate:
    """The filter that `text` is: what could stand after WHERE in a question about the table."""
    select = parsed(f"SELECT 1 FROM filtered WHERE {text}")  # noqa: S608 - it is parsed, never run
    if any(value for clause, value in select.args.items() if clause not in ("expressions", "from_", "where")):
        raise NotSupported(f"a filter is what stands after WHERE, and nothing else; {_LITERALS}")
    return Reader(table, table.name).where(select.args["where"].this)


def example(table: TablePolicy, by: Sequence[str] = (), where: str = "") -> str:
    """A question that can be asked of the table: its largest groups by these columns, or by its first."""
    people = [measure for measure in table.measures.values() if measure.counts == "units"]
    unit, named = f"COUNT(DISTINCT {identifier(table.privacy_unit)})", next(map(identifier, table.measures), "")
    counted, by = unit if len(people) == 1 else named, by or [*table.columns][:1]
    if not by or not counted:
        return FORM
    keys, last = ", ".join(map(identifier, by)), f"ORDER BY {len(by) + 1} DESC LIMIT {min(10, table.max_k)}"
    clauses = f"SELECT {keys}, {counted}", f"FROM {identifier(table.name)}", where, f"GROUP BY {keys}", last
    return " ".join(filter(None, clauses))


def identifier(name: str) -> str:
    """A name as SQL has it: in quotes where it would be read as something else."""
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and sqlglot.tokenize(name)[0].token_type is TokenType.VAR
    return name if plain else exp.to_identifier(name, quoted=True).sql()


def _some(names: Collection[str], most: int = 8) -> str:
    """The first names of what may be many."""
    listed = ", ".join([*names][:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed


class Reader:
    """One SELECT over one table: names resolve against its policy and the SELECT list."""

    def __init__(self, table: TablePolicy, alias: str) -> None:
        self.table, self.alias = table, alias

    def request(self, select: exp.Select) -> Request:
        keys, selected = self._select_list(select)
        measure = selected or self._ordering(select)
        where = self.where(select.args["where"].this) if select.args.get("where") else EVERYTHING
        self._check_group(select, keys)
        self._check_order(select, keys, measure)
        limit = _limit(select, self.table)
        if not keys and limit is not None:
            raise NotSupported("a total is one row: leave LIMIT out, or GROUP BY a column")
        if not keys:
            return Total(self.table.name, measure.name, where)
        by = tuple(column.name for column in keys)
        if selected is None:
            return TopK(self.table.name, by, measure.name, where, limit, counts=False)
        if limit is None:
            return Histogram(self.table.name, by, measure.name, where)
        return TopK(self.table.name, by, measure.name, where, limit)

    # -- the SELECT list --

    def _select_list(self, select: exp.Select) -> tuple[list[Column], Measure | None]:
        """The columns and the measure of the SELECT list; None where it has no measure."""
        keys, measures = [], []
        for item in select.expressions:
            self.check_alias(item)
            measure = self.measure(item.unalias())
            if measure is None:
                keys.append(self.column(item.unalias()))
            else:
                measures.append(measure)
        if len(measures) > 1:
            raise NotSupported(
                f"one measure a question: ask for {' and for '.join(m.name for m in measures)} separately"
            )
        if len({key.name for key in keys}) < len(keys):
            raise NotSupported("a column is selected twice; name it once")
        return keys, measures[0] if measures else None

    def _ordering(self, select: exp.Select) -> Measure:
        """The measure of a list without counts, which only its order names."""
        order = select.args.get("order")
        if select.expressions and order and (measure := self.measure(referenced(order.expressions[0].this, select))):
            return measure
        people = f"COUNT(DISTINCT {self.table.privacy_unit})"
        if select.expressions and not select.args.get("group"):
            raise NotSupported(self._no_preview(select, people))
        bare = f", or ORDER BY {people} DESC for the largest groups without their counts"
        raise NotSupported(f"rows cannot be listed, only counted: add {people}{bare}")

    def _no_preview(self, select: exp.Select, people: str) -> str:
        """Columns and nothing to count: somebody looks at the rows, and a tool has written the question."""
        keys = [self.column(item.unalias()) for item in select.expressions]
        by = [key.name for key in keys][:3]
        public = len(keys) == 1 and keys[0].domain is not None
        distinct = f"SELECT DISTINCT {identifier(by[0])}"
        return (
            f"rows cannot be listed, only counted, so that there is no preview of them: add {people} and GROUP BY, "
            f"as in {example(self.table, by)}{f'; its values alone are free: {distinct} ...' if public else ''}"
        )

    def check_alias(self, item: exp.Expr) -> None:
        """An alias that is another column's name would mean one thing in GROUP BY and another in WHERE."""
        alias, name = item.alias.casefold(), item.unalias().name.casefold()
        if alias and alias != name and alias in {column.casefold() for column in self.table.columns}:
            raise NotSupported(
                f"AS {item.alias[:60]} is the name of a column of {self.table.name}; choose another alias"
            )

    def measure(self, node: exp.Expr) -> Measure | None:
        """The measure that an item of the SELECT list means, or None for a plain column."""
        if isinstance(node, exp.Count):
            return self._count(node)
        if isinstance(node, exp.Sum):
            column = self._name(node.this)
            return self._only("sum", f"SUM({column[:60]})", lambda m: (m.column or "").casefold() == column.casefold())
        if isinstance(node, exp.AggFunc):
            raise NotSupported(f"{node.sql_name()} has no private form here; there is {self._offer()}")
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        known = {name.casefold(): measure for name, measure in self.table.measures.items()}
        return known.get(self._name(node).casefold())  # never a column's name: the policy sees to that

    def _count(self, node: exp.Count) -> Measure:
        counted = node.this
        every = isinstance(counted, exp.Star) or (isinstance(counted, exp.Literal) and not counted.is_string)
        if every and not node.expressions:  # COUNT(1) counts rows as COUNT(*) does
            return self._only("rows", "COUNT(*)", lambda _: True)
        if isinstance(counted, exp.Distinct) and len(counted.expressions) == 1 and not counted.args.get("on"):
            name = self._name(counted.expressions[0].unnest())  # some tools write COUNT(DISTINCT(x))
            if name.casefold() == self.table.privacy_unit.casefold():
                return self._only("units", f"COUNT(DISTINCT {name[:60]})", lambda _: True)
        raise NotSupported(f"only people and rows can be counted here: there is {self._offer()}")

    def _only(self, kind: str, words: str, fits: Callable[[Measure], bool]) -> Measure:
        found = [m for m in self.table.measures.values() if m.counts == kind and fits(m)]
        if len(found) == 1:
            return found[0]
        if found:
            raise NotSupported(f"{words} could mean {' or '.join(m.name for m in found)}: ask for one by its name")
        raise NotSupported(f"{words} is not allowed for {self.table.name}; there is {self._offer()}")

    def _offer(self) -> str:
        return ", ".join(self.table.measures) or "no measure at all"

    # -- names --

    def _name(self, node: exp.Expr | None) -> str:
        """A column's written name, unqualified; qualifiers must be the table or its alias."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star) or node.args.get("db"):
            raise NotSupported(f"only plain columns can be selected and filtered; the form is {FORM}")
        if node.table and node.table.casefold() not in {self.table.name.casefold(), self.alias.casefold()}:
            raise NotSupported(f"there is no table {node.table[:60]!r} in this question; FROM names {self.table.name}")
        return node.name

    def column(self, node: exp.Expr) -> Column:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise NotSupported(
                f"SELECT * would list people, so that there is no preview of {self.table.name}; count them, by "
                f"{_some(self.table.columns) or 'nothing'}: {example(self.table)}"
            )
        return self.table.column(self._name(node))

    # -- GROUP BY and ORDER BY --

    def _check_group(self, select: exp.Select, keys: list[Column]) -> None:
        group = select.args.get("group")
        if group is None:
            if keys:
                raise NotSupported(
                    f"a selected column is grouped by: add GROUP BY {', '.join(key.name for key in keys)}"
                )
            return
        if any(value for clause, value in group.args.items() if clause != "expressions"):
            raise NotSupported("ROLLUP, CUBE, GROUPING SETS and ALL have no private form; GROUP BY columns by name")
        named = {self._position(node, select) for node in group.expressions}
        if named != {key.name for key in keys}:
            raise NotSupported("GROUP BY and the SELECT list must name the same columns")

    def _position(self, node: exp.Expr, select: exp.Select) -> str:
        """The column that a GROUP BY or ORDER BY item means: by ordinal, alias or name."""
        return self.column(referenced(node, select)).name

    def _check_order(self, select: exp.Select, keys: list[Column], measure: Measure) -> None:
        order = select.args.get("order")
        if order is None:
            return
        first, *rest = order.expressions
        item = referenced(first.this, select)
        if self.measure(item) != measure or not first.args.get("desc"):
            raise NotSupported(f"a list is in the order of its counts, largest first: ORDER BY {measure.name} DESC")
        for ordered in rest:
            if ordered.args.get("desc") or self._position(ordered.this, select) not in {key.name for key in keys}:
                raise NotSupported("after the count only the grouped columns may follow in ORDER BY, ascending")

    # -- WHERE --

    def where(self, node: exp.Expr) -> Predicate:
        if isinstance(node, exp.Paren):
            return self.where(node.this)
        if isinstance(node, exp.And | exp.Or):
            join = all_of if isinstance(node, exp.And) else any_of
            return join([self.where(part) for part in node.flatten()])
        if isinstance(node, exp.Not):
            return negate(self.where(node.this))
        if isinstance(node, exp.Boolean):
            return EVERYTHING if node.this else NOTHING
        if isinstance(node, exp.Column):
            return self._truth(node)
        return self._comparison(node)

    def _truth(self, node: exp.Column) -> Predicate:
        column = self.column(node)
        if column.type != "boolean":
            raise NotSupported(f"{column.name} is not a condition; compare it with something")
        return compare(column, "eq", True)

    def _comparison(self, node: exp.Expr) -> Predicate:
        if type(node) in _COMPARISONS:
            forwards, backwards = _COMPARISONS[type(node)]
            if isinstance(node.this, exp.Column):
                return compare(self.column(node.this), forwards, _literal(node.expression))
            return compare(self.column(node.expression), backwards, _literal(node.this))
        if isinstance(node, exp.In) and not any(
            v for clause, v in node.args.items() if clause not in ("this", "expressions")
        ):
            values = [_literal(value) for value in node.expressions]
            return compare(self.column(node.this), "in", values)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            bounds = [_literal(node.args["low"]), _literal(node.args["high"])]
            return compare(self.column(node.this), "between", bounds)
        raise NotSupported(_LITERALS)


def parsed(text: str) -> exp.Select:
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise NotSupported(f"a question is text of at most {MAX_LENGTH} characters")
    try:
        tokens = sqlglot.tokenize(text)
        _check_size(tokens)
        statements = sqlglot.Parser().parse(tokens, text)
    except (SqlglotError, RecursionError, ValueError):
        raise NotSupported(f"this could not be read as SQL; the form is {FORM}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise NotSupported(f"ask one SELECT at a time; the form is {FORM}")
    return statements[0]


def _check_size(tokens: list[Token]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise NotSupported(f"the question is longer than {MAX_TOKENS} words and signs; ask for ranges instead of lists")
    kinds = [token.token_type for token in tokens]
    if kinds[:1] != [TokenType.SELECT]:
        word = re.match(r"[A-Za-z]{1,20}\b", tokens[0].text) if tokens else None
        met = f"{word[0]} cannot be asked; " if word else ""
        raise NotSupported(
            _STATEMENTS.get(word[0].upper() if word else "", f"{met}ask one SELECT at a time; the form is {FORM}")
        )
    if TokenType.SEMICOLON in kinds[:-1]:
        raise NotSupported(f"ask one SELECT at a time; the form is {FORM}")
    depth = run = 0
    for place, token in enumerate(tokens):
        if token.token_type not in _TOKENS:
            raise NotSupported(_not_understood(token))
        if token.token_type is TokenType.SELECT and place:
            raise NotSupported(_SUBQUERY)
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        run = run + 1 if token.token_type in _PREFIXES else 0
        if depth + run > MAX_DEPTH:
            raise NotSupported(f"the question is nested more than {MAX_DEPTH} deep; flatten it")


def _not_understood(token: Token) -> str:
    """Names what was met; a word that may be a column's name is told how to be one."""
    word = token.text[:40]
    hint = _TOKEN_HINTS.get(token.token_type)
    if hint is not None:
        return hint.replace("{word}", word.upper())
    may_be_a_column = re.fullmatch(r"\w+", word) and word.upper() not in _SYNTAX
    return f"{word} is not understood here; {_QUOTE if may_be_a_column else f'the form is {FORM}'}"


def table_of(select: exp.Select, policy: Policy) -> tuple[TablePolicy, str]:
    source = select.args.get("from_")
    if source is None and policy.tables:
        raise NotSupported(
            "nothing is asked without FROM; if this was to test the connection, it works. "
            f"There is {_some(policy.tables)}: {example(next(iter(policy.tables.values())))}"
        )
    node = source.this if source else None
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise NotSupported(f"ask of one table by its name; the form is {FORM}")
    extras = [clause for clause, value in node.args.items() if value and clause not in ("this", "alias")]
    if extras:
        raise NotSupported(_HINTS.get(extras[0], "a table is named plainly, without schema or options"))
    return policy.table(node.name), node.alias or node.name


def referenced(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """An item of the SELECT list, if `node` is its ordinal or its alias; otherwise `node` itself."""
    items: list[exp.Expr] = select.expressions
    if isinstance(node, exp.Literal) and not node.is_string:
        place = int(node.this) if node.this.isdigit() else 0
        if not 1 <= place <= len(items):
            raise NotSupported(f"there is no column number {node.this[:20]} in the SELECT list")
        return items[place - 1].unalias()
    if isinstance(node, exp.Column) and not node.table:
        for item in items:
            if isinstance(item, exp.Alias) and item.alias.casefold() == node.name.casefold():
                return item.unalias()
    return node


def limit_digits(select: exp.Select) -> str | None:
    """The digits of LIMIT without leading zeros, however many they are; None where there is no LIMIT."""
    limit = select.args.get("limit")
    if limit is None:
        return None
    count = limit.args.get("expression")
    extras = [clause for clause, value in limit.args.items() if value and clause != "expression"]
    if extras or not isinstance(count, exp.Literal) or count.is_string or not re.fullmatch("[0-9]+", count.this):
        raise NotSupported("LIMIT takes a whole number, such as LIMIT 10")
    digits: str = count.this.lstrip("0")
    return digits


def _limit(select: exp.Select, table: TablePolicy) -> int | None:
    digits = limit_digits(select)
    if digits is None:
        return None
    if not digits:
        raise NotSupported("LIMIT must be at least 1")
    if len(digits) > 9 or int(digits) > table.max_k:
        raise NotSupported(f"LIMIT {digits[:20]} is too large; {table.name} gives lists of 1 to {table.max_k} rows")
    return int(digits)


def _literal(node: exp.Expr) -> Any:
    """The raw value of a literal; its column decides what it means."""
    if isinstance(node, exp.Paren):
        return _literal(node.this)
    if isinstance(node, exp.Cast):
        return _moment(node)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(f"-{node.this.this}")
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else _number(node.this)
    words = "a filter compares a column with literal values: text in 'quotes', numbers, TRUE, FALSE, dates"
    now = isinstance(node, exp.Anonymous) and node.name.casefold() in ("now", "today", "getdate")
    raise NotSupported(f"{words}; {_DATE}" if now else words)


def _moment(node: exp.Cast) -> date:
    """DATE '...' and TIMESTAMP '...', in any spelling of the cast; no other cast has a meaning here."""
    kind, text = node.to.this, node.this
    readers = {exp.DataType.Type.DATE: date.fromisoformat, exp.DataType.Type.TIMESTAMP: datetime.fromisoformat}
    if kind in readers and isinstance(text, exp.Literal) and text.is_string:
        with suppress(ValueError):
            return readers[kind](text.this)
    raise NotSupported(
        "only DATE '2026-11-15' and TIMESTAMP '2026-11-15 08:30:00' can be cast; write other literals plainly"
    )


def _number(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise NotSupported(f"{digits[:40]} is too large to be compared with, or not a number") from None
