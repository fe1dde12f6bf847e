"""From a request and a policy to a plan: the engine's query, the mechanism, the worst-case charge and the digest.

Pure: nothing here reads a row or depends on one. The query is a sqlglot tree; an engine turns it into its own dialect.
The choice among the mechanisms depends on the grouped columns in the policy, on the filter, on the length of the list
and on the kind of the engine. It never depends on a row.

|                                     | a person is in few groups                           | in many, or any number |
|-------------------------------------|-----------------------------------------------------|------------------------|
| every grouped column's domain known | known_gaussian: all groups, at one unit per group   | known_gumbel           |
| otherwise                           | threshold_gaussian, or unknown_gaussian where the   | unknown_gumbel         |
|                                     | engine may not return every group                   |                        |

A domain is known if the policy lists it, or if the filter does: if every row that passes has one of at most
`MAX_VALUES` values. With `count_noise = "laplace"` it is `_laplace` instead of `_gaussian`. A person is in at most
`max_groups` groups, and in no more than the domain has. In a known domain, few are as many as cost no more than the
picks of the list: 2 units per row, 1 without counts. In an unknown domain, few are any number that the policy states.
A total is one group.

The table is about the measure that selects the groups. Each further measure is a draw of its own over the released
groups (`sfumato.query.measures`). Where no measure can select, people do. But where all groups are public and no count
orders them, nothing needs to select: they are all there, and cost nothing by themselves.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from sqlglot import exp

from sfumato.accounting import Charge
from sfumato.accounting.numbers import whole
from sfumato.errors import InvalidArgument, NotSupported
from sfumato.mechanisms import MECHANISMS, Mechanism, Step, context
from sfumato.mechanisms.group_measures import GroupCount
from sfumato.mechanisms.known_domain import KnownNoise, PublicGroups
from sfumato.mechanisms.mechanism import Ranking, ShownSizes
from sfumato.mechanisms.noise import Noise
from sfumato.query.counting import Counting, count_query
from sfumato.query.expressions.derive import image, image_of_range
from sfumato.query.expressions.tree import ColumnValue, Expression, LookedUp, columns_in, lookups_in, spell
from sfumato.query.filters import canonical_filter, check_functions
from sfumato.query.measures import FurtherDraw, find_draws, find_selecting, measure_fields, order_measures
from sfumato.query.policy import MAX_DOMAIN, Column, GroupNumber, Measure, Policy, Prices, TablePolicy
from sfumato.query.predicate import AllOf, In, Predicate, Values, sets_of
from sfumato.query.request import MAX_MEASURES, MAX_VALUES, Request, TopK, Total, filter_json
from sfumato.query.values import spelling
from sfumato.types import Type, Value

Key: TypeAlias = tuple[Value, ...]

VERSION = 1
FUNCTIONS_VERSION = 1
"""A new number where any function of one row means something else than before."""

EVERY_GROUP = frozenset(("threshold_laplace", "threshold_gaussian"))
"""The mechanisms that need every group of an unknown domain, not only the largest."""


class Accuracy(NamedTuple):
    """What is known of the errors of an answer before the first row is read.

    `errors` has half-widths by measure: those of counts and sums. `visible` says how large a group must be to be shown,
    in what the selecting measure counts. `signed` are the measures that may be below zero without noise.
    """

    errors: dict[str, int | float]
    visible: ShownSizes | None
    signed: list[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request will be answered. All of it is known before the first row is read.

    `atom` names the noisy ranking or histogram behind the answer. It does not depend on `k`, nor on whether the
    `counts` are shown. `full` computes it, once, to the longest list that can be asked for and with its counts;
    `mechanism` is the part that this request reveals and pays for. `digest` names the answer itself. `types` are those
    of the `columns`, in their order. `asked` is the measure that the request names first: the one that selects, unless
    none of those that are asked for can. `further` are the draws of all measures that do not select.
    """

    table: str
    unit: str
    data_version: str
    columns: tuple[str, ...]
    types: tuple[Type, ...]
    measure: str
    where: Predicate
    k: int
    counts: bool
    counting: Counting
    domain: tuple[Key, ...] | None
    mechanism: Mechanism
    full: Mechanism
    atom: str
    selecting: Measure | None = None
    asked: str = ""
    further: tuple[FurtherDraw, ...] = ()

    @property
    def reserve(self) -> Charge:
        return sum((each.measure.charge_of(self.k) for each in self.further), self.mechanism.reserve)

    @property
    def worst(self) -> tuple[Step, ...]:
        """The steps of the costliest outcome, those of further measures included."""
        return self.worst_at(self.k)

    def worst_at(self, k: int) -> tuple[Step, ...]:
        """The same for a list of `k` rows."""
        return (*self.mechanism.at(k).worst, *self.further_steps(k))

    def further_steps(self, rows: int) -> tuple[Step, ...]:
        """What the further measures of so many rows reveal."""
        return tuple(step for each in self.further for step in each.measure.steps(rows, each.tag))

    @property
    def error95(self) -> int | None:
        """The half-width of the 95 % interval of the counts that are shown; None without counts."""
        if not self.counts:
            return None
        return self.mechanism.error95 if self.domain is None else self.mechanism.list_error95(len(self.domain))

    @property
    def accuracy(self) -> Accuracy:
        """What is known of the errors before the first row is read."""
        first, errors, sizes = self.selecting, dict[str, int | float](), self.full.visible
        numbers = [first, *(draw.exact for draw in self.further)]
        if first is not None and self.error95 is not None:
            errors[self.measure] = self.error95 if first.bounds is None else first.shown(self.error95)
        if first is not None and first.bounds is not None and sizes is not None:
            sizes = ShownSizes(math.ceil(sizes.half * first.step), math.ceil(sizes.most * first.step), sizes.above)
        for draw in self.further:
            if isinstance(draw.exact, Measure) and isinstance(draw.measure, GroupCount):
                errors[draw.exact.name] = draw.exact.shown(draw.measure.width)
        low = [each for each in numbers if each is not None and each.bounds is not None and each.bounds.low < 0]
        signed = [each.name for each in low if getattr(each, "function", "") not in ("variance", "deviation")]
        return Accuracy(errors, sizes, signed)

    def error95_among(self, measure: str, shown: int, released: int) -> float | None:
        """The half-width of a measure for `shown` rows that are chosen from `released` ones by its numbers.

        None where it is not known: for measures that do not select, and without counts. It is wider, because those are
        chosen whose noise was high, or low. Of those that are shown, one in 20 is outside of it, on average over
        answers; none is where nothing is shown (Benjamini and Yekutieli, 2005).
        """
        if self.selecting is None or measure != self.measure or not self.counts:
            return None
        if not shown or shown >= released:
            return self.selecting.shown(self.error95 or 0)
        groups = len(self.domain) if self.domain and isinstance(self.mechanism, KnownNoise) else released
        return self.selecting.shown(self.mechanism.noise.half_width(float(1 - Fraction(shown, 20 * groups))))

    def law_of(self, measure: str) -> tuple[Noise, Fraction] | None:
        """The law of the noise of a count or a sum, and what one of it stands for; None for other measures."""
        if self.selecting is not None and measure == self.measure:
            return (self.mechanism.noise, self.selecting.step) if self.counts else None
        draws = (each for each in self.further if isinstance(each.exact, Measure) and each.exact.name == measure)
        found = next(draws, None)
        if found is None or not isinstance(found.exact, Measure) or not isinstance(found.measure, GroupCount):
            return None
        return found.measure.laws["count"], found.exact.step

    def is_chosen_by(self, measure: str) -> bool:
        """Whether the groups are there because of the very noise that a measure has."""
        is_first_of = isinstance(self.mechanism, KnownNoise) and self.domain is not None and self.k < len(self.domain)
        is_above = self.domain is None and self.mechanism.name != "unknown_gumbel"
        return measure == self.measure and (is_first_of or is_above)

    @property
    def measures(self) -> list[str]:
        """The measures that are asked for besides the first."""
        return sorted(name for draw in self.further for name in draw.shown if name != self.asked)

    @property
    def query(self) -> exp.Select:
        """The exact counts behind the answer. Built when it is needed: a repeat does not need it."""
        return count_query(self.counting)

    @property
    def digest(self) -> str:
        further = {"further": [[draw.atom, *draw.shown] for draw in self.further]} if self.further else {}
        encoded = context(atom=self.atom, measure=self.measure, k=self.k, counts=self.counts, **further)
        return f"sha256:{hashlib.sha256(encoded).hexdigest()}"

    @property
    def public_versions(self) -> dict[str, str]:
        """The versions of the public tables whose rows it looks up, by the names of these tables."""
        found = lookups_in(*(tree for _, tree in self.counting.expressions))
        return {node.public.name: node.public.version for node in sorted(found, key=lambda node: node.public.name)}

    @property
    def request(self) -> dict[str, Any]:
        """The request in one form per meaning, ready for JSON. Read back, it has this very plan."""
        asked: dict[str, Any] = {"table": self.table, "measure": self.asked, "where": filter_json(self.where)}
        if self.further and (names := self.measures):
            asked["measures"] = names
        if not self.columns:
            return {"type": Total.kind, **asked}
        return {"type": TopK.kind, **asked, "by": list(self.columns), "k": self.k, "counts": self.counts}


def plan(request: Request, policy: Policy, prices: Prices, epoch: str = "", *, whole_domain: bool = False) -> Plan:
    """The plan of a request under a policy and a key epoch, or a refusal. `whole_domain`: off the whole histogram."""
    table = policy.table(request.table)
    first, *others = _measures(request, table) if request.measures else (table.measure(request.measure),)
    columns = () if isinstance(request, Total) else _group_columns(request.by, table)
    where = canonical_filter(request.where, table)
    check_functions(columns, table, "by")
    domains = _domains(columns, where, table)
    domain = None if domains is None else tuple(itertools.product(*domains))
    longest = table.max_k if domain is None else min(table.max_k, len(domain))
    k, counts = _length(request, table, longest), not isinstance(request, TopK) or request.counts
    if not isinstance(counts, bool):
        raise NotSupported("must be true, or false for a list without its counts", field="counts")
    groups, is_certain = _groups(columns, domains)
    measure = first if isinstance(first, Measure) and first.bounds is None else None
    measure = measure or find_selecting(first, table, is_known=domain is not None)
    if measure is not first or any(isinstance(each, Measure) for each in others):
        counts = measure is first  # SQL has no list of one measure with the counts of another
    if domain is not None and not whole_domain and (groups or 0) > k * (1 + counts):
        groups = None  # picks cost less than the histogram
    full = _mechanism(groups, longest, measure, table, prices, is_known=domain is not None)
    mechanism = full.at(k)
    if isinstance(mechanism, Ranking):
        mechanism = replace(mechanism, with_counts=counts)
    derived = _derived_columns(columns, where, table)
    counting = Counting(
        table=table.name,
        unit=table.privacy_unit,
        keys=tuple(column.name for column in columns),
        where=where,
        measure=measure or Measure("rows"),
        max_groups=None if is_certain else groups,
        limit=table.limit + 1 if domain is None and full.name not in EVERY_GROUP else None,
        # Where the filter lists the values of a key, it is condition enough.
        public=tuple((each.name, public) for each, public in zip(columns, domains or (), strict=False) if each.domain),
        types=tuple(column.type for column in columns),
        expressions=tuple((each.name, each.expression) for each in derived if each.expression is not None),
    )
    _check_abilities(table, columns, [first, *others], counting.max_groups)
    atom = _atom(table, columns, measure, where, domain, full, longest, epoch, derived)
    further = [each for each in (first, *others) if each is not measure]
    return Plan(
        table=table.name,
        unit=table.privacy_unit,
        data_version=table.version,
        columns=counting.keys,
        types=counting.types,
        measure="" if measure is None else measure.name,
        where=where,
        k=k,
        counts=counts,
        counting=counting,
        domain=domain,
        mechanism=mechanism,
        full=full,
        atom=atom,
        selecting=measure,
        asked=first.name,
        further=find_draws(atom, further, groups, prices) if further else (),
    )


def _measures(request: Request, table: TablePolicy) -> list[GroupNumber]:
    """What is asked of each group, the measure that selects first."""
    if isinstance(request.measures, str) or not all(isinstance(name, str) for name in request.measures):
        raise NotSupported("must be a list of names, such as ['AVG(amount)']", field="measures")
    asked = [table.measure(name) for name in (request.measure, *request.measures)]
    if len(asked) > MAX_MEASURES:
        raise NotSupported(f"a question has at most {MAX_MEASURES} measures; ask twice", field="measures")
    by_name = {each.name: each for each in asked}
    return [by_name[name] for name in order_measures(asked)]


def _group_columns(by: str | Sequence[str], table: TablePolicy) -> tuple[Column, ...]:
    """The grouped columns in one order: a key is a set of columns."""
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise NotSupported("name a column, or several as a list", field="by")
    columns = {table.column(name).name: table.column(name) for name in names}
    if len(columns) < len(names):
        raise NotSupported("a column is named twice", field="by")
    return tuple(columns[name] for name in sorted(columns))


def _check_abilities(
    table: TablePolicy, columns: Sequence[Column], measures: Sequence[GroupNumber], max_groups: int | None
) -> None:
    """Refuse what the engine of the table cannot count."""
    needs_nested = any(isinstance(each, Measure) and each.counts != "units" for each in measures)
    needs_nested = needs_nested or (max_groups is not None and bool(columns))
    if (needs_nested and not table.abilities.nested) or not {column.type for column in columns} <= table.abilities.keys:
        raise _inability(table, columns, measures, max_groups)


def _inability(
    table: TablePolicy, columns: Sequence[Column], measures: Sequence[GroupNumber], max_groups: int | None
) -> NotSupported:
    """Why the engine of the table cannot count this."""
    able = table.abilities
    for measure in measures:
        if problem := able.measure_problem(measure.counts if isinstance(measure, Measure) else "rows"):
            return NotSupported(f"{measure.name} cannot be asked: {problem}", field="measure")
    keys = (able.key_problem(column.name, column.type) for column in columns)
    problem = next(filter(None, keys), "") or able.groups_problem(guaranteed=max_groups is None)
    return NotSupported(problem, field="by")


def _derived_columns(columns: Sequence[Column], where: Predicate, table: TablePolicy) -> list[Column]:
    """The columns of the keys and of the filter that are no columns of the table, in the order of their names."""
    filtered = [table.column(name) for name, _ in sets_of(where)]
    derived = {each.name: each for each in (*columns, *filtered) if each.expression is not None}
    return [derived[name] for name in sorted(derived)]


def _domains(columns: Sequence[Column], where: Predicate, table: TablePolicy) -> list[tuple[Value, ...]] | None:
    """The values that each column can have in a row that passes the filter, if those of all columns are public.

    A condition that every row must meet limits them: one at the top, or one of those that are joined by AND there.
    """
    parts = where.parts if isinstance(where, AllOf) else (where,)
    forced = {part.column: part.values for part in parts if isinstance(part, In)}
    for name in [*forced]:
        tree = table.column(name).expression
        if isinstance(tree, LookedUp) and tree.column == tree.public.key and isinstance(tree.arguments[0], ColumnValue):
            forced.setdefault(tree.arguments[0].name, forced[name])  # the key there is what it was looked up by
    by_column = [
        _values(each, forced[each.name])
        if each.name in forced
        else each.domain
        if each.expression is None
        else _follow(each, each.expression, forced, table)
        for each in columns
    ]
    public = [values for values in by_column if values is not None]
    if len(public) < len(by_column):
        return None
    if math.prod(map(len, public)) <= MAX_DOMAIN:
        return public
    if any(column.domain is None for column in columns):
        return None
    raise NotSupported(f"these columns have more than {MAX_DOMAIN} combinations; group by fewer of them", field="by")


def _follow(
    column: Column, expression: Expression, forced: Mapping[str, Values], table: TablePolicy
) -> tuple[Value, ...] | None:
    """The public values of an expression that the filter does not name: they follow from those that it does name."""
    if not (sources := columns_in(expression)).keys() & forced.keys():
        return column.domain
    if len(sources) == 1:
        [(name, kind)] = sources.items()
        if kind in ("date", "timestamp") and table.named(name).domain is None:
            return image_of_range(expression, name, kind, forced[name]) or column.domain
    values = {name: table.named(name).domain for name in sources}
    values |= {name: _values(table.named(name), forced[name]) for name in sources if name in forced}
    return image(expression, values, forced) or column.domain


def _values(column: Column, passing: Values) -> tuple[Value, ...] | None:
    """The values of a column that pass the filter, if they are public: in the policy, or in a list of the filter.

    Without such a value in the policy it is all of the policy's: their counts are noise around zero.
    """
    known = column.domain or ((False, True) if column.type == "boolean" else None)
    return passing.list_values(MAX_VALUES) if known is None else passing.within(known) or known


def _length(request: Request, table: TablePolicy, longest: int) -> int:
    """How many rows are asked for, at most as many as there can be: 50 or 100 of three regions is one question."""
    if not isinstance(request, TopK) or request.k is None:
        return longest
    try:
        return min(whole("k", request.k, at_least=1, at_most=table.max_k), longest)
    except InvalidArgument as error:
        problem = f"{error.problem}; {table.name} gives lists of 1 to {table.max_k} rows"
        possible = table.max_k if isinstance(request.k, int) and request.k > table.max_k else None
        raise NotSupported(problem, field="k", longest=possible) from None


def _groups(columns: Sequence[Column], domains: Sequence[Sized] | None) -> tuple[int | None, bool]:
    """How many groups a person can be in, and whether that holds without a bound in the query.

    They are at most the product over the columns. Of a column with public values it is at most all of these values. A
    total is one group.
    """
    if domains is None:
        bounds = [column.max_groups for column in columns]
        stated = None if None in bounds else math.prod(bound or 1 for bound in bounds)
        return stated, all(column.guaranteed for column in columns)
    groups, is_certain = 1, True
    for column, values in zip(columns, domains, strict=True):
        bound = min(column.max_groups or len(values), len(values))
        groups *= bound
        is_certain &= column.guaranteed or bound == len(values)
    return groups, is_certain


def _mechanism(
    groups: int | None, longest: int, measure: Measure | None, table: TablePolicy, prices: Prices, *, is_known: bool
) -> Mechanism:
    """The mechanism at its full length, for people in at most so many `groups`; for None, in any number."""
    if measure is None:
        return PublicGroups(epsilon=prices.epsilon_per, k=longest)
    common: dict[str, Any] = {"epsilon": prices.epsilon_per, "tau": measure.max_per_unit, "k": longest}
    kind = "known"
    if not is_known:
        kind = "threshold" if table.abilities.every_group and groups is not None else "unknown"
        common["delta"] = prices.delta_per
        common |= {"limit": table.limit} if kind == "unknown" else {}
        common |= {"max_k": table.max_k} if groups is None else {}
    if groups is None:
        return MECHANISMS[f"{kind}_gumbel"].of(**common, count_noise=prices.count_noise)
    return MECHANISMS[f"{kind}_{prices.count_noise}"].of(**common, max_groups=groups)


def _atom(
    table: TablePolicy,
    columns: Sequence[Column],
    measure: Measure | None,
    where: Predicate,
    domain: tuple[Key, ...] | None,
    mechanism: Mechanism,
    longest: int,
    epoch: str,
    derived: Sequence[Column] = (),
) -> str:
    """The hash of all that the stored ranking depends on: not the length of an answer, nor whether it has counts."""
    expressions: dict[str, Any] = {}
    for each in derived:  # their texts say what they are, once the types of what they read are known
        read = itertools.chain(*columns_in(each.expression).items()) if each.expression else ()
        expressions.setdefault("expressions", [FUNCTIONS_VERSION]).append([each.name, each.type, *read])
    trees = [each.expression for each in derived if each.expression is not None]
    for node in lookups_in(*trees) if trees else ():
        public = [node.public.source, node.public.key, node.public.version]
        expressions.setdefault("public", []).append([spell(node), node.type, *public])
    encoded = context(
        version=VERSION,
        epoch=epoch,
        table=table.name,
        unit=table.privacy_unit,
        data=table.version,
        source=table.source,
        columns=[column.name for column in columns],
        types=[column.type for column in columns],
        bounds=[column.max_groups for column in columns],
        guaranteed=[column.guaranteed for column in columns],
        measure=[measure.counts, measure.column, measure.max_per_unit]
        if measure is not None and measure.bounds is None
        else measure_fields(measure),
        where=str(where),
        domain=None if domain is None else [[spelling(value) for value in key] for key in domain],
        longest=longest,
        mechanism=mechanism.fingerprint(),
        noise=[] if measure is None else [mechanism.noise.family, mechanism.noise.parameter],
        **expressions,
    )
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"
