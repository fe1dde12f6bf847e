"""The measures of one question: which selects the groups, and the draws of the others over the released groups."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sfumato.errors import NotSupported
from sfumato.mechanisms import context
from sfumato.mechanisms.group_measures import GroupCount, GroupMean, GroupMeasure, GroupQuantile, GroupVariance
from sfumato.query.policy import GroupNumber, Measure, Prices, TablePolicy, ValueMeasure


def order_measures(measures: Iterable[GroupNumber]) -> list[str]:
    """The names of the measures: the one that selects, if it is among them, and then the others by name.

    The first one selects if one person can only raise it, otherwise people do. Where these are not asked for, a measure
    that cannot select comes first.
    """
    asked = list({each.name: each for each in measures}.values())
    chosen = asked[0]
    if not _selects(chosen):
        people = [each for each in asked if isinstance(each, Measure) and each.counts == "units"]
        chosen = people[0] if people else min((each for each in asked if not _selects(each)), key=_name)
    return [chosen.name, *sorted(each.name for each in asked if each is not chosen)]


def find_selecting(first: GroupNumber, table: TablePolicy, *, is_known: bool) -> Measure | None:
    """The measure that selects the groups: the first one, or people. None where public groups need no selection."""
    if isinstance(first, Measure) and (first.bounds is None or first.selects):
        return first
    if is_known:
        return None
    people = [each for each in table.measures.values() if each.counts == "units"]
    if len(people) != 1:
        raise NotSupported(
            f"the groups are selected by their people, which {table.name} does not count: ask the owner for a measure "
            f'such as people = {{ count = "units" }} in [tables.{table.name}.measures]',
            field="measure",
        )
    return people[0]


def _selects(measure: GroupNumber) -> bool:
    return isinstance(measure, Measure) and measure.selects


def _name(measure: GroupNumber) -> str:
    return measure.name


@dataclass(frozen=True, slots=True)
class FurtherDraw:
    """The noisy numbers of one measure for the released groups of a core.

    `atom` names them; `tag` is their name in the steps of the core. `exact` is what is computed from the rows, and
    `shown` has the measures that are read off them: a deviation is the root of a variance.
    """

    exact: GroupNumber
    measure: GroupMeasure
    atom: str
    shown: tuple[str, ...]

    @property
    def tag(self) -> str:
        return f"{self.measure.name} {self.atom.partition(':')[2][:32]}"


def find_draws(
    core: str, measures: Iterable[GroupNumber], groups: int | None, prices: Prices
) -> tuple[FurtherDraw, ...]:
    """The draws of further measures, over the groups of the core with this atom. A person is in at most `groups`."""
    draws: dict[str, FurtherDraw] = {}
    for each in measures:
        drawn = _mechanism(each, groups, prices)
        encoded = context(core=core, measure=measure_fields(each), mechanism=drawn.fingerprint())
        atom = f"sha256:{hashlib.sha256(encoded).hexdigest()}"
        shown = (*draws[atom].shown, each.name) if atom in draws else (each.name,)
        draws[atom] = FurtherDraw(each, drawn, atom, tuple(sorted(shown)))
    return tuple(draws[atom] for atom in sorted(draws))


def measure_fields(measure: GroupNumber | None) -> list[Any]:
    """What a measure means, for hashing. Never change it."""
    if measure is None:
        return []
    if isinstance(measure, ValueMeasure):
        function = "variance" if measure.function == "deviation" else measure.function
        return [function, measure.column]
    bounds = [] if measure.bounds is None else [measure.bounds.low, measure.bounds.high, measure.bounds.step]
    return [measure.counts, measure.column, measure.max_per_unit, *bounds]


def _mechanism(measure: GroupNumber, groups: int | None, prices: Prices) -> GroupMeasure:
    common: dict[str, Any] = {"epsilon": prices.epsilon_per, "groups": groups, "count_noise": prices.count_noise}
    if isinstance(measure, Measure):
        return GroupCount(tau=measure.max_per_unit, **common)
    common |= {"scale": measure.bounds.scale, "values": measure.bounds.max_per_unit}
    if measure.function == "quantile":
        return GroupQuantile(quantile=measure.quantile, **common)
    return (GroupMean if measure.function == "mean" else GroupVariance)(**common)
