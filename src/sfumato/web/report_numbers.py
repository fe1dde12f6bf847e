"""The numbers of a report as a page and a file need them: also those that are not shown, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sfumato.query.reports.calendar import ALL
from sfumato.show import count_interval, distinct, figure, heading
from sfumato.show.text import has_clock_time, moment_text, plus_minus
from sfumato.types import TYPES
from sfumato.web.report_view import describe_moment, level_name
from sfumato.wire import Report, ReportInfo
from sfumato.wire.csv_text import write_csv

Reason: TypeAlias = Literal["", "small", "later", "part"]


@dataclass(frozen=True, slots=True)
class ReportNumber:
    """A number with its 95 % interval, or the reason why there is none. Where that is `part`, there is a number."""

    count: int | None
    ends: tuple[float, float] | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class NumberRow:
    """The numbers of a range of time and a value, one per statistic. `label` is None where they are of all values."""

    start: date
    end: date
    label: Any
    is_part: bool
    numbers: tuple[ReportNumber, ...]


def list_rows(report: Report, info: ReportInfo, *, ranked: bool) -> list[NumberRow]:
    """All rows of the range: those that the report has, those that are too small to show, and what comes later.

    A report that is `ranked` has the largest keys only. Otherwise every value of the public domain has its rows.
    """
    sheet, by, later = report.sheet(), report.attribute, report.complete_until < report.end
    found = {(row["start"], row["end"], _read_key(report, row)): row for row in report.rows}
    labels = _label_keys(report, [] if ranked or by is None else info.attributes[by])
    rows = []
    for place, (start, end) in enumerate(sheet.steps):
        is_part = place in sheet.cut or (later and report.granularity == ALL)
        for key, label in labels.items():
            counts = found.get((start, end, key), {})
            numbers = [_number(counts.get(name), error, is_part=is_part) for name, error in report.errors.items()]
            rows.append(NumberRow(start, end, label, is_part, tuple(numbers)))
    if later:
        missing = (ReportNumber(None, None, "later"),) * len(report.statistics)
        rows.append(NumberRow(report.complete_until, report.end, None, False, missing))
    return rows


def _number(count: int | None, error: float | None, *, is_part: bool) -> ReportNumber:
    if count is None:
        return ReportNumber(None, None, "small")
    return ReportNumber(count, None if error is None else count_interval(count, error), "part" if is_part else "")


def _label_keys(report: Report, domain: Sequence[Any]) -> dict[Any, Any]:
    """The value that is shown for each key: first those of rows, the largest first, and then those of the domain."""
    by = report.attribute
    if by is None:
        return {None: None}
    sums, labels = Counter[Any](), dict[Any, Any]()
    for row in report.rows:
        key = _read_key(report, row)
        labels[key] = row[by]
        sums[key] += row[report.statistics[0]] or 0
    ranked = {key: labels[key] for key in sorted(labels, key=lambda key: -sums[key])}
    others = [TYPES[report.columns[by]].read(value) for value in domain]
    return ranked | {key: float(key) if isinstance(key, Fraction) else key for key in others if key not in ranked}


def _read_key(report: Report, row: Mapping[str, Any]) -> Any:
    """The key of a row in its one form, which a value of the domain has too."""
    by = report.attribute
    return None if by is None else TYPES[report.columns[by]].read(row[by])


# -- words --


def describe_reasons(report: Report, info: ReportInfo) -> dict[Reason, str]:
    """What a legend says of numbers that are not shown, and of those that are not of a whole step."""
    whole = "range" if report.granularity == ALL else level_name(report.granularity)
    return {
        "small": f"it is below {info.min_count}",
        "later": f"the data goes up to {describe_moment(report.complete_until)}",
        "part": f"less than the whole {whole} is in it",
    }


REASONS: Mapping[Reason, str] = {
    "": "",
    "small": "too small to show",
    "later": "not complete yet",
    "part": "only part of a step",
}


def describe_when(row: NumberRow, report: Report) -> str:
    """The step of a row; both ends where it is not a whole one."""
    with_time = report.granularity[:1].isdigit() or has_clock_time(row.start) or has_clock_time(row.end)
    start, end = (moment_text(moment, with_time=with_time) for moment in (row.start, row.end))
    is_step = report.granularity != ALL and not row.is_part and row.start < report.complete_until
    return start if is_step else f"{start} to before {end}"


@dataclass(frozen=True, slots=True)
class ReportTotal:
    """A number on top of the page: its name, its value, and how far off it may be. `is_small`: it is not shown."""

    name: str
    text: str
    within: str
    is_small: bool = False


def list_totals(report: Report, follows: Mapping[str, str]) -> Iterator[ReportTotal]:
    """The totals of the range, and the rate of each statistic that follows from another of them."""
    counts = next(iter(report.rows), {})
    for name, error in report.errors.items():
        count = counts.get(name)
        within = "exact" if report.exact else "no interval is known" if error is None else plus_minus(error)
        text = REASONS["small"] if count is None else figure(count)
        yield ReportTotal(heading(name), text, "" if count is None else within, count is None)
    for name, of in follows.items():
        if name in report.statistics and of in report.statistics:
            yield _find_rate(report, counts, name, of)


def _find_rate(report: Report, counts: Mapping[str, Any], name: str, of: str) -> ReportTotal:
    """How many of one statistic there are per 100 of another.

    Each interval misses with at most 5 %, so both hold, and with them that of the rate, with at least 90 %.
    """
    title = f"{heading(name)} per 100 {heading(of)}"
    above, below = counts.get(name), counts.get(of)
    if above is None or below is None or below <= 0:
        return ReportTotal(title, REASONS["small"], "", is_small=True)
    text = f"{100 * above / below:,.2f}"
    errors = report.errors[name], report.errors[of]
    if report.exact:
        return ReportTotal(title, text, "exact")
    if errors[0] is None or errors[1] is None:
        return ReportTotal(title, text, "no interval is known")
    (low, high), (least, most) = count_interval(above, errors[0]), count_interval(below, errors[1])
    lower = f"{10_000 * low // most / 100:,.2f}"  # both ends are rounded outwards
    if least <= 0:
        return ReportTotal(title, text, f"at least {lower}, with at least 90 %")
    upper = f"{-(-10_000 * high // least) / 100:,.2f}"
    return ReportTotal(title, text, f"{lower} to {upper}, with at least 90 %")


# -- files --


def write_numbers(report: Report, info: ReportInfo, *, ranked: bool) -> bytes:
    """All numbers as CSV, one per line, with both ends of their intervals, or why there is none."""
    by = report.attribute
    heads = [*report.entity, "start", "end", *([] if by is None else [by])]
    kinds = ["text"] * len(report.entity) + [report.columns["start"]] * 2 + ([] if by is None else [report.columns[by]])
    heads += ["statistic", "number", "at least", "at most", "why"]
    kinds += ["text", "integer", "number", "number", "text"]
    lines = [
        [*report.entity.values(), row.start, row.end, *([] if by is None else [row.label]), *number]
        for row in list_rows(report, info, ranked=ranked)
        for number in _write_numbers(row, report.statistics)
    ]
    names = distinct(heads)
    columns = zip(*lines, strict=True) if lines else ([] for _ in names)
    return write_csv(dict(zip(names, kinds, strict=True)), dict(zip(names, columns, strict=True)))


def _write_numbers(row: NumberRow, statistics: Sequence[str]) -> Iterator[list[Any]]:
    for name, number in zip(statistics, row.numbers, strict=True):
        yield [name, number.count, *(number.ends or (None, None)), REASONS[number.reason]]
