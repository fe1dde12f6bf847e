"""A report: numbers of an entity over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import Meta
from msgspec.structs import force_setattr

from sfumato.types import TYPES
from sfumato.wire import notes as codes
from sfumato.wire.answer import Answer

if TYPE_CHECKING:
    from sfumato.show import Chart, Figures, Sheet

    Moment: TypeAlias = date
else:
    # A day or a date-time: which of them, the type of the column `start` says.
    Moment = Annotated[Any, Meta(extra_json_schema={"type": "string"})]

ALL = "all"
EXACT = "exact"
"""The mechanism of numbers without noise."""


def raising_words(options: Sequence[str]) -> str:
    """Subject and verb of a sentence: "monotone raises", "monotone, totals and actions raise"."""
    from sfumato.show.text import join_words

    return f"{join_words(options)} {'raises' if len(options) == 1 else 'raise'}"


def raising_options(options: Sequence[str], attribute: str | None) -> tuple[str, ...]:
    """Those of these options that raise numbers by an attribute; None for totals."""
    raising = ("monotone", "actions") if attribute is not None else ("monotone", "totals", "actions")
    return tuple(option for option in raising if option in options)


MaybeCell: TypeAlias = Annotated[Any, Meta(extra_json_schema={"type": ["string", "number", "boolean", "null"]})]


class Report(Answer, frozen=True, kw_only=True):
    """Numbers of a report: a row for each step of time and each value, with a count for each statistic.

    A count that is None is too small to be shown. `start` and `end` are what the clocks show in `zone`; the row is of
    what happened from `start` on and before `end`. `options` are those that made the numbers agree with one another.

    It knows its question: the `report`, the `entity` by level from the top, the range that was asked for, of which all
    before `complete_until` is in the numbers, and the `granularity` of its steps, "all" for one.
    """

    rows: Annotated[
        list[dict[str, MaybeCell]],
        Meta(description="By time; within a step, the largest first. A null count is too small to show."),
    ]
    report: str
    entity: Annotated[dict[str, str], Meta(description="Names by level, the top level first.")]
    start: Annotated[Moment, Meta(description="Start of the requested range, in the form of the rows.")]
    end: Annotated[Moment, Meta(description="End of the requested range, exclusive.")]
    complete_until: Annotated[Moment, Meta(description="The data is complete up to here: `end`, or earlier.")]
    granularity: Annotated[str, Meta(description="A level of time, or `all`: one count for the range.")]
    options: Annotated[list[str], Meta(description="The options that were applied.")]
    zone: Annotated[str, Meta(description="The time zone of `start` and `end`.")]

    def __post_init__(self) -> None:
        Answer.__post_init__(self)
        read = TYPES[self.columns["start"]].from_json
        for name in ("start", "end", "complete_until"):
            if isinstance(moment := getattr(self, name), str):
                force_setattr(self, name, read(moment))

    @property
    def statistics(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name in self.receipt.error95)

    @property
    def attribute(self) -> str | None:
        """The column that the numbers are broken down by; None for totals."""
        return next((name for name in self.columns if name not in ("start", "end", *self.statistics)), None)

    @property
    def exact(self) -> bool:
        """Whether the numbers have no noise: totals that the reader knows anyway."""
        return self.receipt.mechanism == EXACT

    @property
    def raised(self) -> tuple[str, ...]:
        """The options that raised these numbers. Then `error95`, which is of the noise, does not bound them."""
        return () if self.exact else raising_options(self.options, self.attribute)

    @property
    def errors(self) -> dict[str, int | float | None]:
        """As of an answer. An interval is known unless options have raised the numbers."""
        return {name: None if self.raised else error for name, error in super().errors.items()}

    def sheet(self) -> Sheet:
        """The numbers as a page and a picture need them: steps, keys as text, and a count for each statistic."""
        from sfumato.show import Sheet, cell

        steps, cut = self._steps()
        place = {step: at for at, step in enumerate(steps)}
        by, names = self.attribute, self.statistics
        rows = (
            (
                place[row["start"], row["end"]],
                "" if by is None else cell(row[by]),
                tuple(row[name] for name in names),
            )
            for row in self.rows
        )
        return Sheet(
            by=by,
            steps=tuple(steps),
            errors={name: None if self.exact else error for name, error in self.errors.items()},
            rows=tuple(rows),
            zone=self.zone,
            entity=self.entity,
            asked=(self.start, self.end),
            until=self.complete_until,
            level=self.granularity,
            cut=cut,
            accuracy=self._accuracy(),
            hides=self.has_note(codes.SMALL_COUNTS_HIDDEN),
        )

    def _steps(self) -> tuple[list[tuple[date, date]], tuple[int, ...]]:
        """All steps of the complete range, also those of which nothing is shown; and which of them are cut short."""
        from sfumato.query.reports.calendar import Calendar

        shown = {(row["start"], row["end"]) for row in self.rows}
        if self.granularity == ALL:
            return sorted(shown) or [(self.start, self.complete_until)], ()
        calendar = Calendar((self.granularity,), self.zone)
        start, end = (calendar.instant("start", moment) for moment in (self.start, self.complete_until))
        ranges = calendar.steps(start, end, self.granularity)
        days = self.columns["start"] == "date"
        walls = ((wall.date() if days else wall for wall in map(calendar.wall, step)) for step in ranges)
        steps = sorted(shown | {(first, last) for first, last in walls})
        first = [0] if calendar.floor(start) < start else []
        return steps, (*first, *([len(steps) - 1] if calendar.ceil(end) > end else []))

    def figures(self) -> Figures:
        """The shown counts of the first statistic, as bars."""
        return self.sheet().figures(self.statistics[0])

    def chart(self, *, title: str = "") -> Chart:
        """Bars with error whiskers for one range of time; for a series, lines in a band as wide as the error.

        Numbers that are exact, or that options have raised, have neither whiskers nor bands.
        """
        from sfumato import show

        return show.report_chart(self.sheet(), title=title)

    def _repr_html_(self) -> str:
        from sfumato import show

        return show.report_html(self.sheet(), self.lines())

    def __str__(self) -> str:
        from sfumato import show

        return show.sheet_text(self.sheet(), self.lines())

    def lines(self) -> dict[str, str]:
        """The receipt and the notes in words, a label for each line."""
        receipt = self.receipt
        return {
            "receipt": f"{receipt.mechanism}, {self._accuracy()}",
            "guarantee": self._promise(),
            "charge": "nothing: a report debits no account",
            "data": f"{receipt.data_version}, times in {self.zone}",
            "rows": "; ".join([str(len(self.rows)), *map(str, self.notes)]),
        }

    def _accuracy(self) -> str:
        """How far off the numbers may be, in words; of the noise alone where options have raised the numbers."""
        if self.exact:
            return "without noise"
        from sfumato.show.text import noise_within

        noise = noise_within({name: self.receipt.error95[name] for name in self.statistics})
        if not self.raised:
            return noise
        return f"{noise}, before {raising_words(self.raised)} the numbers"

    def _promise(self) -> str:
        from sfumato.show.text import describe_report_promise

        promise = self.receipt.guarantee or {"epsilon": 0, "unit": self.receipt.unit}
        exact = "; totals are exact and not covered" if promise.get("totals") == EXACT else ""
        whole = "over all that is asked under this policy"
        return f"{describe_report_promise(promise)}, {whole}{exact}"
