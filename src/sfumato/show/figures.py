"""What there is to draw: `Figures` for bars, `Sheet` for a report, `Panel` for shares that rise day by day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from sfumato.show.palette import MAX_LINES
from sfumato.show.text import (
    NO_GROUPS,
    figure,
    has_clock_time,
    heading,
    moment_text,
    noise_within,
    partial_steps,
    plus_minus,
    visible,
)


def count_interval(count: float, error: float, *, signed: bool = False) -> tuple[float, float]:
    """The interval around a noisy count. Both ends are at least 0, as true counts are: it misses none because of that.

    Numbers that are computed from counts may be `signed`, and then it has its full width.

    >>> count_interval(10, 26), count_interval(-40, 26)
    ((0, 36), (0, 0))
    """
    ends = count - error, count + error
    return ends if signed else (max(ends[0], 0), max(ends[1], 0))


@dataclass(frozen=True, slots=True)
class Figures:
    """Keys in the columns `by` and, unless `measure` is None, one number per key.

    The noise of each number is within `error`, 19 times in 20. With `intervals`, each row has its own 95 % interval
    instead, and `interval_heading` and `interval_meaning` say which number it is for. With `error` None no interval is
    known. `signed`: the numbers may be below zero without noise. `thinned`: small groups are absent; `whole_from` is
    the size from which they are shown 19 times in 20, if that is known. `total`: the number of rows from which these
    are the largest. `nothing` is shown without rows.
    """

    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    measure: str | None = None
    counts: tuple[float, ...] = ()
    error: float | None = 0
    signed: bool = False
    thinned: bool = False
    whole_from: int | None = None
    intervals: tuple[tuple[float, float], ...] = ()
    interval_heading: str = "95 %"
    interval_meaning: str = "with 95 % intervals"
    total: int | None = None
    nothing: str = NO_GROUPS

    def interval(self, row: int) -> tuple[float, float]:
        """The interval of a row: its own, or the one that `error` gives."""
        return self.intervals[row] if self.intervals else self._around(self.counts[row])

    def _around(self, count: float) -> tuple[float, float]:
        return count_interval(count, self.error or 0, signed=self.signed)

    def within(self, row: int) -> str:
        """The interval of a row as text; empty where it is not known."""
        if self.intervals:
            return " to ".join(map(figure, self.intervals[row]))
        return "" if self.error is None else plus_minus(self.error)

    @property
    def within_heading(self) -> str:
        """The heading of the column that holds `within`."""
        return self.interval_heading if self.intervals else "noise" if self.bounded else ""

    @property
    def bounded(self) -> bool:
        """Whether intervals are known."""
        return bool(self.intervals) or self.error is not None

    def span(self) -> tuple[float, float]:
        """The ends of an axis that holds 0, every number and every interval."""
        ends = [end for row, count in enumerate(self.counts) for end in (count, *self.interval(row))]
        return min([0, *ends]), max([0 if self._fractional and any(ends) else 10, *ends])

    def about(self) -> str:
        """What a reader of the picture must know."""
        error = self.interval_meaning if self.intervals else noise_within(self.error or 0)
        known = error if self.bounded else "without intervals"
        count, total = len(self.keys), self.total or 0
        largest = [f"the {count:,} largest of {total:,}"] if count < total else []
        small = (
            "small groups are absent" if self.whole_from is None else f"groups below {self.whole_from:,} can be absent"
        )
        absent = [small] if self.thinned else []
        return " · ".join([known, *largest, *absent])

    @property
    def _fractional(self) -> bool:
        """Whether the numbers may be fractions, such as means."""
        return any(isinstance(count, float) for count in self.counts)

    @property
    def ticks(self) -> str:
        """How Vega formats the numbers on the axis."""
        return ",.4~r" if self._fractional else ",d"


@dataclass(frozen=True, slots=True)
class Panel:
    """Shares of a whole that rise by day, from day 1 on: one line per label."""

    title: str
    lines: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Numbers above zero across another number: one curve per label, with a point for each of `across`."""

    title: str
    across: tuple[float, ...]
    lines: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The numbers of a report: a count of every measure, per step of time and key of the column `by`.

    A row is (the index of its step, its key, its counts); a count that is None is not shown. Without `by` the counts
    are totals. `errors` has the half-width of the noise per measure, which holds with 95 %; None where it is not
    known, and then `accuracy` says in words what is known.

    The report is about an `entity`, by level from the top, in the range `asked`; the numbers are complete before
    `until`. `cut` has the indices of the steps that are shorter than their `level`. `hides`: small counts are not
    shown.
    """

    by: str | None
    steps: tuple[tuple[date, date], ...]
    errors: Mapping[str, float | None]
    rows: tuple[tuple[int, str, tuple[int | None, ...]], ...]
    zone: str
    entity: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[date, date] | None = None
    until: date | None = None
    level: str = "all"
    cut: tuple[int, ...] = ()
    accuracy: str = ""
    hides: bool = False

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(self.errors)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, sorted by their sum of the first measure, the largest first."""
        sums: dict[str, int] = {}
        for _, key, counts in self.rows:
            sums[key] = sums.get(key, 0) + (counts[0] or 0)
        return tuple(sorted(sums, key=lambda key: -sums[key]))

    @property
    def over_time(self) -> bool:
        return len(self.steps) > 1

    @property
    def shows(self) -> bool:
        """Whether any count is shown."""
        return any(count is not None for _, _, counts in self.rows for count in counts)

    @property
    def whose(self) -> str:
        """The entity in words."""
        return ", ".join(f"{heading(level)} {visible(name)}" for level, name in self.entity.items())

    @property
    def range(self) -> str:
        """The range that was asked for, in words."""
        if self.asked is None:
            return ""
        with_time = any(map(has_clock_time, self.asked))
        start, end = (moment_text(moment, with_time=with_time) for moment in self.asked)
        return f"from {start} to before {end}"

    @property
    def titles(self) -> tuple[str, str]:
        """What is counted; and of whom and when."""
        names = " and ".join(map(heading, self.measures))
        counted = names if self.by is None else f"{names} by {heading(self.by)}"
        return counted, ", ".join(part for part in (self.whose, self.range) if part)

    def start(self, step: int) -> str:
        """The start of a step, marked where the step is partial. Without a time of day where all are midnights."""
        with_time = any(has_clock_time(start) for start, _ in self.steps)
        return f"{moment_text(self.steps[step][0], with_time=with_time)}{' (part)' if step in self.cut else ''}"

    def counts(self, measure: str) -> dict[tuple[int, str], int | None]:
        """The counts of one measure, by step and key."""
        place = self.measures.index(measure)
        return {(step, key): counts[place] for step, key, counts in self.rows}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of `row_key`."""
        return (*(["start"] if self.over_time else []), *([] if self.by is None else [self.by]))

    def row_key(self, step: int, key: str) -> tuple[str, ...]:
        """What tells a row from the others: its start, its key, or both."""
        return (*([self.start(step)] if self.over_time else []), *([] if self.by is None else [key]))

    def figures(self, measure: str) -> Figures:
        """The counts of a measure that are shown, as bars."""
        counts = {place: count for place, count in self.counts(measure).items() if count is not None}
        return Figures(
            by=self.columns,
            keys=tuple(self.row_key(*place) for place in counts),
            measure=measure,
            counts=tuple(counts.values()),
            error=self.errors[measure],
            thinned=len(counts) < len(self.rows),
        )

    def within(self, measure: str) -> str:
        """The error bar of a measure as text; empty where it is not known."""
        error = self.errors[measure]
        return "" if error is None else plus_minus(error)

    @property
    def bounded(self) -> bool:
        """Whether the error bars of all measures are known."""
        return None not in self.errors.values()

    def about(self, total: int = 0) -> str:
        """What a reader of the picture must know; `total` is the number of keys, of which the largest are drawn."""
        known = {name: error for name, error in self.errors.items() if error is not None}
        error = noise_within(known) if self.bounded else visible(self.accuracy)
        largest = f"the {MAX_LINES} largest of {total:,}" if total > MAX_LINES else ""
        gaps = "small counts are not shown" if self.shows and (self.hides or self.thinned) else ""
        cut = partial_steps(self.cut, len(self.steps), self.level)
        zone = visible(self.zone) if self.over_time else ""
        return " · ".join(part for part in (error, largest, gaps, self._complete, cut, zone) if part)

    @property
    def thinned(self) -> bool:
        """Whether counts are missing: a count is None, or a key has no row in a step."""
        every = len(self.rows) == len(self.steps) * len(self.keys)
        return not every or any(count is None for _, _, counts in self.rows for count in counts)

    @property
    def is_open(self) -> bool:
        """Whether the numbers end before the end that was asked for."""
        return self.asked is not None and self.until is not None and self.until < self.asked[1]

    @property
    def _complete(self) -> str:
        """Where the numbers end, if that is before the end that was asked for."""
        if self.until is None or not self.is_open:
            return ""
        return f"complete until {moment_text(self.until, with_time=has_clock_time(self.until))}"
