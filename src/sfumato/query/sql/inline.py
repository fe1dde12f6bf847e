"""A SELECT that only picks rows and columns of a table stands for the table: the SELECT around it asks of that.

    SELECT month, COUNT(*) FROM (SELECT extract(month FROM day) AS month FROM sales WHERE paid) t GROUP BY month
    SELECT extract(month FROM day) AS month, COUNT(*) FROM sales WHERE paid GROUP BY extract(month FROM day)

The two are one question. So it is for a name of WITH, and for several SELECTs around one another. Only the tree
changes: what is left is read as if it had been written so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from sfumato.errors import NotSupported, find_nearest

MAX_NODES = 5_000

RowNames: TypeAlias = Mapping[str, exp.Select | None]
"""The names of WITH, without case: the SELECT of rows that a name stands for, or None where it is no such SELECT."""

_PICKING = {"expressions", "from_", "joins", "where", "order", "kind", "hint"}
_NO_ROW = (exp.AggFunc, exp.Window, exp.Query)


def inline_rows(query: exp.Query) -> exp.Query:
    """The query without SELECTs that only pick rows. The tree is changed."""
    _inline(query, {})
    return query


def _inline(query: exp.Expr, names: RowNames) -> None:
    """Inline in a query and in those inside of it."""
    if query.args.get("with_"):
        names = _read_with(query, names)
    for inner in _inner_queries(query):
        _inline(inner, names)
    if not isinstance(query, exp.Select) or query.args.get("from_") is None:
        return
    source = query.args["from_"].this
    rows = _rows_of(source, names)
    if rows is not None and not query.args.get("laterals") and _can_join(rows, query):
        PickedRows(rows, source.alias_or_name).replace_in(query)
        return
    for node in (query.args["from_"], *(query.args.get("joins") or ())):
        named = _rows_of(node.this, names)
        if named is not None and isinstance(node.this, exp.Table):  # the name is gone, and the rows are not
            alias = exp.TableAlias(this=exp.to_identifier(node.this.alias_or_name, quoted=True))
            node.set("this", exp.Subquery(this=named.copy(), alias=alias))


def _read_with(query: exp.Expr, names: RowNames) -> RowNames:
    """The names, and those of a WITH; a SELECT of rows is taken out of it."""
    clause, known, kept = query.args["with_"], dict(names), list[exp.Expr]()
    for each in clause.expressions:
        _inline(each.this, known)
        is_picked = _is_picking(each.this, known) and not each.args["alias"].args.get("columns")
        known[each.alias.casefold()] = each.this if is_picked and not clause.args.get("recursive") else None
        if known[each.alias.casefold()] is None:
            kept.append(each)
    query.set("with_", exp.With(expressions=kept, recursive=clause.args.get("recursive")) if kept else None)
    return known


def _inner_queries(query: exp.Expr) -> Iterator[exp.Query]:
    """The queries that stand directly in a query, but for those of its WITH."""
    waiting = [part for name, value in query.args.items() if name != "with_" for part in _parts(value)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Select | exp.SetOperation):
            yield node
        else:
            waiting += node.iter_expressions()


def _parts(value: object) -> list[exp.Expr]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, exp.Expr)]


def _rows_of(source: exp.Expr, names: RowNames) -> exp.Select | None:
    """The SELECT of rows that a source of FROM is; None where it is something else."""
    if isinstance(source, exp.Table):
        is_name = isinstance(source.this, exp.Identifier) and not source.args.get("db") and not _has_columns(source)
        return names.get(source.name.casefold()) if is_name else None
    if not isinstance(source, exp.Subquery) or _has_columns(source):
        return None
    if any(value for part, value in source.args.items() if part not in ("this", "alias")):
        return None
    inner = source.this
    return inner if isinstance(inner, exp.Select) and _is_picking(inner, names) else None


def _has_columns(source: exp.Expr) -> bool:
    return bool(source.args.get("alias") and source.args["alias"].args.get("columns"))


def _is_picking(query: exp.Expr, names: RowNames) -> bool:
    """Whether a query is a SELECT that picks rows and columns of one table, each row by itself."""
    if not isinstance(query, exp.Select) or query.args.get("from_") is None:
        return False
    table = query.args["from_"].this
    if any(value and clause not in _PICKING for clause, value in query.args.items()) or query.args.get("kind"):
        return False
    if not isinstance(table, exp.Table) or (not table.args.get("db") and table.name.casefold() in names):
        return False
    joins = query.args.get("joins") or []
    if not all(isinstance(join.this, exp.Table) and join.this.name.casefold() not in names for join in joins):
        return False
    if joins and any(item.is_star for item in query.expressions):
        return False  # which columns there are is not known here
    conditions = [query.args["where"]] if query.args.get("where") else []
    return not any(part.find(*_NO_ROW) for part in (*query.expressions, *conditions))


def _can_join(rows: exp.Select, around: exp.Select) -> bool:
    """Whether the joins of the SELECT around some rows can be made to their table."""
    joins = around.args.get("joins") or []
    are_plain = all(isinstance(join.this, exp.Table) and not join.args.get("using") for join in joins)
    names = {join.this.alias_or_name.casefold() for join in joins}
    own = rows.args["from_"].this.alias_or_name.casefold()
    return not joins or (are_plain and not rows.args.get("joins") and own not in names)


@dataclass(frozen=True, slots=True)
class PickedRows:
    """A SELECT of rows under the name that it has in the SELECT around it."""

    rows: exp.Select
    alias: str
    sizes: list[int] = field(default_factory=list)
    others: set[str] = field(default_factory=set)  # the tables that are joined to them

    def replace_in(self, select: exp.Select) -> None:
        """Make a SELECT of these rows one of their table."""
        joins = select.args.get("joins") or []
        aliases = {item.alias.casefold() for item in select.expressions if item.alias}
        self.others.update(join.this.alias_or_name.casefold() for join in joins)
        for join in joins:
            if join.args.get("on"):
                self._rewrite(join.args["on"], set(), last=True)
        select.set("expressions", [self._named(item) for each in select.expressions for item in self._expand(each)])
        for clause in ("where", "group", "having", "distinct"):
            if select.args.get(clause):
                self._rewrite(select.args[clause], aliases if clause in ("group", "having") else set(), last=True)
        if select.args.get("order"):
            self._rewrite(select.args["order"], aliases, last=False)
        picked = self.rows.args.get("where")
        if picked is not None:
            own = select.args.get("where")
            both = [exp.Paren(this=each.this) for each in (picked.copy(), own) if each is not None]
            select.set(
                "where", exp.Where(this=both[0] if len(both) == 1 else exp.And(this=both[0], expression=both[1]))
            )
        select.set("from_", self.rows.args["from_"].copy())
        select.set("joins", [*(join.copy() for join in self.rows.args.get("joins") or ()), *joins])

    def _expand(self, item: exp.Expr) -> Sequence[exp.Expr]:
        """The items that an item stands for: `*` is all of the rows, where these are named."""
        if not item.is_star or any(each.is_star for each in self.rows.expressions):
            return [item]
        return [exp.column(exp.to_identifier(each.alias_or_name, quoted=True)) for each in self.rows.expressions]

    def _named(self, item: exp.Expr) -> exp.Expr:
        """An item of the SELECT list over the table, under the name that it had."""
        node = item.unalias()
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star) or item.alias:
            return self._rewrite(item, set(), last=True)
        found = self._column(node)
        if isinstance(found, exp.Column) and found.name.casefold() == node.name.casefold():
            return found
        return exp.alias_(found, exp.to_identifier(node.name, quoted=True), copy=False)

    def _rewrite(self, node: exp.Expr, aliases: set[str], *, last: bool) -> exp.Expr:
        """The node with the columns of the rows as expressions of the table.

        Names of the SELECT list come first in ORDER BY, and `last` in the other clauses that know them.
        """

        def visit(each: exp.Expr) -> exp.Expr:
            if not isinstance(each, exp.Column) or each.find_ancestor(exp.Query) is not around:
                return each
            is_alias = not each.table and each.name.casefold() in aliases
            if is_alias and not (last and self._find(each.name)):
                return each
            return self._column(each)

        around = node.find_ancestor(exp.Query)
        rewritten: exp.Expr = node.transform(visit, copy=False)
        return rewritten

    def _column(self, column: exp.Column) -> exp.Expr:
        """What a column of the rows is in the table."""
        if column.table.casefold() in self.others:
            return column
        if column.args.get("db") or (column.table and column.table.casefold() != self.alias.casefold()):
            raise NotSupported(
                f"there is no table {column.table[:60]!r} in this question; FROM names {self.alias[:60]}"
            )
        if isinstance(column.this, exp.Star):
            return exp.Star()
        found = self._find(column.name)
        if found is not None:
            self.sizes.append(sum(1 for _ in found.walk()))
            if sum(self.sizes) > MAX_NODES:
                raise NotSupported("the SELECTs of rows in this statement are too long together; write one SELECT")
            return found.copy() if isinstance(found, exp.Column) else exp.Paren(this=found.copy())
        if self.others and not column.table:
            return column
        if any(item.is_star for item in self.rows.expressions):
            table = exp.to_identifier(self.rows.args["from_"].this.alias_or_name, quoted=True)
            return exp.Column(this=column.this.copy(), table=table)
        names = [item.alias_or_name for item in self.rows.expressions]
        near = find_nearest(column.name, names)
        raise NotSupported(
            f"{self.alias[:60] or 'the SELECT in FROM'} has no column {column.name[:60]!r}", nearest=near
        )

    def _find(self, name: str) -> exp.Expr | None:
        """The expression that has a name in the rows."""
        named = (item for item in self.rows.expressions if not item.is_star)
        found = [item for item in named if item.alias_or_name.casefold() == name.casefold()]
        if len(found) > 1:
            raise NotSupported(f"two columns are called {name[:60]}; give one of them another name with AS")
        return found[0].unalias() if found else None
