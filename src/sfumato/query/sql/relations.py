"""Relations of released rows, and the SELECTs over them. Every name in such a SELECT is resolved here.

A name that is no column of the relations in FROM is refused, so it can never mean anything else to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from sfumato.errors import NotSupported, find_nearest
from sfumato.query.public import PublicTable
from sfumato.query.request import SCHEMAS
from sfumato.query.sql.core import read_limit
from sfumato.query.sql.linear import KNOWN, LINEAR, UNCLEAR, Linear, read_linear
from sfumato.query.sql.refusals import CLAUSES, SUBQUERY, first_names
from sfumato.query.sql.released import PUBLIC

RESERVED = "sfumato_"
MAX_WEIGHT = 64
MAX_NAME = 500


@dataclass(frozen=True, slots=True)
class Output:
    """A column of released rows: its name, and how it depends on the noise of its row."""

    name: str
    linear: Linear


@dataclass(frozen=True, slots=True)
class Relation:
    """The columns of a SELECT over released rows. `weight`: the SELECTs in it, each as often as it is read.

    Or those of a `public` table, whose rows are as public as released ones. Where noise may decide which rows are there
    it is `chosen`, but for its own `limit`. A `single` one has one row.
    """

    outputs: tuple[Output, ...]
    weight: int = 1
    public: PublicTable | None = None
    chosen: bool = False
    limit: int | None = None
    single: bool = False

    def __post_init__(self) -> None:
        names = [output.name.casefold() for output in self.outputs]
        for output in self.outputs:
            check_name(output.name)
            if names.count(output.name.casefold()) > 1:
                raise NotSupported(f"two columns are called {output.name[:60]}; give one of them another name with AS")
        if self.weight > MAX_WEIGHT:
            raise NotSupported(f"this is more than {MAX_WEIGHT} SELECTs, each as often as it is read; use fewer")

    def find(self, name: str) -> Output | None:
        return next((output for output in self.outputs if output.name.casefold() == name.casefold()), None)

    def renamed(self, alias: exp.Expr | None) -> Relation:
        """The relation under the names of its columns that an alias lists."""
        names = [] if alias is None else [column.name for column in alias.args.get("columns") or ()]
        if not names:
            return self
        if len(names) != len(self.outputs):
            raise NotSupported(f"there are {len(self.outputs)} columns, and {len(names)} names for them")
        return replace(self, outputs=tuple(map(lambda each, name: replace(each, name=name), self.outputs, names)))


def public_relation(table: PublicTable) -> Relation | None:
    """The relation of a public table; None where its names cannot be those of released rows."""
    try:
        return Relation(tuple(Output(name, KNOWN) for name in table.columns), 1, table)
    except NotSupported:
        return None


Names: TypeAlias = Mapping[str, Relation]
"""Relations that WITH has named, and public tables, by their names without case."""

ReadQuery: TypeAlias = Callable[[exp.Expr, Names], tuple[exp.Query, Relation]]


def number_in(query: exp.Query, relation: Relation) -> exp.Subquery:
    """A SELECT as a number inside of an expression. Where it has one row, it says how it depends on noise."""
    number = exp.Subquery(this=query)
    if relation.single and not relation.chosen and relation.limit is None and len(relation.outputs) == 1:
        number.meta[LINEAR] = relation.outputs[0].linear.joined("")
    return number


def check_name(name: str) -> None:
    """Refuse a name that only the engine may use."""
    if name.casefold().startswith(RESERVED) or not 0 < len(name) <= MAX_NAME or "\x00" in name:
        raise NotSupported(
            f"a name has 1 to {MAX_NAME} characters and does not begin with {RESERVED}; give one with AS: {name[:60]}"
        )


def find_relation(node: exp.Expr, names: Names) -> Relation | None:
    """The relation of WITH that a table in FROM is; None where it is no such name."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        return None
    found = names.get(node.name.casefold())
    if not node.args.get("db"):
        return found
    is_schema = node.db.casefold() in SCHEMAS and not node.args.get("catalog")
    return found if is_schema and found is not None and found.public is not None else None


@dataclass(slots=True)
class ReleasedSelect:
    """A SELECT over relations of released rows, while it is read. `read` reads a query inside of it."""

    select: exp.Select
    names: Names
    read: ReadQuery
    sources: list[tuple[str, Relation]] = field(default_factory=list)
    weight: int = 1
    chosen: bool = False

    def relation(self) -> Relation:
        """The columns of the SELECT. Its tree is changed: every item has its name, and every SELECT in it is read."""
        joins = self.select.args.get("joins") or []
        for node in (self.select.args["from_"], *joins):
            self._add_source(node, is_joined=bool(joins))
        for join in joins:
            if join.args.get("on"):
                self._choose_by(self._resolve(join.args["on"]))
            for using in join.args.get("using") or ():
                self._choose_by(exp.column(using.name))
        if self.select.args.get("where"):
            self._choose_by(self._resolve(self.select.args["where"]).this)
        items = [item for each in self.select.expressions for item in self._items(each)]
        aliases = [item.alias for item in items]
        for clause in ("group", "having", "order"):
            if self.select.args.get(clause):
                self._resolve(self.select.args[clause], aliases)
        self.select.set("expressions", items)
        outputs = tuple(Output(item.alias, read_linear(item.unalias(), self._linear)) for item in items)
        clauses = ("group", "having", "offset", "distinct")
        return Relation(
            outputs,
            self.weight,
            chosen=self.chosen or any(self.select.args.get(clause) for clause in clauses),
            limit=read_limit(self.select),
            single=all(relation.single for _, relation in self.sources),
        )

    def _choose_by(self, condition: exp.Expr) -> None:
        """Rows are there by a condition: where it depends on noise, they are those whose noise was high, or low."""
        self.chosen |= read_linear(condition, self._linear).is_noisy

    def _add_source(self, node: exp.Expr, *, is_joined: bool) -> None:
        """A relation of FROM or JOIN: a name of WITH, or a SELECT in parentheses.

        A join shows rows several times or not at all, so a number in it may be that of another row.
        """
        source = node.this
        relation = find_relation(source, self.names)
        if relation is None and isinstance(source, exp.Subquery):
            query, relation = self.read(source.this, self.names)
            source.set("this", query)
        if relation is None:
            raise NotSupported(CLAUSES["joins"])
        if source.alias_or_name:
            check_name(source.alias_or_name)
        if relation.public is not None:
            name = exp.to_identifier(f"{PUBLIC}{relation.public.name}", quoted=True)
            alias = source.args.get("alias") or exp.TableAlias(this=exp.to_identifier(source.name, quoted=True))
            source.replace(exp.Table(this=name, alias=alias))
            source = node.this
        relation = relation.renamed(source.args.get("alias"))
        self.weight += relation.weight
        if is_joined:
            outputs = (replace(each, linear=each.linear.joined(source.alias_or_name)) for each in relation.outputs)
            relation = replace(relation, outputs=tuple(outputs), single=False)
        self.chosen |= relation.chosen or relation.limit is not None
        self.sources.append((source.alias_or_name.casefold(), relation))

    def _items(self, item: exp.Expr) -> Iterator[exp.Expr]:
        """The items that an item of the SELECT list stands for, each with its name."""
        node = item.unalias()
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            if any(star.args.values()):
                raise NotSupported("EXCLUDE and REPLACE are not supported yet; name the columns")
            yield from self._all_columns(node.table if isinstance(node, exp.Column) else "")
            return
        name = item.alias or (self._find(node, []).name if isinstance(node, exp.Column) else node.sql())
        yield exp.alias_(self._resolve(node), exp.to_identifier(name, quoted=True), copy=False)

    def _all_columns(self, qualifier: str) -> Iterator[exp.Expr]:
        sources = [source for source in self.sources if qualifier.casefold() in ("", source[0])]
        if not sources or (len(self.sources) > 1 and not qualifier):
            raise NotSupported("with JOIN, name the columns instead of *, or write t.* for those of one relation")
        for alias, relation in sources:
            for output in relation.outputs:
                column = exp.column(exp.to_identifier(output.name, quoted=True), table=alias or None)
                yield exp.alias_(column, exp.to_identifier(output.name, quoted=True))

    def _resolve(self, node: exp.Expr, aliases: Iterable[str] = ()) -> exp.Expr:
        """The node with every column known and every SELECT in it read. Some clauses know the names of the items."""
        known = [alias.casefold() for alias in aliases]

        def visit(each: exp.Expr) -> exp.Expr:
            if isinstance(each, exp.Subquery):
                query, relation = self.read(each.this, self.names)
                self.weight += relation.weight
                return number_in(query, relation)
            if isinstance(each, exp.Query):
                raise NotSupported(SUBQUERY)
            if isinstance(each, exp.Column):
                self._find(each, known)
            return each

        parent, place, index = node.parent, node.arg_key, node.index
        holder = exp.Paren(this=node)  # a root that is never replaced
        resolved: exp.Expr = holder.transform(lambda each: each if each is holder else visit(each), copy=False).this
        if isinstance(parent, exp.Expr) and place:
            parent.set(place, resolved, index)
        return resolved

    def _find(self, column: exp.Column, aliases: Iterable[str]) -> Output:
        """The column of a relation in FROM that a name is."""
        if isinstance(column.this, exp.Star) or column.args.get("db"):
            raise NotSupported("* stands alone in a SELECT list; name the columns")
        sources = [relation for alias, relation in self.sources if column.table.casefold() in ("", alias)]
        found = next(filter(None, (relation.find(column.name) for relation in sources)), None)
        if found is not None:
            return found
        if not column.table and column.name.casefold() in aliases:
            return Output(column.name, UNCLEAR)
        there = [output.name for relation in sources for output in relation.outputs]
        near = find_nearest(column.name, there)
        hint = "" if near else f"; there is {first_names(there) or 'none'}"
        raise NotSupported(f"the released rows have no column {column.name[:60]!r}{hint}", nearest=near)

    def _linear(self, column: exp.Column) -> Linear:
        return self._find(column, []).linear
