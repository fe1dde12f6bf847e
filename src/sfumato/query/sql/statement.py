"""A statement: private cores, and what is computed from their released rows.

    WITH t AS (SELECT article, COUNT(DISTINCT member_id) AS n FROM engagements GROUP BY article)    the core
    SELECT article, 100.0 * n / SUM(n) OVER () AS share FROM t WHERE n > 100 ORDER BY share         the rest

A core is a request: it has the price, the digest and the atom that it has alone. Most statements have one; that which
stands there several times is one. The rest costs nothing, because it sees released rows only, and rows of public
tables. Where it only names, orders and cuts the rows of one core, it is an `Arrangement`. Otherwise it is a query over
the relations of these rows, in which every name is resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import Policy
from sfumato.query.public import PublicTable
from sfumato.query.request import Histogram, Request, RequestLike, Total
from sfumato.query.sql.core import Core, read_core, read_limit, read_offset
from sfumato.query.sql.inline import inline_rows
from sfumato.query.sql.linear import either, read_linear
from sfumato.query.sql.parse import parse_query
from sfumato.query.sql.refusals import CLAUSES, ONE_SELECT, first_names
from sfumato.query.sql.relations import (
    Names,
    Output,
    Relation,
    ReleasedSelect,
    check_name,
    find_relation,
    number_in,
    public_relation,
)
from sfumato.query.sql.released import PUBLIC, RELEASED, TOO_DEEP, check_released, write_released
from sfumato.query.sql.scope import read_scope, resolve
from sfumato.types import Type

_NAMING = {"expressions", "from_", "order", "limit"}
MAX_CORES = 16


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Released rows under other names, ordered and cut.

    `columns` are columns of the core, one for each output; `order` has columns of the core, each with whether it is
    descending.
    """

    columns: tuple[str, ...]
    order: tuple[tuple[str, bool], ...] = ()
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ReleasedQuery:
    """A query over released rows as the engine takes it; and one in doubles, for rows on which the first fails."""

    text: str
    in_doubles: str | None


@dataclass(frozen=True, slots=True)
class StatementCore:
    """A core of a statement: its request, and the columns of its released rows."""

    core: Request
    columns: Mapping[str, Type]


@dataclass(frozen=True, slots=True)
class Statement:
    """A core, and how the answer is made of its released rows.

    `columns` are those of the released rows, in their order, and `outputs` those of the answer. Without `rest`, the
    answer is the released rows. `limit` is the LIMIT of the core as it was written. The rest may also read the released
    rows of `further` cores, and `public` tables, in this order. Where noise may decide which rows it has, these are
    `chosen`; so they are where they are as many as its last LIMIT, `cut`.
    """

    core: Request
    columns: Mapping[str, Type] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    rest: Arrangement | ReleasedQuery | None = None
    limit: int | None = None
    further: tuple[StatementCore, ...] = ()
    public: tuple[PublicTable, ...] = ()
    chosen: bool = False
    cut: int | None = None

    @property
    def cores(self) -> list[StatementCore]:
        """All cores, with the columns of their released rows."""
        return [StatementCore(self.core, self.columns), *self.further]

    @property
    def lists(self) -> int:
        """How many columns the rest reads."""
        columns = [*(each.columns for each in self.cores), *(each.columns for each in self.public)]
        return sum(map(len, columns))

    @property
    def is_plain(self) -> bool:
        """Whether it is its core and nothing else, but for names and the order of columns."""
        rest = self.rest
        if not isinstance(rest, Arrangement):
            return rest is None and not self.further
        return {*rest.columns} == {*self.columns} and len(rest.columns) == len(self.columns) and not rest.offset


def read_statement(text: str, policy: Policy) -> Statement:
    """The statement that `text` is, its core typed by the policy. A refusal depends on no row."""
    try:
        return _read(parse_query(text), policy)
    except RecursionError:
        raise NotSupported(TOO_DEEP) from None


@dataclass(frozen=True, slots=True)
class PublicQuery:
    """A query over public tables alone, and the columns that it gives."""

    public: tuple[PublicTable, ...]
    outputs: tuple[Output, ...]
    rest: ReleasedQuery


def read_public(request: RequestLike, policy: Policy) -> PublicQuery | None:
    """The query over public tables that a request in SQL is; None where it is another, or is refused as one."""
    text = request.get("sql") if isinstance(request, Mapping) and len(request) == 1 else request
    if not isinstance(text, str) or not _names(text, policy.public) or _names(text, policy.tables):
        return None
    try:
        reader = StatementReader(policy)
        query, relation = reader.read(parse_query(text), reader.public_names())
        if reader.cores:
            return None
        return PublicQuery(tuple(reader.public.values()), relation.outputs, reader.write(query, {}))
    except RecursionError:
        raise NotSupported(TOO_DEEP) from None


def _names(text: str, tables: Collection[str]) -> bool:
    """Whether a text has the name of one of these tables in it."""
    names = "|".join(map(re.escape, tables))
    return bool(names) and re.search(rf"(?<!\w)(?:{names})(?!\w)", text, re.IGNORECASE) is not None


def _read(tree: exp.Query, policy: Policy) -> Statement:
    reader = StatementReader(policy)
    query, relation = reader.read(inline_rows(tree), reader.public_names() if policy.public else {})
    if len(reader.cores) > 1:
        _drop_unused(query)
    cores = reader.distinct_cores(query)
    if not cores:
        raise NotSupported("the question in WITH is not used, and the rest reads public tables alone; leave WITH out")
    (_, core), *further = cores.items()
    rest: Arrangement | ReleasedQuery | None = None if further else _arrange(query, core)
    if rest is None:
        rest = reader.write(query, cores)
    return Statement(
        core.request,
        core.columns,
        tuple(replace(each, linear=each.linear.of_cores(reader.places)) for each in relation.outputs),
        rest,
        None if further else core.limit,
        tuple(StatementCore(each.request, each.columns) for _, each in further),
        tuple(reader.public.values()),
        relation.chosen,
        relation.limit,
    )


@dataclass(slots=True)
class StatementReader:
    """A statement while it is read, with the cores that it has.

    `places` are those of the cores among the distinct ones, by their numbers; without those that are read in part.
    """

    policy: Policy
    cores: list[Core] = field(default_factory=list)
    public: dict[str, PublicTable] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def public_names(self) -> Names:
        """The public tables as relations."""
        relations = {name.casefold(): public_relation(table) for name, table in self.policy.public.items()}
        return {name: relation for name, relation in relations.items() if relation is not None}

    def read(self, query: exp.Expr, names: Names) -> tuple[exp.Query, Relation]:
        """A query with its columns. Its cores become SELECTs over released rows. The tree is changed."""
        if isinstance(query, exp.Subquery):
            if any(value for part, value in query.args.items() if part != "this"):
                raise NotSupported("ORDER BY, LIMIT and WITH stand inside of the parentheses, with their SELECT")
            return self.read(query.this, names)
        if not isinstance(query, exp.Select | exp.Union):
            raise NotSupported(ONE_SELECT)
        if query.args.get("with_"):
            names = self._read_with(query, names)
        if query.args.get("limit") and read_limit(query) == 0:
            raise NotSupported("LIMIT must be at least 1")
        if query.args.get("offset"):
            read_offset(query)
        if isinstance(query, exp.Union):
            return self._read_union(query, names)
        source = query.args.get("from_")
        is_table = not names and source is not None and isinstance(source.this, exp.Table)
        if is_table or self._is_core(query, names):
            return self._read_core(query, names)
        sources = [find_relation(each.this, names) for each in (query.args["from_"], *(query.args.get("joins") or ()))]
        self.public |= {each.public.name: each.public for each in sources if each is not None and each.public}
        _limit_inner(query)
        return query, ReleasedSelect(query, names, self.read).relation()

    def _is_core(self, select: exp.Select, names: Names) -> bool:
        """Whether a SELECT is one of a table of people, also where public tables are joined to it."""
        source, joins = select.args.get("from_"), select.args.get("joins") or []
        if source is None:
            return True
        tables = [each.this for each in (source, *joins) if isinstance(each.this, exp.Table)]
        found = [find_relation(each, names) for each in tables]
        is_with = any(each is not None and each.public is None for each in found)
        if isinstance(source.this, exp.Subquery) or (is_with and found[0] is not None):
            return False
        if is_with and None in found:
            raise NotSupported(CLAUSES["joins"])
        return None in found

    def _read_core(self, select: exp.Select, names: Names) -> tuple[exp.Query, Relation]:
        weights, scope = list[int](), read_scope(select, self.policy)
        units = scope.table.privacy_unit.casefold()
        keys = select.args["group"].expressions if select.args.get("group") and select.parent else ()
        if any(
            isinstance(key, exp.Column) and key.name.casefold() == units
            for key in (resolve(each, select) for each in keys)
        ):
            raise NotSupported(
                f"numbers per {scope.table.privacy_unit} inside of a question are not supported yet; ask the owner for "
                "a view that has them in a column"
            )

        def scalar(subquery: exp.Subquery) -> exp.Expr:
            query, relation = self.read(subquery.this, names)
            weights.append(relation.weight)
            return number_in(query, relation)

        core = read_core(select, self.policy, scalar)
        for node in core.select.find_all(exp.Identifier):
            if node.this == RELEASED:
                node.set("this", f"{RELEASED}_{len(self.cores)}")
        self.cores.append(core)
        if len(self.cores) > MAX_CORES:
            raise NotSupported(f"a statement has at most {MAX_CORES} questions; ask for the others by themselves")
        items = [(item.alias, item.this) for item in core.select.expressions]
        linear = partial(core.linear, number=len(self.cores) - 1)
        outputs = tuple(Output(name, read_linear(node, linear)) for name, node in items)
        is_total, args = isinstance(core.request, Total), core.select.args
        is_cut = args.get("limit") and not is_total and getattr(core.request, "k", None) is None
        return core.select, Relation(
            outputs,
            1 + sum(weights),
            chosen=any(args.get(clause) for clause in ("where", "distinct", "offset")),
            limit=read_limit(core.select) if is_cut else None,
            single=is_total,
        )

    def _read_with(self, query: exp.Expr, names: Names) -> Names:
        """The names, and those that the WITH of a query adds: each SELECT there sees the names before it."""
        clause = query.args["with_"]
        if clause.args.get("recursive"):
            raise NotSupported("WITH RECURSIVE is not supported yet; WITH without it is")
        known = dict(names)
        for each in clause.expressions:
            rewritten, relation = self.read(each.this, known)
            check_name(each.alias)
            each.set("this", rewritten)
            known[each.alias.casefold()] = relation.renamed(each.args["alias"])
        return known

    def _read_union(self, query: exp.Union, names: Names) -> tuple[exp.Query, Relation]:
        (left, first), (right, second) = self.read(query.this, names), self.read(query.expression, names)
        if len(first.outputs) != len(second.outputs):
            raise NotSupported(
                f"UNION needs as many columns on both sides: {len(first.outputs)}, {len(second.outputs)}"
            )
        for column in query.args["order"].find_all(exp.Column, exp.Query) if query.args.get("order") else ():
            if isinstance(column, exp.Query) or column.table or first.find(column.name) is None:
                there = first_names([output.name[:60] for output in first.outputs])
                raise NotSupported(f"UNION is ordered by its own columns: {there}")
        for part, side in (("this", left), ("expression", right)):
            has_end = any(side.args.get(clause) for clause in ("order", "limit", "offset", "with_"))
            query.set(part, exp.Subquery(this=side) if has_end else side)
        pairs, parts = zip(first.outputs, second.outputs, strict=True), (first, second)
        return query, Relation(
            tuple(Output(one.name, either((one.linear, other.linear))) for one, other in pairs),
            first.weight + second.weight,
            chosen=any(part.chosen or part.limit is not None for part in parts)
            or bool(query.args.get("distinct") or query.args.get("offset")),
            limit=read_limit(query),
        )

    def distinct_cores(self, query: exp.Query) -> dict[str, Core]:
        """The cores by the names of their relations, each once; in `query`, the names of the others are changed.

        Where a core stands there several times, it is as long as the longest of them needs.
        """
        if len(self.cores) == 1:
            self.places = {0: 0}
            return {f"{RELEASED}_0": self.cores[0]}
        groups: dict[Request, list[tuple[str, Core]]] = {}
        used = {table.name for table in query.find_all(exp.Table)}
        for place, core in enumerate(self.cores):
            if f"{RELEASED}_{place}" not in used:
                continue
            group = groups.setdefault(_unlimited(core, self.policy), [])
            group.append((f"{RELEASED}_{place}", core))
        first = {name: group[0][0] for group in groups.values() for name, _ in group}
        for node in query.find_all(exp.Identifier):
            node.set("this", first.get(node.this, node.this))
        for place, group in enumerate(groups.values()):
            if all(core.request == group[0][1].request for _, core in group):
                self.places |= {int(name.removeprefix(f"{RELEASED}_")): place for name, _ in group}
        return {group[0][0]: _longest([core for _, core in group], one) for one, group in groups.items()}

    def write(self, query: exp.Query, cores: Mapping[str, Core]) -> ReleasedQuery:
        """The query for the engine of released rows."""
        check_released(query)
        relations: dict[str, Mapping[str, Type]] = {
            name: {core.places[column]: kind for column, kind in core.columns.items()} for name, core in cores.items()
        }
        relations |= {f"{PUBLIC}{table.name}": table.columns for table in self.public.values()}
        return ReleasedQuery(*write_released(query, relations))


def _drop_unused(query: exp.Query) -> None:
    """Drop each SELECT of WITH whose name is not read: its cores are not asked."""
    unread = True
    while unread:
        read = {table.name.casefold() for table in query.find_all(exp.Table)}
        unread = False
        for clause in [*query.find_all(exp.With)]:
            kept = [each for each in clause.expressions if each.alias.casefold() in read]
            unread |= len(kept) < len(clause.expressions)
            clause.set("expressions", kept)
            if not kept and clause.parent is not None:
                clause.parent.set("with_", None)


def _longest(cores: Sequence[Core], one: Request) -> Core:
    """One core for several that are the same but for their lengths. `one` is all of it."""
    first, *others = cores
    if all(each.request == first.request for each in others):
        return first
    columns, places = max(((each.columns, each.places) for each in cores), key=lambda pair: len(pair[0]))
    return replace(first, request=one, columns=columns, places=places, limit=None)


def _unlimited(core: Core, policy: Policy) -> Request:
    """The request of a core at its full length, with counts, and with its filter in one form per meaning."""
    request = core.request
    where = canonical_filter(request.where, policy.table(request.table))
    if isinstance(request, Total):
        return Total(request.table, request.measure, where, request.measures)
    by = (request.by,) if isinstance(request.by, str) else tuple(sorted(request.by))
    return Histogram(request.table, by, request.measure, where, request.measures)


def _limit_inner(query: exp.Select) -> None:
    """Give the SELECT in FROM the ORDER BY and LIMIT of one around it that only names its columns.

    The rows are the same, and a core needs no more than these.
    """
    source, order = query.args["from_"].this, query.args.get("order")
    inner, has_names = source.this, bool(source.args.get("alias") and source.args["alias"].args.get("columns"))
    clauses = {clause for clause, value in query.args.items() if value}
    if not isinstance(inner, exp.Select) or has_names or not {"limit"} <= clauses <= _NAMING:
        return
    if any(inner.args.get(clause) for clause in ("order", "limit", "offset", "having", "distinct", "with_")):
        return
    if any(item.find(exp.Window, exp.AggFunc, exp.Query) for item in query.expressions):
        return
    names = {item.alias_or_name.casefold() for item in inner.expressions}
    renames = {item.alias.casefold() for item in query.expressions if item.alias} & names
    columns = [each.this for each in order.expressions] if order else []
    if renames or not all(isinstance(each, exp.Column) and each.name.casefold() in names for each in columns):
        return
    inner.set("limit", query.args["limit"].copy())
    if order:
        copied = order.copy()
        for column in copied.find_all(exp.Column):
            column.set("table", None)
        inner.set("order", copied)


def _arrange(query: exp.Query, core: Core) -> Arrangement | None:
    """What a SELECT does with the rows of its core, if it only names, orders and cuts them."""
    if query is not core.select or any(query.args.get(clause) for clause in ("with_", "where", "distinct")):
        return None
    names = {place: name for name, place in core.places.items()}
    order = query.args["order"].expressions if query.args.get("order") else []
    if not all(isinstance(node.this, exp.Column) for node in (*query.expressions, *order)):
        return None
    return Arrangement(
        columns=tuple(names[item.this.name] for item in query.expressions),
        order=tuple((names[each.this.name], bool(each.args.get("desc"))) for each in order),
        offset=read_offset(query) if query.args.get("offset") else 0,
        limit=read_limit(query),
    )
