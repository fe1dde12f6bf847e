"""Names in a SELECT: they resolve against its one table and its SELECT list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot import exp

from sfumato.errors import NotSupported, find_nearest
from sfumato.query.expressions.derive import derive
from sfumato.query.expressions.read import ExpressionReader, day_of
from sfumato.query.expressions.tree import ColumnValue, Expression, LookedUp
from sfumato.query.policy import Column, Policy, TablePolicy
from sfumato.query.request import CATALOG, MAX_LEVELS, SCHEMA, SCHEMAS
from sfumato.query.sql.joins import FromTable, Joined, read_join, sort_sources
from sfumato.query.sql.parse import parse_select
from sfumato.query.sql.refusals import CLAUSES, FORM, example, first_names


@dataclass(frozen=True, slots=True)
class Scope:
    """The table of a SELECT, its alias there, and the public tables that are joined to it."""

    table: TablePolicy
    alias: str
    joins: tuple[Joined, ...] = ()

    def look_up(self, node: exp.Expr) -> LookedUp | None:
        """The look-up that a plain column means; None where it is a column of the table itself.

        After an inner join, the column that it was joined by and the key there are one: the key.
        """
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        if node.db:
            check_schema(node)
        qualifier, name = node.table.casefold(), node.name.casefold()
        own = name in {each.casefold() for each in (*self.table.columns, *self.table.measures, self.table.privacy_unit)}
        joined = [each for each in self.joins if each.alias.casefold() == qualifier]
        if not joined and qualifier not in {"", self.table.name.casefold(), self.alias.casefold()}:
            joined = [each for each in self.joins if each.public.name.casefold() == qualifier]
        elif not qualifier:
            there = [each for each in self.joins if each.public.column(node.name) is not None]
            joined = [each for each in there if not (each.has_using and each.public.key.casefold() == name)]
            if len(joined) + own > 1:
                aliases = ", ".join([*([self.alias] if own else []), *(each.alias for each in joined)])
                raise NotSupported(f"{node.name[:60]} is a column of {aliases}: write one of them and a dot before it")
        if joined:
            return self._joined(joined, node)
        if own and qualifier in {"", self.table.name.casefold(), self.alias.casefold()}:
            for each in (each for each in self.joins if each.is_inner):
                if isinstance(each.found_by, ColumnValue) and each.found_by.name.casefold() == name:
                    return each.key
        return None

    def _joined(self, joined: list[Joined], node: exp.Column) -> LookedUp:
        if len(joined) > 1:
            raise NotSupported(f"{node.table[:60]} is joined twice; give each its own name with AS")
        [join] = joined
        column = join.public.column(node.name)
        if column is None:
            near = find_nearest(node.name, join.public.columns)
            raise NotSupported(f"{join.public.name} has no column {node.name[:60]!r}", nearest=near, unknown=node.name)
        return join.look_up(column)

    def label(self, node: exp.Expr) -> str:
        """What the answer calls a plain column that has no alias; "" where it is called as in the policy."""
        found = self.look_up(node)
        return "" if found is None else found.column

    def name(self, node: exp.Expr | None) -> str:
        """The name of a plain column, as it is written. A qualifier must be the table or its alias."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise NotSupported(f"only plain columns can be selected and filtered; the form is {FORM}")
        if node.db:
            check_schema(node)
        if node.table and node.table.casefold() not in {self.table.name.casefold(), self.alias.casefold()}:
            if node.table.casefold() in {each.alias.casefold() for each in self.joins}:
                raise NotSupported(
                    f"{node.sql()[:60]} is public, and measures are of {self.table.name}; filter and group by it"
                )
            raise NotSupported(f"there is no table {node.table[:60]!r} in this question; FROM names {self.table.name}")
        return node.name

    def column(self, node: exp.Expr) -> Column:
        """The column that a node means: one of the policy, or the one that an expression of them makes."""
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise NotSupported(
                f"SELECT * would list people, so there is no preview of {self.table.name}; count them, by "
                f"{first_names(self.table.columns) or 'nothing'}: {example(self.table)}",
                instead=[{"sql": example(self.table)}],
            )
        if self.joins and (found := self.look_up(node)) is not None:
            return self.derived(found)
        if isinstance(node, exp.Column):
            return self.table.named(self.name(node))
        return self.derived(self.expression(node))

    def derived(self, tree: Expression) -> Column:
        """The column that a tree makes."""
        return derive(tree, self.table.columns)

    def expression(self, node: exp.Expr) -> Expression:
        """The tree of an expression of one row. Its depth is looked at level by level, before anything recurses."""
        level = [node]
        for _ in range(MAX_LEVELS):
            level = [inner for outer in level for inner in outer.iter_expressions()]
        if level:
            raise NotSupported("an expression is nested too deep; ask the owner for a view that has it as a column")
        return ExpressionReader(self.find, day_of(self.table.version), self.table.public).read(node)

    def find(self, node: exp.Column) -> Expression:
        """What a plain column means in an expression."""
        if self.joins and (found := self.look_up(node)) is not None:
            return found
        column = self.table.named(self.name(node))
        return ColumnValue(column.name, column.type)

    def hides_column(self, item: exp.Expr) -> bool:
        """Whether the alias of an item is the name of a column, and the item is another one."""
        alias, name = item.alias.casefold(), item.unalias().name.casefold()
        columns = [*self.table.columns, *(each for join in self.joins for each in join.public.columns)]
        return bool(alias) and alias != name and alias in {column.casefold() for column in columns}

    def check_alias(self, item: exp.Expr, select: exp.Select) -> None:
        """Refuse an alias that hides a column where GROUP BY or HAVING names it: it could mean either."""
        if not self.hides_column(item):
            return
        group, having = select.args.get("group"), select.args.get("having")
        named = [*(group.expressions if group else ()), *(having.find_all(exp.Column) if having else ())]
        columns = (each for each in named if isinstance(each, exp.Column) and not each.table)
        if any(each.name.casefold() == item.alias.casefold() for each in columns):
            raise NotSupported(
                f"AS {item.alias[:60]} is the name of a column of {self.table.name}, and GROUP BY or HAVING could mean "
                "either; choose another alias"
            )


def read_scope(select: exp.Select, policy: Policy) -> Scope:
    """The table that FROM names, and the public tables that it is joined to."""
    clause = select.args.get("from_")
    if clause is None and policy.tables:
        first = example(next(iter(policy.tables.values())))
        raise NotSupported(
            f"nothing is asked without FROM; there is {first_names(policy.tables)}: {first}", instead=[{"sql": first}]
        )
    node = clause.this if clause else None
    public: list[FromTable] = []
    if select.args.get("joins"):
        people, public = sort_sources(select, policy)
        node = people.node
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise NotSupported(f"ask of one table by its name; the form is {FORM}")
    for table in (node, *(source.node for source in public)):
        known = {"this", "alias", "db", "catalog"}
        extras = [clause for clause, value in table.args.items() if value and clause not in known]
        if extras:
            raise NotSupported(CLAUSES.get(extras[0], "a table is named plainly, without options"))
        if table.db:
            check_schema(table)
    scope = Scope(policy.table(node.name), node.alias or node.name)
    for source in public:
        scope = replace(scope, joins=(*scope.joins, read_join(source, policy, scope.table, scope.find)))
    return scope


def check_schema(node: exp.Table | exp.Column) -> None:
    """Refuse a name in a schema that there is not. The one schema has several names, which mean the same."""
    if node.db.casefold() not in SCHEMAS:
        names = " and ".join(sorted(SCHEMAS - {SCHEMA}))
        raise NotSupported(f"there is no schema {node.db[:60]!r}, only {SCHEMA}, which {names} name too")
    if node.catalog and node.catalog.casefold() != CATALOG:
        raise NotSupported(f"there is no database {node.catalog[:60]!r}, only {CATALOG}")


def column_of_text(text: str, table: TablePolicy) -> Column | None:
    """The column that an expression in SQL makes; None where the text is none."""
    node = _parse_expression(text)
    return None if node is None or isinstance(node, exp.Column) else Scope(table, table.name).column(node)


@lru_cache(maxsize=1024)
def _parse_expression(text: str) -> exp.Expr | None:
    """The node of a text; not to be changed. A text that is more or less than one expression has none."""
    try:
        select = parse_select(f"SELECT {text}")
    except NotSupported:
        return None
    if len(select.expressions) != 1 or any(value for name, value in select.args.items() if name != "expressions"):
        return None
    node: exp.Expr = select.expressions[0]
    return None if isinstance(node, exp.Alias | exp.Star) else node


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
