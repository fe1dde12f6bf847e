"""Names in a SELECT: they resolve against its one table and its SELECT list."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.policy import Column, Policy, TablePolicy
from sfumato.query.sql.refusals import CLAUSES, FORM, example, first_names


@dataclass(frozen=True, slots=True)
class Scope:
    """The table of a SELECT, and its alias there."""

    table: TablePolicy
    alias: str

    def name(self, node: exp.Expr | None) -> str:
        """The name of a plain column, as it is written. A qualifier must be the table or its alias."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star) or node.args.get("db"):
            raise NotSupported(f"only plain columns can be selected and filtered; the form is {FORM}")
        if node.table and node.table.casefold() not in {self.table.name.casefold(), self.alias.casefold()}:
            raise NotSupported(f"there is no table {node.table[:60]!r} in this question; FROM names {self.table.name}")
        return node.name

    def column(self, node: exp.Expr) -> Column:
        """The column of the policy that a node names."""
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise NotSupported(
                f"SELECT * would list people, so there is no preview of {self.table.name}; count them, by "
                f"{first_names(self.table.columns) or 'nothing'}: {example(self.table)}"
            )
        return self.table.column(self.name(node))

    def check_alias(self, item: exp.Expr) -> None:
        """An alias that is another column's name would mean one thing in GROUP BY and another in WHERE."""
        alias, name = item.alias.casefold(), item.unalias().name.casefold()
        if alias and alias != name and alias in {column.casefold() for column in self.table.columns}:
            raise NotSupported(
                f"AS {item.alias[:60]} is the name of a column of {self.table.name}; choose another alias"
            )


def read_scope(select: exp.Select, policy: Policy) -> Scope:
    """The table that FROM names."""
    source = select.args.get("from_")
    if source is None and policy.tables:
        raise NotSupported(
            "nothing is asked without FROM; if this was to test the connection, it works. "
            f"There is {first_names(policy.tables)}: {example(next(iter(policy.tables.values())))}"
        )
    node = source.this if source else None
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise NotSupported(f"ask of one table by its name; the form is {FORM}")
    extras = [clause for clause, value in node.args.items() if value and clause not in ("this", "alias")]
    if extras:
        raise NotSupported(CLAUSES.get(extras[0], "a table is named plainly, without schema or options"))
    return Scope(policy.table(node.name), node.alias or node.name)


def resolve(node: exp.Expr, select: exp.Select) -> exp.Expr:
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
