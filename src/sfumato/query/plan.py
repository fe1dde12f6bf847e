"""From a request and a policy to a plan: the engine's query, the mechanism, the worst-case charge and the digest.

Pure: nothing here reads a row, and nothing here depends on one. The query is a sqlglot tree; an engine turns it into
its own dialect. The choice among the mechanisms is a look-up of the grouped columns in the policy.

|                                     | `max_groups` given              | any number of groups |
|-------------------------------------|---------------------------------|----------------------|
| every grouped column's domain known | known_gaussian (or _laplace)    | known_gumbel         |
| otherwise                           | unknown_gaussian (or _laplace)  | unknown_gumbel       |

A total has the one group of everybody, and is always known_laplace: one unit.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlglot import exp

from sfumato.accounting import Charge
from sfumato.accounting.numbers import whole
from sfumato.errors import InvalidArgument, NotSupported
from sfumato.mechanisms import MECHANISMS, Mechanism, context
from sfumato.query.counting import Counting, count_query
from sfumato.query.policy import MAX_DOMAIN, Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.predicate import Predicate, pruned
from sfumato.query.request import Request, TopK, Total, filtered
from sfumato.query.values import Value, spelled

Key: TypeAlias = tuple[Value, ...]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request will be answered, all of it known before the first row is read.

    `atom` names the noisy ranking or histogram behind the answer, whatever k is: equal questions have equal atoms.
    `digest` names the answer itself.
    """

    table: str
    columns: tuple[str, ...]
    measure: str
    query: exp.Select
    mechanism: Mechanism
    domain: tuple[Key, ...] | None
    k: int
    atom: str

    @property
    def reserve(self) -> Charge:
        return self.mechanism.reserve

    @property
    def digest(self) -> str:
        return _sha256(context(atom=self.atom, k=self.k))


def plan(request: Request, policy: Policy, prices: Prices) -> Plan:
    """The plan of a request under a policy, or a refusal in the asker's words."""
    table = policy.table(request.table)
    measure = table.measure(request.measure)
    columns = () if isinstance(request, Total) else _grouped(request.by, table)
    where = pruned(filtered(request.where, table))
    domain = _domain(columns)
    k = _length(request, table)
    mechanism = _mechanism(columns, domain, measure, table, prices, k)
    counting = Counting(
        table=table.name,
        unit=table.privacy_unit,
        keys=tuple(column.name for column in columns),
        where=where,
        measure=measure,
        max_groups=_enforced(columns),
        domain=domain,
        limit=table.limit + 1 if domain is None else None,
        dated=tuple(column.name for column in columns if column.type in ("date", "timestamp")),
    )
    atom = _atom(table, columns, measure, where, domain, mechanism)
    return Plan(table.name, counting.keys, measure.name, count_query(counting), mechanism, domain, k, atom)


def _grouped(by: str | Sequence[str], table: TablePolicy) -> tuple[Column, ...]:
    """The grouped columns in one order: a key is a set of columns taken together."""
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise NotSupported("by: name a column, or several as a list")
    columns = {table.column(name).name: table.column(name) for name in names}
    if len(columns) < len(names):
        raise NotSupported("by: a column is named twice")
    return tuple(columns[name] for name in sorted(columns))


def _domain(columns: Sequence[Column]) -> tuple[Key, ...] | None:
    """All keys, where every column's domain is public; () has the one key of a total."""
    domains = [column.domain for column in columns]
    if any(domain is None for domain in domains):
        return None
    if math.prod(len(domain or ()) for domain in domains) > MAX_DOMAIN:
        raise NotSupported(f"by: these columns have more than {MAX_DOMAIN} combinations; group by fewer of them")
    return tuple(itertools.product(*(domain or () for domain in domains)))


def _length(request: Request, table: TablePolicy) -> int:
    if not isinstance(request, TopK) or request.k is None:
        return table.max_k
    try:
        return whole("k", request.k, at_least=1, at_most=table.max_k)
    except InvalidArgument as error:
        raise NotSupported(f"{error}; {table.name} gives lists of 1 to {table.max_k} rows") from None


def _max_groups(columns: Sequence[Column]) -> int | None:
    """How many keys a person can have: the product over the columns; a total is one key."""
    bounds = [column.max_groups for column in columns]
    return None if None in bounds else math.prod(bound or 1 for bound in bounds)


def _enforced(columns: Sequence[Column]) -> int | None:
    """The bound that the query has to enforce: none where the data guarantees it, or where there is none."""
    return None if all(column.guaranteed for column in columns) else _max_groups(columns)


def _mechanism(
    columns: Sequence[Column],
    domain: tuple[Key, ...] | None,
    measure: Measure,
    table: TablePolicy,
    prices: Prices,
    k: int,
) -> Mechanism:
    bounded = _max_groups(columns)
    common: dict[str, Any] = {"epsilon": prices.epsilon_per, "tau": measure.max_per_unit, "k": k}
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
) -> str:
    """Everything that the noise may depend on, but not k: sections "atom" and "seed fields" of the specification."""
    return _sha256(
        context(
            version=VERSION,
            table=table.name,
            unit=table.privacy_unit,
            data=table.version,
            columns=[column.name for column in columns],
            bounds=[column.max_groups for column in columns],
            guaranteed=[column.guaranteed for column in columns],
            measure=[measure.counts, measure.column, measure.max_per_unit],
            where=str(where),
            domain=None if domain is None else [[spelled(value) for value in key] for key in domain],
            mechanism=mechanism.fingerprint(),
            noise=[mechanism.noise.family, mechanism.noise.parameter],
        )
    )


def _sha256(encoded: bytes) -> str:
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"
