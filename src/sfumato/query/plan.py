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
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sqlglot import exp

from sfumato.accounting import Charge
from sfumato.accounting.numbers import whole
from sfumato.errors import InvalidArgument, NotSupported
from sfumato.mechanisms import MECHANISMS, Mechanism, context
from sfumato.mechanisms.mechanism import Ranking
from sfumato.query.counting import Counting, count_query
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import MAX_DOMAIN, Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.predicate import AllOf, In, Predicate, Values
from sfumato.query.request import MAX_VALUES, Request, TopK, Total, filter_json
from sfumato.query.values import spelling
from sfumato.types import Type, Value

Key: TypeAlias = tuple[Value, ...]

VERSION = 1

EVERY_GROUP = frozenset(("threshold_laplace", "threshold_gaussian"))
"""The mechanisms that need every group of an unknown domain, not only the largest."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request will be answered. All of it is known before the first row is read.

    `atom` names the noisy ranking or histogram behind the answer. It does not depend on `k`, nor on whether the
    `counts` are shown. `full` computes it, once, to the longest list that can be asked for and with its counts;
    `mechanism` is the part that this request reveals and pays for. `digest` names the answer itself. `types` are those
    of the `columns`, in their order.
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

    @property
    def reserve(self) -> Charge:
        return self.mechanism.reserve

    @property
    def query(self) -> exp.Select:
        """The exact counts behind the answer. Built when it is needed: a repeat does not need it."""
        return count_query(self.counting)

    @property
    def digest(self) -> str:
        encoded = context(atom=self.atom, measure=self.measure, k=self.k, counts=self.counts)
        return f"sha256:{hashlib.sha256(encoded).hexdigest()}"

    @property
    def request(self) -> dict[str, Any]:
        """The request in one form per meaning, ready for JSON. Read back, it has this very plan."""
        asked = {"table": self.table, "measure": self.measure, "where": filter_json(self.where)}
        if not self.columns:
            return {"type": Total.kind, **asked}
        return {"type": TopK.kind, **asked, "by": list(self.columns), "k": self.k, "counts": self.counts}


def plan(request: Request, policy: Policy, prices: Prices, epoch: str = "", *, whole_domain: bool = False) -> Plan:
    """The plan of a request under a policy and a key epoch, or a refusal in the analyst's words.

    With `whole_domain`, a list of a known domain is read off the histogram of all groups, also where picks cost less.
    """
    table = policy.table(request.table)
    measure = table.measure(request.measure)
    columns = () if isinstance(request, Total) else _group_columns(request.by, table)
    where = canonical_filter(request.where, table)
    domains = _domains(columns, where)
    domain = None if domains is None else tuple(itertools.product(*domains))
    longest = table.max_k if domain is None else min(table.max_k, len(domain))
    k, counts = _length(request, table, longest), not isinstance(request, TopK) or request.counts
    if not isinstance(counts, bool):
        raise NotSupported("must be true, or false for a list without its counts", field="counts")
    groups, is_certain = _groups(columns, domains)
    if domain is not None and not whole_domain and (groups or 0) > k * (1 + counts):
        groups = None  # picks cost less than the histogram
    full = _mechanism(groups, longest, measure, table, prices, is_known=domain is not None)
    mechanism = full.at(k)
    if isinstance(mechanism, Ranking):
        mechanism = replace(mechanism, with_counts=counts)
    max_groups = None if is_certain else groups
    needs_nested = measure.counts != "units" or (max_groups is not None and bool(columns))
    if (needs_nested and not table.abilities.nested) or not {column.type for column in columns} <= table.abilities.keys:
        raise _inability(table, columns, measure, max_groups)
    counting = Counting(
        table=table.name,
        unit=table.privacy_unit,
        keys=tuple(column.name for column in columns),
        where=where,
        measure=measure,
        max_groups=max_groups,
        limit=table.limit + 1 if domain is None and full.name not in EVERY_GROUP else None,
        # Where the filter lists the values of a key, it is condition enough.
        public=tuple((each.name, public) for each, public in zip(columns, domains or (), strict=False) if each.domain),
        types=tuple(column.type for column in columns),
    )
    return Plan(
        table=table.name,
        unit=table.privacy_unit,
        data_version=table.version,
        columns=counting.keys,
        types=tuple(column.type for column in columns),
        measure=measure.name,
        where=where,
        k=k,
        counts=counts,
        counting=counting,
        domain=domain,
        mechanism=mechanism,
        full=full,
        atom=_atom(table, columns, measure, where, domain, full, longest, epoch),
    )


def _group_columns(by: str | Sequence[str], table: TablePolicy) -> tuple[Column, ...]:
    """The grouped columns in one order: a key is a set of columns."""
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise NotSupported("name a column, or several as a list", field="by")
    columns = {table.column(name).name: table.column(name) for name in names}
    if len(columns) < len(names):
        raise NotSupported("a column is named twice", field="by")
    return tuple(columns[name] for name in sorted(columns))


def _inability(table: TablePolicy, columns: Sequence[Column], measure: Measure, max_groups: int | None) -> NotSupported:
    """Why the engine of the table cannot count this."""
    able = table.abilities
    if problem := able.measure_problem(measure.counts):
        return NotSupported(f"{measure.name} cannot be asked: {problem}", field="measure")
    keys = (able.key_problem(column.name, column.type) for column in columns)
    problem = next(filter(None, keys), "") or able.groups_problem(guaranteed=max_groups is None)
    return NotSupported(problem, field="by")


def _domains(columns: Sequence[Column], where: Predicate) -> list[tuple[Value, ...]] | None:
    """The values that each column can have in a row that passes the filter, if those of all columns are public.

    A condition that every row must meet limits them: one at the top, or one of those that are joined by AND there.
    """
    parts = where.parts if isinstance(where, AllOf) else (where,)
    forced = {part.column: part.values for part in parts if isinstance(part, In)}
    by_column = [_values(each, forced[each.name]) if each.name in forced else each.domain for each in columns]
    public = [values for values in by_column if values is not None]
    if len(public) < len(by_column):
        return None
    if math.prod(map(len, public)) <= MAX_DOMAIN:
        return public
    if any(column.domain is None for column in columns):
        return None
    raise NotSupported(f"these columns have more than {MAX_DOMAIN} combinations; group by fewer of them", field="by")


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
        raise NotSupported(problem, field="k") from None


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
    groups: int | None, longest: int, measure: Measure, table: TablePolicy, prices: Prices, *, is_known: bool
) -> Mechanism:
    """The mechanism at its full length, for people in at most so many `groups`; for None, in any number."""
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
    measure: Measure,
    where: Predicate,
    domain: tuple[Key, ...] | None,
    mechanism: Mechanism,
    longest: int,
    epoch: str,
) -> str:
    """The hash of all that the stored ranking depends on: not the length of an answer, nor whether it has counts."""
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
        measure=[measure.counts, measure.column, measure.max_per_unit],
        where=str(where),
        domain=None if domain is None else [[spelling(value) for value in key] for key in domain],
        longest=longest,
        mechanism=mechanism.fingerprint(),
        noise=[mechanism.noise.family, mechanism.noise.parameter],
    )
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"
