"""What every door hands out: answers with their receipts, estimates, budgets and charges.

Plain values with a stable serial form, the one of the HTTP interface. Everything in them may leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from sfumato.accounting import Charge

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from sfumato.show import Chart, Figures, Sheet

# How a cell is read back from its serial form; what is not listed is itself.
_CELLS: Mapping[str, Callable[[Any], Any]] = {"date": date.fromisoformat, "timestamp": datetime.fromisoformat}

EXACT = "exact"
"""The mechanism of numbers without noise."""

# What a column becomes in a data frame. pandas has no type for days; they are its timestamps at midnight.
_PANDAS: Mapping[str, str] = {
    "text": "str",
    "integer": "int64",
    "number": "float64",
    "boolean": "bool",
    "date": "datetime64[s]",
    "timestamp": "datetime64[us]",
}
_SQL: Mapping[str, str] = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an answer is worth and what it cost.

    `error95` is, for the measure, the half-width that holds with 95 % for one count; of a report it is that of the
    noise alone, before monotone and totals raise the numbers. `left` is what the asker may still spend until `resets`.
    `digest` names the answer: whoever has it can ask whether it is still the same. `guarantee` is what a report as a
    whole promises; its `totals` are "exact" where it does not cover them.
    """

    mechanism: str
    unit: str
    charge: Charge
    left: Charge
    resets: date | None
    error95: Mapping[str, int]
    data_version: str
    digest: str
    repeat: bool
    guarantee: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        own = {} if self.guarantee is None else {"guarantee": dict(self.guarantee)}
        return {
            "mechanism": self.mechanism,
            "unit": self.unit,
            "charge": self.charge.to_dict(),
            "left": self.left.to_dict(),
            "resets": _serial(self.resets),
            "error95": dict(self.error95),
            "data_version": self.data_version,
            "digest": self.digest,
            "repeat": self.repeat,
            **own,
        }

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> Receipt:
        return cls(
            mechanism=serial["mechanism"],
            unit=serial["unit"],
            charge=Charge.from_dict(serial["charge"]),
            left=Charge.from_dict(serial["left"]),
            resets=_day(serial["resets"]),
            error95=serial["error95"],
            data_version=serial["data_version"],
            digest=serial["digest"],
            repeat=serial["repeat"],
            guarantee=serial.get("guarantee"),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A private answer. Everything in it may leave.

    `columns` are the grouped columns and then the measure, each with its type; `rows` are dictionaries keyed by them,
    the largest first. `stopped` says that noise, and not the length that was asked for, ended the list.
    """

    columns: Mapping[str, str]
    rows: list[dict[str, Any]]
    stopped: bool
    receipt: Receipt
    notes: Sequence[str] = field(default=())

    @property
    def measure(self) -> str | None:
        """The column that holds the noisy counts; None for a list without counts."""
        name = list(self.columns)[-1]
        return name if name in self.receipt.error95 else None

    def to_dict(self) -> dict[str, Any]:
        """The serial form: what the HTTP interface sends."""
        return {
            "columns": dict(self.columns),
            "rows": [{name: _serial(value) for name, value in row.items()} for row in self.rows],
            "stopped": self.stopped,
            "receipt": self.receipt.to_dict(),
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> Answer:
        """The inverse of `to_dict`."""
        readers = {name: _CELLS.get(kind, _same) for name, kind in serial["columns"].items()}
        return cls(
            columns=serial["columns"],
            rows=[{name: readers[name](value) for name, value in row.items()} for row in serial["rows"]],
            stopped=serial["stopped"],
            receipt=Receipt.from_dict(serial["receipt"]),
            notes=tuple(serial["notes"]),
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas data frame with a typed column for each of `columns`, also when there are no rows."""
        return pandas_frame(self.columns, self._data())

    def to_polars(self) -> polars.DataFrame:
        """A polars data frame with a typed column for each of `columns`, also when there are no rows."""
        return polars_frame(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, which DuckDB writes: the PyCapsule interface, without pyarrow."""
        return arrow_stream(self.columns, self._data(), requested_schema)

    def _data(self) -> dict[str, Sequence[Any]]:
        return {name: self._column(name) for name in self.columns}

    def _column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]

    def chart(self, *, title: str = "") -> Chart:
        """Horizontal bars with error whiskers, the largest on top. A list without counts has nothing to draw."""
        from sfumato import show

        return show.chart(self.figures(), title=title)

    def _repr_html_(self) -> str:
        from sfumato import show

        return show.table_html(self.figures(), self.lines())

    def figures(self) -> Figures:
        """The rows as a picture needs them: keys as text and, if there are any, counts with their error."""
        from sfumato.show import Figures, cell

        measure = self.measure
        by = tuple(name for name in self.columns if name != measure)
        return Figures(
            by=by,
            keys=tuple(tuple(cell(row[name]) for name in by) for row in self.rows),
            measure=measure,
            counts=() if measure is None else tuple(self._column(measure)),
            error=0 if measure is None else self.receipt.error95[measure],
            thinned=any("absent" in note for note in self.notes),
        )

    def lines(self) -> dict[str, str]:
        """The receipt and the notes in words, a label for each line."""
        from sfumato.show.text import noise_within

        receipt, measure = self.receipt, self.measure
        error = "without counts" if measure is None else noise_within(receipt.error95[measure])
        until = "" if receipt.resets is None else f" until {receipt.resets}"
        ending = ["noise ended the list"] if self.stopped else []
        return {
            "receipt": f"{receipt.mechanism}, {error}",
            "charge": self._price(),
            "left": f"{receipt.left}{until}",
            "data": f"version {receipt.data_version}",
            "rows": "; ".join([str(len(self.rows)), *ending, *self.notes]),
        }

    def _price(self) -> str:
        free = self.receipt.repeat and not self.receipt.charge
        return "nothing, as this was answered before" if free else str(self.receipt.charge)


@dataclass(frozen=True, slots=True)
class Report(Answer):
    """Numbers of a report: a row for each step of time and each value, with a count for each statistic.

    A count that is None is too small to be shown. `start` and `end` are what the clocks show in `zone`; the row is of
    what happened from `start` on and before `end`. `options` are those that made the numbers agree with one another.

    It knows its question: the `report`, the `entity` by level from the top, the range that was asked for, of which all
    before `complete_until` is in the numbers, and the `granularity` of its steps, "all" for one.
    """

    report: str = field(kw_only=True)
    entity: Mapping[str, str] = field(kw_only=True)
    start: date = field(kw_only=True)
    end: date = field(kw_only=True)
    complete_until: date = field(kw_only=True)
    granularity: str = field(kw_only=True, default="all")
    options: Sequence[str] = field(kw_only=True, default=())
    zone: str = field(kw_only=True, default="UTC")

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
        """The options that raised these numbers, so that `error95`, which is of the noise, does not bound them."""
        of_totals = () if self.attribute is None else ("totals",)
        raising = tuple(option for option in ("monotone", "totals") if option not in of_totals)
        return () if self.exact else tuple(option for option in raising if option in self.options)

    def to_dict(self) -> dict[str, Any]:
        """The serial form: what the HTTP interface sends."""
        return {
            "report": self.report,
            "entity": dict(self.entity),
            "start": _serial(self.start),
            "end": _serial(self.end),
            "complete_until": _serial(self.complete_until),
            "granularity": self.granularity,
            **Answer.to_dict(self),
            "options": list(self.options),
            "zone": self.zone,
        }

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> Report:
        """The inverse of `to_dict`."""
        answer, moment = Answer.from_dict(serial), _CELLS[serial["columns"]["start"]]
        return cls(
            *(answer.columns, answer.rows, answer.stopped, answer.receipt, answer.notes),
            report=serial["report"],
            entity=serial["entity"],
            start=moment(serial["start"]),
            end=moment(serial["end"]),
            complete_until=moment(serial["complete_until"]),
            granularity=serial["granularity"],
            options=tuple(serial["options"]),
            zone=serial["zone"],
        )

    def sheet(self) -> Sheet:
        """The numbers as a page and a picture need them: steps, keys as text, and a count for each statistic."""
        from sfumato.show import Sheet, cell

        steps, cut = self._steps()
        place = {step: at for at, step in enumerate(steps)}
        by, names, bounded = self.attribute, self.statistics, not (self.exact or self.raised)
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
            errors={name: self.receipt.error95[name] if bounded else None for name in names},
            rows=tuple(rows),
            zone=self.zone,
            entity=self.entity,
            asked=(self.start, self.end),
            until=self.complete_until,
            level=self.granularity,
            cut=cut,
            accuracy=self._accuracy(),
            hides=any("not shown" in note for note in self.notes),
        )

    def _steps(self) -> tuple[list[tuple[date, date]], tuple[int, ...]]:
        """All steps of the complete range, also those of which nothing is shown; and which of them are cut short."""
        from sfumato.query.reports.calendar import ALL, Calendar

        told = {(row["start"], row["end"]) for row in self.rows}
        if self.granularity == ALL:
            return sorted(told) or [(self.start, self.complete_until)], ()
        calendar = Calendar((self.granularity,), self.zone)
        start, end = (calendar.instant("start", moment) for moment in (self.start, self.complete_until))
        ranges = calendar.steps(start, end, self.granularity)
        days = self.columns["start"] == "date"
        walls = ((wall.date() if days else wall for wall in map(calendar.wall, step)) for step in ranges)
        steps = sorted(told | {(first, last) for first, last in walls})
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

    def lines(self) -> dict[str, str]:
        """The receipt and the notes in words, a label for each line."""
        receipt = self.receipt
        return {
            "receipt": f"{receipt.mechanism}, {self._accuracy()}",
            "guarantee": self._promise(),
            "charge": "nothing: a report debits nobody",
            "data": f"{receipt.data_version}, times in {self.zone}",
            "rows": "; ".join([str(len(self.rows)), *self.notes]),
        }

    def _accuracy(self) -> str:
        """How far off the numbers may be, in words; of the noise alone where options have raised the numbers."""
        if self.exact:
            return "without noise"
        from sfumato.show.text import noise_within

        noise = noise_within({name: self.receipt.error95[name] for name in self.statistics})
        if not self.raised:
            return noise
        verb = "raise" if len(self.raised) > 1 else "raises"
        return f"{noise}, before {' and '.join(self.raised)} {verb} the numbers"

    def _promise(self) -> str:
        promise = self.receipt.guarantee or {"epsilon": 0, "unit": self.receipt.unit}
        exact = "; totals are exact and not covered" if promise.get("totals") == EXACT else ""
        whole = "over all that is asked under this policy"
        return f"epsilon {promise['epsilon']:,.6g} for one {promise['unit']}, {whole}{exact}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a question would cost and how accurate it would be: free, and the same whatever the data is."""

    mechanism: str
    least: Charge
    worst: Charge
    error95: Mapping[str, int]
    left: Charge
    answers_left: int | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "charge": {"least": self.least.to_dict(), "worst": self.worst.to_dict()},
            "error95": dict(self.error95),
            "left": self.left.to_dict(),
            "answers_left": self.answers_left,
        }

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> Estimate:
        """The inverse of `to_dict`."""
        return cls(
            mechanism=serial["mechanism"],
            least=Charge.from_dict(serial["charge"]["least"]),
            worst=Charge.from_dict(serial["charge"]["worst"]),
            error95=serial["error95"],
            left=Charge.from_dict(serial["left"]),
            answers_left=serial["answers_left"],
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """One account in its current period: left = limit + granted - spent - reserved."""

    account: str
    limit: Charge
    granted: Charge
    spent: Charge
    reserved: Charge
    resets: date | None = None

    @property
    def left(self) -> Charge:
        return self.limit + self.granted - self.spent - self.reserved

    def to_dict(self) -> dict[str, Any]:
        parts = {
            "limit": self.limit,
            "granted": self.granted,
            "spent": self.spent,
            "reserved": self.reserved,
            "left": self.left,
        }
        amounts = {name: charge.to_dict() for name, charge in parts.items()}
        return {"account": self.account, **amounts, "resets": _serial(self.resets)}

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> Standing:
        """The inverse of `to_dict`; `left` follows from the rest."""
        parts = {name: Charge.from_dict(serial[name]) for name in ("limit", "granted", "spent", "reserved")}
        return cls(serial["account"], **parts, resets=_day(serial["resets"]))


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """What an analyst may still spend: her own account first, then those she shares."""

    analyst: str
    mode: str
    resets: date | None
    accounts: Sequence[Standing]

    def to_dict(self) -> dict[str, Any]:
        return {
            "analyst": self.analyst,
            "mode": self.mode,
            "resets": _serial(self.resets),
            "accounts": [account.to_dict() for account in self.accounts],
        }

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> BudgetReport:
        """The inverse of `to_dict`."""
        accounts = list(map(Standing.from_dict, serial["accounts"]))
        return cls(serial["analyst"], serial["mode"], _day(serial["resets"]), accounts)


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """One movement on one account. `state` is reserved, settled, kept, granted or recovered."""

    at: str
    digest: str
    account: str
    charge: Charge
    state: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "digest": self.digest,
            "account": self.account,
            "charge": self.charge.to_dict(),
            "state": self.state,
        }

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> ChargeRow:
        """The inverse of `to_dict`."""
        charge = Charge.from_dict(serial["charge"])
        return cls(serial["at"], serial["digest"], serial["account"], charge, serial["state"])


@dataclass(frozen=True, slots=True)
class Charges:
    """A page of movements, the latest first; `next` asks for the page after it."""

    rows: Sequence[ChargeRow]
    next: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"rows": [row.to_dict() for row in self.rows], "next": self.next}

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> Charges:
        """The inverse of `to_dict`."""
        return cls([ChargeRow.from_dict(row) for row in serial["rows"]], serial["next"])


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table that may be asked about: whose presence is hidden, its columns and its measures."""

    table: str
    unit: str
    columns: Sequence[Mapping[str, Any]]
    measures: Sequence[Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "unit": self.unit,
            "columns": [dict(column) for column in self.columns],
            "measures": [dict(measure) for measure in self.measures],
        }

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> TableRow:
        """The inverse of `to_dict`."""
        return cls(serial["table"], serial["unit"], serial["columns"], serial["measures"])


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A report that may be asked: its statistics, what they are broken down by, and its levels of entities and time."""

    report: str
    statistics: Sequence[str]
    attributes: Mapping[str, Sequence[Any]]
    entities: Sequence[str]
    levels: Sequence[str]
    zone: str
    guarantee: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {
            "report": self.report,
            "statistics": list(self.statistics),
            "attributes": {name: list(values) for name, values in self.attributes.items()},
            "entities": list(self.entities),
            "levels": list(self.levels),
            "zone": self.zone,
            "guarantee": dict(self.guarantee),
        }

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> ReportRow:
        """The inverse of `to_dict`."""
        return cls(**serial)


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that may be asked about."""

    rows: Sequence[TableRow]
    reports: Sequence[ReportRow] = ()

    def to_dict(self) -> dict[str, Any]:
        reports = {"reports": [row.to_dict() for row in self.reports]} if self.reports else {}
        return {"rows": [row.to_dict() for row in self.rows], **reports}

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> Tables:
        """The inverse of `to_dict`."""
        reports = tuple(map(ReportRow.from_dict, serial.get("reports", ())))
        return cls([TableRow.from_dict(row) for row in serial["rows"]], reports)


def pandas_frame(columns: Mapping[str, str], data: Mapping[str, Any]) -> pandas.DataFrame:
    """A pandas data frame of `data`, a list or an array for each column, typed as `columns` say."""
    try:
        import pandas
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("to_pandas needs: pip install 'sfumato[pandas]'") from missing
    missing_counts = {name for name, kind in columns.items() if kind == "integer" and None in list(data[name])}
    kinds = {name: "Int64" if name in missing_counts else _PANDAS[kind] for name, kind in columns.items()}
    return pandas.DataFrame(
        {name: pandas.Series(data[name], dtype=kind) for name, kind in kinds.items()}, columns=[*columns]
    )


def polars_frame(streamed: Any) -> polars.DataFrame:
    """A polars data frame of what has an Arrow stream."""
    try:
        import polars
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("to_polars needs: pip install 'sfumato[polars]'") from missing
    return polars.DataFrame(streamed)


def arrow_stream(columns: Mapping[str, str], data: Mapping[str, Any], requested_schema: object | None) -> object:
    """The columns as an Arrow stream that DuckDB writes."""
    import duckdb

    connection = duckdb.connect(config={"enable_external_access": "false"})
    return relation(connection, columns, data).__arrow_c_stream__(requested_schema)


def relation(connection: DuckDBPyConnection, columns: Mapping[str, str], data: Mapping[str, Any]) -> DuckDBPyRelation:
    """The columns as a relation of DuckDB, typed as `columns` say; NaN and None are NULL.

    Arrays of numbers are read where they are. Columns go by their place on the way in: a name may be anything.
    """
    from sqlglot import exp

    places = {f"c{place}": name for place, name in enumerate(columns)}
    connection.register("data", {place: _array(data[name]) for place, name in places.items()})
    typed = (
        exp.alias_(exp.cast(exp.column(place), _SQL[columns[name]], dialect="duckdb"), name, quoted=True)
        for place, name in places.items()
    )
    return connection.sql(exp.select(*typed).from_("data").sql("duckdb"))


def _array(values: Any) -> Any:
    """What DuckDB takes: lists as objects, which it reads one by one, and days as times, as it knows no other array."""
    import numpy

    if not isinstance(values, numpy.ndarray):
        objects = numpy.empty(len(values), dtype=object)
        objects[:] = values
        return objects
    return values.astype("datetime64[us]") if values.dtype == "datetime64[D]" else values


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _serial(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _same(value: Any) -> Any:
    return value
