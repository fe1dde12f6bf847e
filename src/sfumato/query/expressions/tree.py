"""Expressions of one row as a typed tree: `ColumnValue`, `Constant`, and `Applied` for a function of the closed list.

A tree is in canonical form when `read` or `simplify` made it. Its canonical text, `spell`, is SQL that is read back as
the same tree, so the text is the name of the column that the expression makes.

Configurations import this module, and commands such as `sfumato budget show` import configurations. So it imports the
SQL parser where a name or a text is written, and not before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import TypeAlias

from sfumato.query.public import PublicTable
from sfumato.query.values import decimal
from sfumato.types import TYPES, Type, Value


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The value of a policy column in the row."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Constant:
    """A value, or NULL where it is None."""

    value: Value | None
    type: Type


@dataclass(frozen=True, slots=True)
class Applied:
    """A function of `sfumato.query.expressions.functions` and what it is applied to."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class LookedUp(Applied):
    """The value of a column of a public table, in the row there whose key is the argument; NULL without such a row."""

    public: PublicTable
    column: str


Expression: TypeAlias = ColumnValue | Constant | Applied

LOOKUP = "lookup"
"""The function of a `LookedUp`."""

INFIX = frozenset(("and", "or", "=", "<", "<=", "+", "-", "*", "/", "%", "||"))


def nodes_of(tree: Expression) -> Iterator[Expression]:
    """The tree and everything in it."""
    yield tree
    if isinstance(tree, Applied):
        for argument in tree.arguments:
            yield from nodes_of(argument)


def look_up(key: Expression, public: PublicTable, column: str) -> LookedUp:
    """The look-up of a column, which the public table has, by a key of the type of its key."""
    return LookedUp(LOOKUP, (key,), public.columns[column], public, column)


def lookups_in(*trees: Expression) -> list[LookedUp]:
    """The look-ups of trees, each once and after those that its key needs."""
    inner_first = (node for tree in trees for node in reversed([*nodes_of(tree)]))
    return [*dict.fromkeys(node for node in inner_first if isinstance(node, LookedUp))]


def columns_in(tree: Expression) -> dict[str, Type]:
    """The columns that a tree reads, with their types, in the order of their names."""
    found = {node.name: node.type for node in nodes_of(tree) if isinstance(node, ColumnValue)}
    return dict(sorted(found.items()))


def spell(tree: Expression) -> str:
    """The canonical text."""
    if isinstance(tree, ColumnValue):
        return _quote(tree.name)
    if isinstance(tree, Constant):
        return _spell_constant(tree)
    name, arguments = tree.function, tree.arguments
    if isinstance(tree, LookedUp):
        return f"{LOOKUP}({spell(arguments[0])}, {_quote(tree.public.name)}.{_quote(tree.column)})"
    if name in INFIX:
        return f" {name.upper()} ".join(map(_operand, arguments))
    parts = [*map(spell, arguments)]
    if name == "case":
        return _spell_case(parts)
    if name == "not":
        return f"NOT {_operand(arguments[0])}"
    if name == "is null":
        return f"{_operand(arguments[0])} IS NULL"
    if name == "in":
        return f"{_operand(arguments[0])} IN ({', '.join(parts[1:])})"
    if name == "like":
        escape = r" ESCAPE '\'" if "\\" in parts[1] else ""
        return f"{_operand(arguments[0])} LIKE {parts[1]}{escape}"
    if name == "cast":
        return f"CAST({parts[0]} AS {TYPES[tree.type].duckdb})"
    return _spell_call(name, arguments, parts)


def _spell_call(name: str, arguments: Sequence[Expression], parts: Sequence[str]) -> str:
    if name == "extract":
        return f"extract({_word(arguments[0])} FROM {parts[1]})"
    if name == "+ interval":
        return f"{_operand(arguments[0])} + INTERVAL '{parts[1]}' {_word(arguments[2])}"
    if name in ("trim", "ltrim", "rtrim") and parts[1] != "' '":
        side = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[name]
        return f"trim({side} {parts[1]} FROM {parts[0]})"
    if name in ("trim", "ltrim", "rtrim"):
        parts = parts[:1]
    return f"{name}({', '.join(parts)})"


def _spell_case(parts: Sequence[str]) -> str:
    pairs = [f"WHEN {condition} THEN {result}" for condition, result in zip(parts[:-1:2], parts[1:-1:2], strict=True)]
    return f"CASE {' '.join(pairs)} ELSE {parts[-1]} END"


def _operand(tree: Expression) -> str:
    """The text of an operand, in parentheses where it is an operator itself."""
    is_operator = isinstance(tree, Applied) and tree.function in {*INFIX, "not", "is null", "in", "like", "+ interval"}
    return f"({spell(tree)})" if is_operator else spell(tree)


def _word(tree: Expression) -> str:
    """A unit of time, which stands in a tree as text."""
    return str(tree.value) if isinstance(tree, Constant) else ""


def _spell_constant(constant: Constant) -> str:
    value = constant.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        from sqlglot import exp

        return exp.Literal.string(value).sql()
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    digits = decimal(Fraction(value))
    return f"{digits}.0" if constant.type == "number" and "." not in digits else digits


def _quote(name: str) -> str:
    """A name as SQL has it: in quotes where it would be read as something else."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.tokenizer_core import TokenType

    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and sqlglot.tokenize(name)[0].token_type is TokenType.VAR
    return name if plain else exp.to_identifier(name, quoted=True).sql()
