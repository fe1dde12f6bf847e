"""A core: the SELECT of one table of the policy that is priced, drawn and stored.

Its keys are its GROUP BY, and its measures are those that its SELECT list, HAVING and ORDER BY name. The first of them
selects the groups if one person can only raise it; otherwise people do. All else of the SELECT becomes a SELECT over
the released rows of the core, where HAVING is a filter.

How long the core is follows from the statement alone. ORDER BY the measure that selects, largest first, with LIMIT k is
a list of k rows, and so is LIMIT without ORDER BY. Any other order, HAVING, OFFSET, DISTINCT and windows need all rows
that the policy allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.measures import order_measures
from sfumato.query.policy import Column, GroupNumber, Measure, Policy
from sfumato.query.predicate import EVERYTHING, AllOf, In, Predicate, all_of
from sfumato.query.request import Histogram, Request, TopK, Total
from sfumato.query.sql.aggregates import measure_filter, read_measure
from sfumato.query.sql.joins import inner_filters
from sfumato.query.sql.linear import KNOWN, Linear
from sfumato.query.sql.refusals import CLAUSES, SUBQUERY, check_clauses, example, identifier
from sfumato.query.sql.released import RELEASED
from sfumato.query.sql.scope import Scope, read_scope, resolve
from sfumato.query.sql.where import read_where
from sfumato.types import Type

MAX_LIMIT = 10**9  # no list and no domain has as many rows
MAX_ITEM = 2_000  # nodes of an expression
MEASURE = "n"
"""Measures are the columns `n0`, `n1`, ... of the released rows, and keys `k0`, `k1`, ..., by name."""

ROWS = "rows cannot be listed, only counted"

_CLAUSES = {
    "expressions",
    "from_",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
    "with_",
    "joins",
}


@dataclass(frozen=True, slots=True)
class Core:
    """A core as a request, and what its SELECT makes of the released rows.

    `columns` are those of the released rows by their names in the policy, in the order of the stored answer: the keys
    by name and then the measures. `places` are their names in the relation `RELEASED`, which `select`
    is over. `limit` is the LIMIT as it was written.
    """

    request: Request
    columns: dict[str, Type]
    places: dict[str, str]
    select: exp.Select
    limit: int | None

    def linear(self, column: exp.Column, number: int = 0) -> Linear:
        """How a column of the released rows depends on noise. The core has this number in its statement."""
        name = next((name for name, place in self.places.items() if place == column.name), "")
        return Linear.of_measure(name, number) if column.name.startswith(MEASURE) else KNOWN


def read_core(select: exp.Select, policy: Policy, subquery: Callable[[exp.Subquery], exp.Expr]) -> Core:
    """The core that a SELECT is. `subquery` reads a SELECT inside of an expression. The tree is changed."""
    check_clauses(select, _CLAUSES)
    scope = read_scope(select, policy)
    where = read_condition(select, scope)
    for item in select.expressions:
        scope.check_alias(item, select)
    keys = _read_keys(select, scope)
    if scope.joins:
        where = _with_inner_joins(where, keys, scope)
    if select.args.get("group") is None:
        _refuse_preview(select, scope)
    reader = CoreReader(scope, subquery, keys, {f"k{place}": name for place, name in enumerate(sorted(keys))})
    items = [reader.item(each) for each in select.expressions]
    shown, order, having = {*reader.measures}, select.args.get("order"), select.args.get("having")
    if order is not None:
        reader.resolve_order(order, items)
    if having is not None:
        having = reader.rewrite(having.this, aliases_first=True)
    if not items or not reader.measures:
        units = f"COUNT(DISTINCT {identifier(scope.table.privacy_unit)})"
        bare = f", or ORDER BY {units} DESC for the largest groups without their counts"
        instead = [{"sql": example(scope.table, [*keys])}]
        raise NotSupported(CLAUSES["windows"] if reader.windowed else f"{ROWS}: add {units}{bare}", instead=instead)
    return reader.core(select, where, items, [] if order is None else order.expressions, having, shown=shown)


@dataclass(slots=True)
class CoreReader:
    """What is read of the SELECT of a core. `names` are those in the policy of the columns of its released rows.

    `hiding` are aliases that are names of other columns too: ORDER BY alone knows them, where one stands alone.
    `measures` are by name, in the order in which they were read.
    """

    scope: Scope
    subquery: Callable[[exp.Subquery], exp.Expr]
    keys: dict[str, Column]
    names: dict[str, str]
    measures: dict[str, GroupNumber] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    hiding: dict[str, exp.Expr] = field(default_factory=dict)
    windowed: set[int] = field(default_factory=set)
    filters: list[Predicate] = field(default_factory=list)

    def item(self, item: exp.Expr) -> exp.Expr:
        """An item of the SELECT list over released rows, under the name that it has in the answer."""
        node, hides_column = item.unalias(), self.scope.hides_column(item)
        written = node if item.alias else node.copy()
        rewritten = self.rewrite(node)
        if isinstance(rewritten, exp.Column):
            name = item.alias or (self.scope.joins and self.scope.label(written)) or self.names[rewritten.name]
        else:
            name = item.alias or written.sql()
        if item.alias:
            (self.hiding if hides_column else self.aliases).setdefault(name.casefold(), rewritten)
        return exp.Alias(this=rewritten, alias=exp.Identifier(this=name, quoted=True))

    def resolve_order(self, order: exp.Expr, items: list[exp.Expr]) -> None:
        """ORDER BY over released rows; a number is an item of the SELECT list."""
        for ordered in order.expressions:
            node = ordered.this
            if isinstance(node, exp.Literal) and not node.is_string:
                place = int(node.this) if re.fullmatch("[0-9]{1,4}", node.this) else 0
                if not 1 <= place <= len(items):
                    raise NotSupported(f"there is no column number {node.this[:20]} in the SELECT list")
                ordered.set("this", items[place - 1].this.copy())
            elif isinstance(node, exp.Column) and not node.table and node.name.casefold() in self.hiding:
                ordered.set("this", self.hiding[node.name.casefold()].copy())
            else:
                ordered.set("this", self.rewrite(node, aliases_first=True))

    def rewrite(self, node: exp.Expr, *, aliases_first: bool = False) -> exp.Expr:
        """The expression over released rows: measures and keys become columns of these. `node` is changed."""
        if not isinstance(node, exp.Window | exp.Query):
            column = self._column(node, aliases_first=aliases_first, is_whole=True)
            if column is not None:
                return column

        def visit(each: exp.Expr) -> exp.Expr:
            if isinstance(each, exp.Subquery):
                return self.subquery(each)
            if isinstance(each, exp.Query):
                raise NotSupported(SUBQUERY)
            if isinstance(each, exp.Window):
                function = each.this
                self.windowed |= {id(function), id(function.this) if isinstance(function, exp.Filter) else 0}
            is_counted = isinstance(each, exp.Star) and isinstance(each.parent, exp.Count)
            if each is holder or id(each) in self.windowed or is_counted:
                return each
            return self._column(each, aliases_first=aliases_first) or each

        holder = exp.Paren(this=node)  # a root that is never replaced
        rewritten: exp.Expr = holder.transform(visit, copy=False).this
        if sum(1 for _ in rewritten.walk()) > MAX_ITEM:
            raise NotSupported("an expression is too long; give its parts names in WITH, and compute from these")
        return rewritten

    def _column(self, node: exp.Expr, *, aliases_first: bool, is_whole: bool = False) -> exp.Expr | None:
        """The column of the released rows that a node is; None where it is an expression of such columns.

        `is_whole`: it is no part of an expression.
        """
        known = self.aliases.get(node.name.casefold()) if isinstance(node, exp.Column) and not node.table else None
        if known is not None and aliases_first:
            return known.copy() if isinstance(known, exp.Column) else exp.Paren(this=known.copy())
        try:
            measure = read_measure(node, self.scope)
            if measure is not None:
                self._note_filter(measure_filter(node, self.scope))
                if measure.name not in self.measures:
                    self.names[f"{MEASURE}{len(self.measures)}"] = measure.name
                    self.measures[measure.name] = measure
                return released(next(place for place, name in self.names.items() if name == measure.name))
            key = self._key(node, is_whole=is_whole)
        except NotSupported:
            if known is None:
                raise
            return exp.Paren(this=known.copy())
        return None if key is None else released(next(place for place, name in self.names.items() if name == key.name))

    def _note_filter(self, condition: Predicate | None) -> None:
        """All measures have one filter, so it is one of all rows."""
        if condition is not None:
            self.filters.append(condition)
        if any(each != self.filters[0] for each in self.filters):
            raise NotSupported(
                "two filters of measures in one SELECT are not supported yet; write one filter everywhere, or ask twice"
            )

    def _key(self, node: exp.Expr, *, is_whole: bool) -> Column | None:
        """The key that a node is; None where it is an expression of keys."""
        if isinstance(node, exp.Column | exp.Star):
            column = self.scope.column(node)
            if column.name in self.keys:
                return column
            names = ", ".join(map(identifier, [*self.keys, column.name]))
            group_by = () if self.keys else (column.name,)
            raise NotSupported(f"{ROWS}, so what is selected is grouped by: GROUP BY {names}", group_by=group_by)
        if not is_whole and all(name in self.scope.table.columns for name in self.keys):
            return None
        with suppress(NotSupported):  # an expression that is grouped by
            return self.keys.get(self.scope.column(node).name)
        return None

    def core(
        self,
        select: exp.Select,
        where: Predicate,
        items: list[exp.Expr],
        order: list[exp.Expr],
        having: exp.Expr | None,
        *,
        shown: set[str],
    ) -> Core:
        """The request, and the SELECT over its released rows. `shown` are the measures of the SELECT list."""
        table, limit, by = self.scope.table, read_limit(select), tuple(self.keys)
        measure, *others = order_measures(self.measures.values()) if len(self.measures) > 1 else self.measures
        measures = tuple(others)
        first, place = self.measures[measure], next(each for each, name in self.names.items() if name == measure)
        selects = isinstance(first, Measure) and (first.bounds is None or first.selects)
        where = all_of([where, *self.filters[:1]])
        columns = [each.this.name if isinstance(each.this, exp.Column) else "" for each in order]
        ranks = (
            selects and columns[:1] == [place] and bool(order[0].args.get("desc")) and {*columns[1:]} <= {*self.names}
        )
        distinct, filters_counts = (
            select.args.get("distinct"),
            having is not None and released(place) in having.walk(),
        )
        counts = bool(measure in shown or not ranks or distinct or filters_counts)
        counts = counts or any(isinstance(self.measures[each], Measure) for each in measures)
        needs_all = distinct or having is not None or select.args.get("offset")
        needs_all = needs_all or any(item.find(exp.Window, exp.Query) for item in items)
        k = min(limit, table.max_k) if limit is not None and (ranks or not order) and not needs_all else None
        request: Request
        if not by:
            request = Total(table.name, measure, where, measures)
        elif counts and k is None:
            request = Histogram(table.name, by, measure, where, measures)
        else:
            request = TopK(table.name, by, measure, where, k, counts=counts, measures=measures)
        types: dict[str, Type] = {name: self.keys[name].type for name in sorted(self.keys)}
        for name in [measure] * counts + others:
            types[name] = "integer" if self.measures[name].bounds is None else self.measures[name].type
        over = exp.Select(
            expressions=items, from_=exp.From(this=exp.Table(this=exp.Identifier(this=RELEASED, quoted=True)))
        )
        if having is not None:
            over.set("where", exp.Where(this=having))
        for clause in ("with_", "distinct", "limit", "offset", *(("order",) if counts else ())):
            over.set(clause, select.args.get(clause))
        return Core(request, types, {name: place for place, name in self.names.items()}, over, limit)


def released(place: str) -> exp.Column:
    """A column of the released rows."""
    return exp.Column(this=exp.Identifier(this=place, quoted=True), table=exp.Identifier(this=RELEASED, quoted=True))


def read_condition(select: exp.Select, scope: Scope) -> Predicate:
    """The filter of a SELECT; everything where it has none."""
    where = select.args.get("where")
    if where is None:
        return EVERYTHING
    if where.find(exp.Query):
        raise NotSupported(SUBQUERY)
    return read_where(where.this, scope)


def _with_inner_joins(where: Predicate, keys: Mapping[str, Column], scope: Scope) -> Predicate:
    """The filter, and that every public table of an inner join has a row."""
    parts = where.parts if isinstance(where, AllOf) else (where,)
    filtered = [scope.table.column(part.column) for part in parts if isinstance(part, In)]
    not_null = (column.expression for column in (*keys.values(), *filtered))
    return all_of([where, *inner_filters(scope.joins, not_null)])


def _read_keys(select: exp.Select, scope: Scope) -> dict[str, Column]:
    group = select.args.get("group")
    if group is None:
        return {}
    if any(value for clause, value in group.args.items() if clause != "expressions"):
        raise NotSupported("ROLLUP, CUBE, GROUPING SETS and ALL are not supported yet; GROUP BY columns by name")
    return {key.name: key for key in (scope.column(resolve(node, select)) for node in group.expressions)}


def _refuse_preview(select: exp.Select, scope: Scope) -> None:
    """Refuse columns and nothing to count: a tool shows a preview of the rows."""
    order, items = select.args.get("order"), [item.unalias() for item in select.expressions]
    if not items or (order and read_measure(resolve(order.expressions[0].this, select), scope)):
        return
    if not all(isinstance(item, exp.Column | exp.Star) and not read_measure(item, scope) for item in items):
        return
    if select.args.get("distinct"):
        raise NotSupported(CLAUSES["distinct"])
    columns = [scope.column(item) for item in items]
    by, units = [column.name for column in columns][:3], f"COUNT(DISTINCT {scope.table.privacy_unit})"
    public = len(columns) == 1 and columns[0].domain is not None
    values = f"; its values alone are free: SELECT DISTINCT {identifier(by[0])} ..." if public else ""
    raise NotSupported(
        f"{ROWS}, so there is no preview of them: add {units} and GROUP BY, as in {example(scope.table, by)}{values}",
        instead=[{"sql": example(scope.table, by)}],
    )


def read_limit(query: exp.Query) -> int | None:
    """The number of LIMIT, or of FETCH FIRST, at most `MAX_LIMIT`; None where there is none."""
    limit = query.args.get("limit")
    if isinstance(limit, exp.Fetch):
        if limit.args.get("limit_options") and limit.args["limit_options"].args.get("with_ties"):
            raise NotSupported("WITH TIES is not supported yet; write ROWS ONLY")
        limit = exp.Limit(expression=limit.args.get("count") or exp.Literal.number(1))
        query.set("limit", limit)
    return None if limit is None else _whole("LIMIT", limit)


def read_offset(query: exp.Query) -> int:
    """The number of OFFSET; 0 where there is none."""
    offset = query.args.get("offset")
    return 0 if offset is None else _whole("OFFSET", offset)


def _whole(clause: str, node: exp.Expr) -> int:
    count = node.args.get("expression")
    extras = [part for part, value in node.args.items() if value and part != "expression"]
    if extras or not isinstance(count, exp.Literal) or count.is_string or not re.fullmatch("[0-9]+", count.this):
        raise NotSupported(f"{clause} takes a whole number, such as {clause} 10")
    digits = count.this.lstrip("0")
    number = int(digits or 0) if len(digits) <= 9 else MAX_LIMIT
    node.set("expression", exp.Literal.number(number))
    return number
