"""What a report may show: statistics of entities, by attribute and over time, as canonical cells.

A cell is one count with one noise: a statistic of an entity, of one value of one attribute (or of all of them, a
total), in one atomic range of time. Every answer is made of whole cells. So the cells that an event falls into bound
what answers tell about it: `guarantee`. Nothing here comes from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta, timezone
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.mechanisms.report_noise import CellNoise
from sfumato.query.predicate import (
    EVERYTHING,
    NOTHING,
    AllOf,
    Cut,
    In,
    Predicate,
    Values,
    all_of,
    any_of,
    columns_of,
    prune,
)
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.gaussian import GaussianCells
from sfumato.types import Type, Value

Option: TypeAlias = Literal["monotone", "totals", "tree", "actions", "calendar"]
Unit: TypeAlias = Literal["event", "person"]

EARLIEST_ZONE = timezone(timedelta(hours=14))  # where days begin first

ADMITTED = "known to the advertiser"

OPTIONS: Mapping[Option, str] = {
    "monotone": "cumulative counts never fall as the end moves: a running maximum, biased upwards, more so the longer",
    "totals": "a total is not below the sum of its shown parts: raised where it is, biased upwards by their noise",
    "tree": "parents are the sum of their children, by least squares: unbiased and less noise, until it is clamped",
    "actions": "an action is not below the one that follows from it: raised where it is, biased upwards when rare",
    "calendar": "days, months and longer ranges are weighed against one another by least squares: unbiased, less noise",
}


def options_conflict(options: Iterable[str]) -> str:
    """Why these options exclude each other, in words; "" where they do not."""
    if {"monotone", "calendar"} <= {*options}:
        return "monotone and calendar exclude each other: a running count must not change when a month is complete"
    return ""


@dataclass(frozen=True, slots=True)
class ReportStatistic:
    """Events of one kind: rows that pass a filter, or the sum of a column of counts over them.

    `epsilon` is that of a cell, by level of time; it is empty where the report has Gaussian noise. `of` is the
    statistic that it follows from: every click is of an impression.
    """

    name: str
    epsilon: Mapping[str, Fraction]
    column: str | None = None
    where: Predicate = EVERYTHING
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column and its public domain. Of the values of an event, the first `max_values` in their order count.

    Several values are a list, or one text with a `separator` between them.
    """

    name: str
    type: Type
    domain: tuple[Value, ...]
    max_values: int = 1
    several: bool = False
    separator: str = ""


@dataclass(frozen=True, slots=True)
class ReportPolicy:
    """One report over one table. `levels` are those of its entities, the top first; `calendar` has those of time.

    A range is complete a `lag` after its end, and is counted then. With a `cap`, at most so many events of a person are
    counted. `reach` is how the rows name their entity: by a column for each level, or by the lowest alone. Noise is
    Laplace noise of the statistics' epsilons, unless `gaussian` says how much Gaussian noise there is.
    """

    name: str
    table: str
    time: str
    calendar: Calendar
    statistics: Mapping[str, ReportStatistic]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    levels: tuple[str, ...] = ()
    reach: Literal["columns", "leaf"] = "columns"
    types: Mapping[str, Type] = field(default_factory=dict)
    unit: str = ""
    min_count: int = 0
    fanout: int = 0
    lag: timedelta = timedelta(hours=1)
    max_versions: int = 1
    cap: int | None = None
    exact_totals: bool = False
    options: tuple[Option, ...] = ()
    source: str = ""
    gaussian: GaussianCells | None = None

    def __post_init__(self) -> None:
        self._check_chains()
        self._check_sums()
        if self.exact_totals and not self.attributes:
            raise InvalidArgument("exact_totals", "are all that this report has, so it promises nothing; add noise")
        if len({statistic.column is None for statistic in self.statistics.values()}) > 1:
            raise InvalidArgument("statistics", "count rows, or add up columns of counts; one report cannot do both")

    def _check_sums(self) -> None:
        """One event more in a column of counts must change nothing but the sum."""
        looked_at = {self.time, *self.levels, *self.attributes}
        looked_at |= {name for each in self.statistics.values() for name in columns_of(each.where)}
        for name in sorted(looked_at & {each.column for each in self.statistics.values()} - {None}, key=str):
            raise InvalidArgument("statistics", f"{name} is added up, and cannot be filtered or grouped by as well")

    def _check_chains(self) -> None:
        for name in self.statistics:
            seen = [name]
            while (above := self.statistics[seen[-1]].of) is not None:
                if above in seen:
                    raise InvalidArgument("statistics", f"{', '.join(seen)} follow from one another in a circle")
                seen.append(above)

    @property
    def days(self) -> bool:
        """Whether the rows carry days and not moments."""
        return self.types.get(self.time) == "date"

    def border_name(self, moment: datetime) -> str:
        """A border of a range, as stored cells name it.

        Days without a time are the same rows in every zone, so their names have no zone: they are the earliest
        midnight on earth, which is not after the midnight of any zone.
        """
        if self.days:
            moment = datetime.combine(self.calendar.wall(moment).date(), time(), EARLIEST_ZONE)
        return moment.astimezone(UTC).isoformat()

    def with_dependents(self, names: Iterable[str]) -> tuple[str, ...]:
        """These statistics and all that follow from them, each before the one that it follows from."""
        wanted = set(names)
        while more := {s.name for s in self.statistics.values() if s.of in wanted} - wanted:
            wanted |= more
        ordered = sorted((name for name in self.statistics if name in wanted), key=self._depth, reverse=True)
        return tuple(ordered)

    def _depth(self, name: str) -> int:
        above = self.statistics[name].of
        return 0 if above is None else 1 + self._depth(above)

    def epsilon(self, statistic: str, level: str) -> Fraction:
        """That of a cell, where noise is Laplace noise."""
        return self.statistics[statistic].epsilon[level]

    def law(self, statistic: str, level: str) -> CellNoise:
        """The noise of a cell."""
        if self.gaussian is not None:
            return DiscreteGaussian(self.gaussian.variance(level))
        return DiscreteLaplace(1 / self.epsilon(statistic, level))

    @property
    def values_of_event(self) -> int:
        """How many cells of one statistic, entity and range an event is in at most: its values, and the total."""
        return sum(attribute.max_values for attribute in self.attributes.values()) + (not self.exact_totals)

    @property
    def depth(self) -> int:
        """The levels of entities; one where there are none."""
        return max(len(self.levels), 1)

    def joint_statistics(self) -> Iterator[tuple[str, ...]]:
        """Sets of statistics that may count one event. Each set that can is part of one of them."""
        for column in dict.fromkeys(statistic.column for statistic in self.statistics.values()):
            yield from _joint_sets([each for each in self.statistics.values() if each.column == column], (), EVERYTHING)


def with_gaussian_noise(policy: ReportPolicy, epsilon: Fraction, delta: Fraction) -> ReportPolicy:
    """The same report with the Gaussian noise that keeps a promise to one event, over all its cells in one version."""
    cells = policy.values_of_event * policy.depth * max(map(len, policy.joint_statistics()))
    return replace(policy, gaussian=GaussianCells.of_promise(policy.calendar.levels, cells, epsilon, delta))


@dataclass(frozen=True, slots=True)
class ReportGuarantee:
    """What all answers of a report together promise: (`epsilon`, `delta`)-DP, for one event or for one person.

    It is the sum of a cell's epsilon over the statistics that count an event, over `attributes` (with their values; the
    total is one more, unless it is exact), and over levels of time and of entities; times `versions` and `events`.
    `seal` is the sum for one event and one version. With `gaussian` noise, rho adds up in that way, but for `events`,
    whose square counts; an epsilon is that of a rho at `delta`.
    """

    unit: Unit
    epsilon: Fraction
    seal: Fraction
    versions: int
    events: int
    statistics: tuple[str, ...]
    attributes: int
    entities: int
    times: int
    exact_totals: bool
    gaussian: GaussianCells | None = None

    @property
    def delta(self) -> Fraction:
        return Fraction(0) if self.gaussian is None else self.gaussian.delta

    @property
    def rho(self) -> Fraction:
        """What Gaussian noise tells about its unit, in zCDP; 0 if the noise is another."""
        return (
            Fraction(0) if self.gaussian is None else self.gaussian.loss(self._cells * self.versions, self.events).rho
        )

    @property
    def _cells(self) -> int:
        """How many cells of each level of time count one event, in one version."""
        return self.attributes * self.entities * len(self.statistics)

    def after(self, versions: int, events: int | None = None) -> Fraction:
        """The epsilon of its unit after so many versions; or of so many events."""
        together = self.events if events is None else events
        if self.gaussian is None:
            return self.seal * versions * together
        return self.gaussian.epsilon_of(self.gaussian.loss(self._cells * versions, together))

    def to_dict(self) -> dict[str, Any]:
        delta = {"delta": float(self.delta)} if self.delta else {}
        exact = {"totals": "exact"} if self.exact_totals else {}
        return {"epsilon": float(self.epsilon), **delta, "unit": self.unit, **exact}


def guarantee(policy: ReportPolicy) -> ReportGuarantee:
    """For one event; for one person where the policy caps a person's events. Proof: proofs/reports.md."""
    gaussian = policy.gaussian
    if gaussian is None:
        statistics = max(policy.joint_statistics(), key=lambda names: _epsilon_over_time(policy, names))
        seal = policy.values_of_event * policy.depth * _epsilon_over_time(policy, statistics)
    else:
        statistics, seal = max(policy.joint_statistics(), key=len), gaussian.epsilon
    promise = ReportGuarantee(
        unit="event" if policy.cap is None else "person",
        epsilon=seal,
        seal=seal,
        versions=policy.max_versions,
        events=policy.cap or 1,
        statistics=statistics,
        attributes=policy.values_of_event,
        entities=policy.depth,
        times=len(policy.calendar.levels),
        exact_totals=policy.exact_totals,
        gaussian=gaussian,
    )
    return replace(promise, seal=promise.after(1, events=1), epsilon=promise.after(policy.max_versions))


@dataclass(frozen=True, slots=True)
class SourceGuarantee:
    """What all that is drawn from the rows of one source promises together, for one event or for one person.

    `parts` are the epsilons that add up, by the name of what is drawn: each has noise of its own. `delta` is the sum of
    their deltas. `tables` are the names of the source in the configuration, and `person` is the column that says whose
    a row is.
    """

    tables: tuple[str, ...]
    unit: Unit
    person: str
    parts: Mapping[str, Fraction]
    delta: Fraction = Fraction(0)

    @property
    def epsilon(self) -> Fraction:
        return sum(self.parts.values(), Fraction(0))

    def to_dict(self) -> dict[str, Any]:
        parts = {name: float(epsilon) for name, epsilon in self.parts.items()}
        delta = {"delta": float(self.delta)} if self.delta else {}
        return {"tables": [*self.tables], "unit": self.unit, "epsilon": float(self.epsilon), **delta, "parts": parts}


def guarantees_by_source(policies: Iterable[ReportPolicy], sources: Iterable[Sequence[str]]) -> list[SourceGuarantee]:
    """The sum for each source that several reports read. `sources` are the tables, those of one source together.

    Guarantees for one event and for one person are not added to one another, nor those for persons by other columns.
    """
    source_of = {table: tables[0] for tables in sources for table in tables}
    groups: dict[tuple[str, Unit, str], list[tuple[ReportPolicy, ReportGuarantee]]] = {}
    for policy in policies:
        promise = guarantee(policy)
        place = source_of[policy.table], promise.unit, policy.unit if promise.unit == "person" else ""
        groups.setdefault(place, []).append((policy, promise))
    return [
        SourceGuarantee(
            tables=tuple(dict.fromkeys(policy.table for policy, _ in members)),
            unit=unit,
            person=person,
            parts={f"report {policy.name}": promise.epsilon for policy, promise in members},
            delta=sum((promise.delta for _, promise in members), Fraction(0)),
        )
        for (_, unit, person), members in groups.items()
        if len(members) > 1
    ]


def _epsilon_over_time(policy: ReportPolicy, statistics: Sequence[str]) -> Fraction:
    """The sum of the epsilons of one event's cells over time, in one attribute and one level of entities."""
    each = (policy.epsilon(name, level) for name in statistics for level in policy.calendar.levels)
    return sum(each, Fraction(0))


def _joint_sets(
    statistics: Sequence[ReportStatistic], names: tuple[str, ...], where: Predicate
) -> Iterator[tuple[str, ...]]:
    """Sets of statistics of one column that may count one event, because their filters can hold at once."""
    if not statistics:
        yield names
        return
    first, *others = statistics
    both = prune(all_of([where, _in_doubles(first.where)]))
    if both != NOTHING:
        yield from _joint_sets(others, (*names, first.name), both)
    if both == NOTHING or first.where != EVERYTHING:
        yield from _joint_sets(others, names, where)


def _in_doubles(where: Predicate) -> Predicate:
    """A filter as engines compare numbers: decimals that are the same double are one value."""
    if not isinstance(where, In):
        join = all_of if isinstance(where, AllOf) else any_of
        return join([_in_doubles(part) for part in where.parts])

    def cut(at: Cut) -> Cut:
        return Cut(Fraction(float(at.value)), at.side) if isinstance(at.value, Fraction) else at

    return In(where.column, Values.union((cut(low), cut(high)) for low, high in where.values.intervals))
