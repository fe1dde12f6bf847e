"""Columns that are made by an expression: their names, types and public values, and how many of them a person has.

Such a column is a function of policy columns. A person who has at most `max_groups` values of one has at most so many
of a function of it, and one more where the function makes a value of NULL. If the values of the columns are public, so
are those of the function: its image, computed by `functions.evaluate`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sfumato.errors import NotSupported
from sfumato.query.expressions.build import is_null
from sfumato.query.expressions.functions import (
    MAX_LONG_TEXT,
    MAX_TEXT_READ,
    NULL_TAKING,
    PARTS,
    evaluate,
    policy_value,
)
from sfumato.query.expressions.tree import (
    Applied,
    ColumnValue,
    Constant,
    Expression,
    LookedUp,
    columns_in,
    lookups_in,
    nodes_of,
    spell,
)
from sfumato.query.expressions.write import written_size
from sfumato.query.policy import MAX_DOMAIN, Column
from sfumato.query.predicate import Values
from sfumato.query.values import read_value
from sfumato.types import Type, Value

MAX_EXPRESSION_NODES = 100
MAX_WRITTEN = 10_000


def derive(tree: Expression, columns: Mapping[str, Column]) -> Column:
    """The column that an expression of `columns` makes; a column itself where it is nothing else."""
    if isinstance(tree, ColumnValue):
        return columns[tree.name]
    sources = [columns[name] for name in columns_in(tree)]
    if not sources:
        raise NotSupported(f"{spell(tree)[:60]} is the same for every row; name a column")
    _check_size(tree)
    name = spell(tree)
    if name.casefold() in {each.casefold() for each in columns}:
        raise NotSupported(
            f"{name[:60]} is the name of a column of this table, and an expression too; ask for the column"
        )
    domain = image(tree, {each.name: each.domain for each in sources}, forced=()) or image_of_lookups(tree)
    domain = domain or natural_values(tree)
    strict = strict_columns(tree)
    bounds = [None if each.max_groups is None else each.max_groups + (each.name not in strict) for each in sources]
    return Column(
        name=name,
        type=tree.type,
        domain=domain,
        max_groups=None if None in bounds else math.prod(bound or 1 for bound in bounds),
        # That the key of a public table is unique was true when it was read.
        guaranteed=all(each.guaranteed for each in sources) and not lookups_in(tree),
        expression=tree,
    )


def _check_size(tree: Expression) -> None:
    nodes = sum(1 for _ in nodes_of(tree))
    if nodes > MAX_EXPRESSION_NODES or written_size(tree) > MAX_WRITTEN:
        raise NotSupported("an expression is too long; ask the owner for a view that has it as a column")
    if _longest(tree) > MAX_LONG_TEXT:
        raise NotSupported(f"an expression could make text of more than {MAX_LONG_TEXT} characters; join fewer columns")


def _longest(tree: Expression) -> int:
    """A bound on the characters of any text in a tree."""
    if isinstance(tree, ColumnValue):
        return MAX_TEXT_READ
    if isinstance(tree, Constant):
        return len(tree.value) if isinstance(tree.value, str) else 0
    return (sum if tree.function == "||" else max)(map(_longest, tree.arguments))


def strict_columns(tree: Expression) -> frozenset[str]:
    """The columns without whose values the expression is NULL."""
    if isinstance(tree, ColumnValue):
        return frozenset((tree.name,))
    if isinstance(tree, Constant):
        return frozenset()
    inner = [strict_columns(argument) for argument in tree.arguments if not is_null(argument)]
    if tree.function == "coalesce":
        return frozenset.intersection(*inner)
    if tree.function == "nullif":
        return inner[0]
    if tree.function in {*NULL_TAKING, "case"}:
        return frozenset()
    return frozenset().union(*inner)


def natural_values(tree: Expression) -> tuple[Value, ...] | None:
    """The values that an expression can have whatever the rows are, if they are few: of a CASE, of a month."""
    if tree.type == "boolean":
        return (False, True)
    if not isinstance(tree, Applied):
        return None
    if tree.function == "case":
        results = [*tree.arguments[1:-1:2], tree.arguments[-1]]
        values = {each.value for each in results if isinstance(each, Constant) and each.value is not None}
        return _sorted(values) if values and all(isinstance(each, Constant) for each in results) else None
    if tree.function == "extract" and isinstance(tree.arguments[0], Constant):
        known = PARTS[str(tree.arguments[0].value)][1]
        return None if known is None else tuple(known)
    if tree.function == "width_bucket" and isinstance(tree.arguments[3], Constant):
        return tuple(range(int(tree.arguments[3].value or 0) + 2))  # type: ignore[arg-type]
    return None


def image(
    tree: Expression, values: Mapping[str, Sequence[Value] | None], forced: Iterable[str]
) -> tuple[Value, ...] | None:
    """The values of the expression where its columns have these values, in order; None where some are not public.

    A column that is not `forced` to have one of its values can be NULL too.
    """
    listed: list[list[Any]] = []
    for name, public in values.items():
        if public is None:
            return None
        listed.append([*public, *(() if name in forced else (None,))])
    if math.prod(map(len, listed)) > MAX_DOMAIN:
        return None
    cells = {evaluate(tree, dict(zip(values, row, strict=True))) for row in itertools.product(*listed)}
    found = set()
    for cell in cells - {None}:
        with suppress(NotSupported):  # a number of many digits, or long text, is no value of a domain
            found.add(read_value("the result", tree.type, policy_value(cell)))
    return _sorted(found) or None


@lru_cache(maxsize=128)
def image_of_lookups(tree: Expression) -> tuple[Value, ...] | None:
    """The values of an expression that reads one column, and that only to look up rows of public tables.

    None where it reads anything else. A key that no such table has gives NULL, as NULL does.
    """
    nodes, sources = [*nodes_of(tree)], columns_in(tree)
    keyed = [node for node in nodes if isinstance(node, LookedUp) and isinstance(node.arguments[0], ColumnValue)]
    if len(sources) != 1 or len(keyed) < sum(isinstance(node, ColumnValue) for node in nodes):
        return None
    keys = {key for node in keyed for key in node.public.rows}
    return image(tree, {name: tuple(keys) for name in sources}, forced=())


def image_of_range(tree: Expression, name: str, kind: Type, passing: Values) -> tuple[Value, ...] | None:
    """The values of an expression of one column, where the filter keeps the column in a bounded range of time.

    Of a day each day is looked at. Of a moment it is each hour, day or month that the expression cuts time into.
    """
    if kind == "date":
        days = passing.list_values(MAX_DOMAIN)
        return None if days is None else image(tree, {name: days}, forced=(name,))
    buckets = {node for node in nodes_of(tree) if _is_bucket(node, name)}
    if len(buckets) != 1:
        return None
    [bucket] = buckets
    moments = [each for low, high in passing.intervals for each in (low.value, high.value)]
    if not all(isinstance(moment, datetime) for moment in moments):
        return None
    values: set[Value] = set()
    for low, high in passing.intervals:
        tick = timedelta(microseconds=1)
        first, last = low.value + tick * (low.side > 0), high.value - tick * (high.side < 0)  # type: ignore[operator]
        values |= set(_moments(bucket, name, first, last))
        if len(values) > MAX_DOMAIN:
            return None
    outer = _replaced(tree, bucket, ColumnValue(name, bucket.type))
    if outer is None:
        return None
    return image(outer, {name: tuple(values)}, forced=(name,))


def _is_bucket(tree: Expression, name: str) -> bool:
    """Whether the tree cuts the time of a column into pieces."""
    if not isinstance(tree, Applied) or not any(
        isinstance(each, ColumnValue) and each.name == name for each in tree.arguments
    ):
        return False
    return tree.function == "date_trunc" or (tree.function == "cast" and tree.type == "date")


def _moments(bucket: Expression, name: str, low: Any, high: Any) -> Iterable[Value]:
    """The pieces of time from `low` to `high`, at most `MAX_DOMAIN` and one more."""
    moment = ColumnValue(name, "timestamp")
    unit = bucket.arguments[0] if isinstance(bucket, Applied) and bucket.function == "date_trunc" else None
    word = str(unit.value) if isinstance(unit, Constant) else "day"
    step = {"hour": timedelta(hours=1), "minute": timedelta(minutes=1), "second": timedelta(seconds=1)}.get(word)
    at, count = low, 0
    while count <= MAX_DOMAIN:
        yield evaluate(bucket, {name: at})
        try:
            whole = evaluate(
                Applied("date_trunc", (Constant("day" if step is None else word, "text"), moment), "timestamp"),
                {name: at},
            )
            at = whole + (step or timedelta(days=1))
        except OverflowError:
            return
        count += 1
        if at > high:
            return


def _replaced(tree: Expression, part: Expression, by: ColumnValue) -> Expression | None:
    """The tree with a part replaced; None where the column stands elsewhere too."""
    if tree == part:
        return by
    if isinstance(tree, ColumnValue):
        return None if tree.name == by.name else tree
    if isinstance(tree, Constant):
        return tree
    arguments = [_replaced(argument, part, by) for argument in tree.arguments]
    found = [argument for argument in arguments if argument is not None]
    return replace(tree, arguments=tuple(found)) if len(found) == len(arguments) else None


def _sorted(values: Iterable[Any]) -> tuple[Value, ...]:
    return tuple(sorted(values))
