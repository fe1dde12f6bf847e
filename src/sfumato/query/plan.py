"""From a request and a policy to a plan: the engine's query, the mechanism, the worst-case charge and the digest.

Pure: nothing here reads a row or depends on one. The query is a sqlglot tree; an engine turns it into its own dialect.
The choice among the mechanisms is a look-up of the grouped columns in the policy.

|                                     | `max_groups` given              | any number of groups |
|-------------------------------------|---------------------------------|----------------------|
| every grouped column's domain known | known_gaussian (or _laplace)    | known_gumbel         |
| otherwise                           | unknown_gaussian (or _laplace)  | unknown_gumbel       |

A total has one group, that of all rows, and is always known_laplace: one unit.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
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
from sfumato.query.predicate import Predicate
from sfumato.query.request import Request, TopK, Total, filter_json
from sfumato.query.values import spelling
from sfumato.types import Type, Value

Key: TypeAlias = tuple[Value, ...]

VERSION = 1


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


def plan(request: Request, policy: Policy, prices: Prices, epoch: str = "") -> Plan:
    """The plan of a request under a policy and a key epoch, or a refusal in the analyst's words."""
    table = policy.table(request.table)
    measure = table.measure(request.measure)
    columns = () if isinstance(request, Total) else _group_columns(request.by, table)
    where = canonical_filter(request.where, table)
    domain = _domain(columns)
    full = _mechanism(columns, domain, measure, table, prices)
    k, counts = _length(request, table, domain), not isinstance(request, TopK) or request.counts
    if not isinstance(counts, bool):
        raise NotSupported("must be true, or false for a list without its counts", field="counts")
    mechanism = full.at(k)
    if isinstance(mechanism, Ranking):
        mechanism = replace(mechanism, with_counts=counts)
    counting = Counting(
        table=table.name,
        unit=table.privacy_unit,
        keys=tuple(column.name for column in columns),
        where=where,
        measure=measure,
        max_groups=None if all(column.guaranteed for column in columns) else _max_groups(columns),
        domain=domain,
        limit=table.limit + 1 if domain is None else None,
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
        atom=_atom(table, columns, measure, where, domain, full, epoch),
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


def _domain(columns: Sequence[Column]) -> tuple[Key, ...] | None:
    """All keys, where every column's domain is public; a total has one key, ()."""
    domains = [column.domain for column in columns]
    if any(domain is None for domain in domains):
        return None
    if math.prod(len(domain or ()) for domain in domains) > MAX_DOMAIN:
        raise NotSupported(
            f"these columns have more than {MAX_DOMAIN} combinations; group by fewer of them", field="by"
        )
    return tuple(itertools.product(*(domain or () for domain in domains)))


def _longest(table: TablePolicy, domain: tuple[Key, ...] | None) -> int:
    """The longest list there can be: what the policy allows, or all of a public domain."""
    return table.max_k if domain is None else min(table.max_k, len(domain))


def _length(request: Request, table: TablePolicy, domain: tuple[Key, ...] | None) -> int:
    """How many rows are asked for, at most as many as there can be: 50 or 100 of three regions is one question."""
    longest = _longest(table, domain)
    if not isinstance(request, TopK) or request.k is None:
        return longest
    try:
        return min(whole("k", request.k, at_least=1, at_most=table.max_k), longest)
    except InvalidArgument as error:
        problem = f"{error.problem}; {table.name} gives lists of 1 to {table.max_k} rows"
        raise NotSupported(problem, field="k") from None


def _max_groups(columns: Sequence[Column]) -> int | None:
    """How many keys a person can have: the product over the columns; a total is one key."""
    bounds = [column.max_groups for column in columns]
    return None if None in bounds else math.prod(bound or 1 for bound in bounds)


def _mechanism(
    columns: Sequence[Column],
    domain: tuple[Key, ...] | None,
    measure: Measure,
    table: TablePolicy,
    prices: Prices,
) -> Mechanism:
    """The mechanism at its full length."""
    bounded = _max_groups(columns)
    common: dict[str, Any] = {
        "epsilon": prices.epsilon_per,
        "tau": measure.max_per_unit,
        "k": _longest(table, domain),
    }
    if bounded is None:
        common["count_noise"] = prices.count_noise
    else:
        common["max_groups"] = bounded
    if domain is None:
        common |= {"delta": prices.delta_per, "limit": table.limit}
        common |= {"max_k": table.max_k} if bounded is None else {}
    known = "known" if domain is not None else "unknown"
    noise = "gumbel" if bounded is None else ("laplace" if not columns else prices.count_noise)
    return MECHANISMS[f"{known}_{noise}"].of(**common)


def _atom(
    table: TablePolicy,
    columns: Sequence[Column],
    measure: Measure,
    where: Predicate,
    domain: tuple[Key, ...] | None,
    mechanism: Mechanism,
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
        longest=_longest(table, domain),
        mechanism=mechanism.fingerprint(),
        noise=[mechanism.noise.family, mechanism.noise.parameter],
    )
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"
