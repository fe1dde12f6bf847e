"""JOIN of a table of people with public tables: each is a look-up per row, by the unique key of the public table.

    FROM sales JOIN items USING (item)
    FROM sales AS s LEFT JOIN items AS i ON s.item = i.item

An inner join keeps the rows that have a row there, which is a filter: its key is not NULL. A left join keeps all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.expressions.read import find_lookup
from sfumato.query.expressions.tree import Expression, LookedUp, look_up, spell
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.predicate import ALL_VALUES, In, Predicate
from sfumato.query.public import PublicTable
from sfumato.query.request import MAX_LEVELS
from sfumato.query.sql.refusals import CLAUSES, identifier


@dataclass(frozen=True, slots=True)
class Joined:
    """A public table in FROM, its alias there, and the look-up of its key.

    `has_using`: the key has the name of what it is looked up by.
    """

    public: PublicTable
    alias: str
    key: LookedUp
    is_inner: bool
    has_using: bool

    @property
    def found_by(self) -> Expression:
        """What it is looked up by."""
        return self.key.arguments[0]

    def look_up(self, column: str) -> LookedUp:
        return look_up(self.found_by, self.public, column)


@dataclass(frozen=True, slots=True)
class FromTable:
    """A table in FROM or JOIN, and how it is joined; without `join` where it is the first."""

    node: exp.Table
    join: exp.Join | None = None

    @property
    def alias(self) -> str:
        return self.node.alias or self.node.name


def sort_sources(select: exp.Select, policy: Policy) -> tuple[FromTable, list[FromTable]]:
    """The table of people in FROM and JOIN, and the public tables, in the order in which they are joined."""
    joins = select.args.get("joins") or []
    sources = [FromTable(select.args["from_"].this), *(FromTable(join.this, join) for join in joins)]
    for source in sources:
        if not isinstance(source.node, exp.Table) or not isinstance(source.node.this, exp.Identifier):
            raise NotSupported(CLAUSES["joins"])
    people = [source for source in sources if policy.public_table(source.node.name) is None]
    if len(people) != 1:
        raise NotSupported(_no_private_form(policy))
    [first] = people
    public = [source for source in sources if source is not first]
    if first.join is not None:  # FROM items JOIN sales: the first JOIN after is that of both
        if first is not sources[1] or _is_outer(first.join):
            raise NotSupported(f"begin with the table of people: FROM {first.node.name} LEFT JOIN ...")
        public = [FromTable(sources[0].node, first.join), *public[1:]]
    aliases = [source.alias.casefold() for source in sources]
    if len({*aliases}) < len(aliases):
        raise NotSupported("two tables in FROM have one name; give each its own with AS")
    return first, public


def _no_private_form(policy: Policy) -> str:
    known = ", ".join(f"{each.name} by {each.key}" for each in policy.public.values())
    there = f"public tables can be joined, and there is {known}" if known else "the owner can make tables public"
    return (
        "JOIN has no private form between tables of people: one row there can meet any number of others. Here "
        f"{there}; or ask the owner for a view that joins the tables. Released rows can be joined: SELECTs in "
        "parentheses, and names of WITH"
    )


def _is_outer(join: exp.Join) -> bool:
    """Whether a JOIN keeps rows that have no row on the other side."""
    return bool(join.args.get("side"))


def read_join(source: FromTable, policy: Policy, table: TablePolicy, find: FindKey) -> Joined:
    """How a public table is joined to rows of `table`. `find` gives what the name of a column means before the JOIN."""
    public, join = policy.public_table(source.node.name), source.join
    if public is None or join is None:
        raise NotSupported(CLAUSES["joins"])
    if public.name not in table.public:
        raise NotSupported(f"{public.name} is in another engine than {table.name}, so they cannot be joined")
    side, kind = join.text("side"), join.text("kind")
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        word = " ".join(filter(None, (side, kind)))
        raise NotSupported(f"{word} JOIN is not supported yet; a public table is joined by JOIN or LEFT JOIN")
    form = f"write JOIN {identifier(public.name)} USING ({identifier(public.key)}), or ON with this one equality"
    problem = f"{public.name} is joined by its key, {public.key}: {form}"
    using, condition = [node.name for node in join.args.get("using") or []], join.args.get("on")
    extras = any(value for part, value in join.args.items() if part not in ("this", "side", "kind", "on", "using"))
    if extras or bool(using) == (condition is not None):
        raise NotSupported(problem)
    if using:
        other = exp.column(using[0])
        if [public.column(name) for name in using] != [public.key]:
            raise NotSupported(problem)
    elif condition is not None:
        other = _other_side(condition, public, source.alias, problem)
    key = find_lookup(find(other), public.name, public.key, table.public)
    return Joined(public, source.alias, key, side != "LEFT", bool(using))


FindKey: TypeAlias = Callable[[exp.Column], Expression]


def _other_side(condition: exp.Expr, public: PublicTable, alias: str, problem: str) -> exp.Column:
    """What the key of the public table is compared with in ON."""
    for _ in range(MAX_LEVELS):
        condition = condition.this if isinstance(condition, exp.Paren) else condition
    if isinstance(condition, exp.And):
        raise NotSupported(f"other conditions than the equality of the key belong into WHERE; {problem}")
    sides = [condition.this, condition.expression] if type(condition) is exp.EQ else []
    if not all(isinstance(each, exp.Column) and not isinstance(each.this, exp.Star) for each in sides):
        raise NotSupported(problem)
    names = {alias.casefold(), public.name.casefold()}
    pairs = [(sides[0], sides[1]), (sides[1], sides[0])] if sides else []
    qualified = [(mine, other) for mine, other in pairs if mine.table.casefold() in names]
    plain = [(mine, other) for mine, other in pairs if not mine.table]
    for mine, other in qualified or plain:
        if public.column(mine.name) == public.key and other.table.casefold() not in names:
            return exp.column(other.this, table=other.args.get("table"), db=other.args.get("db"))
    raise NotSupported(problem)


def inner_filters(joins: Sequence[Joined], trees: Iterable[Expression | None]) -> list[Predicate]:
    """The filters that inner joins are. Those that follow from `trees`, which are not NULL, are left out."""
    looked_up = {each for tree in trees for each in _chain(tree)}
    return [
        In(spell(join.key), ALL_VALUES)
        for join in joins
        if join.is_inner and not looked_up & {*[*_chain(join.key)][:1]}
    ]


def _chain(tree: Expression | None) -> Iterator[tuple[Expression, PublicTable]]:
    """The rows of public tables that there must be where a look-up is not NULL."""
    while isinstance(tree, LookedUp):
        [key] = tree.arguments
        yield key, tree.public
        tree = key
