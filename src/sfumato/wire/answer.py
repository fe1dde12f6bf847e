"""An answer and its receipt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Self, TypeAlias, TypedDict

from msgspec import Meta, field

from sfumato.accounting.charges import Charge
from sfumato.errors import DAMAGED, LedgerFailed
from sfumato.query.versions import next_version
from sfumato.types import TYPES, Type
from sfumato.wire import notes as codes
from sfumato.wire.base import Cell, Record
from sfumato.wire.csv_text import write_csv
from sfumato.wire.frames import arrow_bytes, arrow_stream, arrow_table, pandas_frame, polars_frame, with_intervals
from sfumato.wire.notes import Note, read_note

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow  # type: ignore[import-untyped]

    from sfumato.show import Chart, Figures

DIGEST = "^sha256:[0-9a-f]{64}$"

Columns: TypeAlias = Annotated[dict[str, Type], Meta(description="Column names with their types.")]
AnswerRows: TypeAlias = Annotated[
    list[dict[str, Cell]], Meta(description="In the order that was asked for; the largest first where none was.")
]


class ReportPromise(TypedDict):
    """The privacy guarantee of all counts of a report together, however they are queried."""

    epsilon: Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0})]
    delta: NotRequired[
        Annotated[float, Meta(description="Present if the noise is Gaussian: the epsilon holds but for this delta.")]
    ]
    unit: Annotated[Literal["event", "person"], Meta(description="What is hidden: one event, or all of a person's.")]
    totals: NotRequired[
        Annotated[Literal["exact"], Meta(description="Present if totals have no noise: they are not covered.")]
    ]


class Visible(Record, frozen=True):
    """How large a group must be to be shown: a function of the parameters, not of the data.

    Sizes are counts of the measure without noise. A list can be too short for a group that is large enough.
    """

    half: Annotated[int, Meta(description="Groups of this size are shown half of the time.")]
    most: Annotated[int, Meta(description="Groups of this size are shown 95 % of the time.")]
    above: Annotated[
        Literal["zero", "cutoff"],
        Meta(
            description="Where sizes start. `cutoff`: at the first group out of sight, the largest of those that are "
            "not considered; 0 if there are no such groups."
        ),
    ]

    def __str__(self) -> str:
        if self.above == "zero":
            return f"half of the groups of {self.half:,}, 19 in 20 of the groups of {self.most:,}"
        start = "above the first group out of sight"
        return f"half of the groups that are {self.half:,} {start}, 19 in 20 of those {self.most:,} above it"


class ReceiptCore(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What an answer is worth: the part of a receipt that never changes, and is stored with the answer."""

    mechanism: Annotated[str, Meta(description="The mechanism; `exact` for totals without noise.")]
    unit: Annotated[str, Meta(description="The privacy unit: whose presence is hidden.")]
    error95: Annotated[
        dict[str, int | float],
        Meta(
            description="Half-width of the 95 % interval of the noise, by column; 0 if `mechanism` is `exact`. A "
            "column that is computed from counts has one if it is a count times a number, plus a number. In a report "
            "it includes how far siblings moved a count (note `moved`). The options `monotone`, `totals` and `actions` "
            "of a report can raise a count further."
        ),
    ]
    data_version: str
    digest: Annotated[
        str, Meta(extra_json_schema={"pattern": DIGEST}, description="Identifies the answer: GET /v1/answers/{digest}.")
    ]
    public_versions: Annotated[
        dict[str, str],
        Meta(description="Of a question that is joined to public tables, the version of each of these tables."),
    ] = field(default_factory=dict)
    visible: Annotated[
        Visible | None,
        Meta(description="Absent if no group is withheld for its size, and in answers of earlier versions."),
    ] = None
    signed: Annotated[
        list[str],
        Meta(description="Columns of `error95` that may be below zero without noise; other intervals end at zero."),
    ] = field(default_factory=list)
    measures: Annotated[
        list[str],
        Meta(
            description="Columns of further measures: numbers with noise beside the first of `error95`. The error of a "
            "mean or a variance is the largest among the rows. Quantiles have none."
        ),
    ] = field(default_factory=list)


class Receipt(ReceiptCore, frozen=True, kw_only=True):
    """What an answer is worth and what it cost.

    `left` is what the analyst may still spend until `resets`. `guarantee` is what a report as a whole promises; its
    `totals` are "exact" where it does not cover them.
    """

    charge: Annotated[Charge, Meta(description="What this answer cost. A report costs nothing.")]
    left: Annotated[Charge, Meta(description="What is left of the analyst's own budget.")]
    resets: date | None
    repeat: Annotated[bool, Meta(description="True if it was answered before.")]
    guarantee: ReportPromise | None = None
    pays_again: Annotated[
        date | None,
        Meta(
            description="The day (UTC) from which the same request is one of a new version of the data, or of a public "
            "table that it is joined to, and costs again. Absent if the clock ends none of these versions: "
            "`fixed`, and versions that the owner names."
        ),
    ] = None
    parts: Annotated[
        list[Receipt],
        Meta(
            description="Of a statement with several questions, the receipt of each. Then `charge` is their sum, and "
            "`digest` the SHA-256 of their digests, one per line. It names these questions together, and no stored "
            "answer: GET /v1/answers/{digest} takes the digests of the parts."
        ),
    ] = field(default_factory=list)


class StoredAnswer(Record, frozen=True, kw_only=True):
    """Everything in an answer but what the moment adds to its receipt: charge, left, resets, repeat and pays_again.

    Answers that were stored by earlier versions hold notes as texts.
    """

    columns: Columns
    rows: AnswerRows
    stopped: bool
    receipt: ReceiptCore
    notes: list[Note | str]

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """What a ledger has stored. Raises `LedgerFailed` if it is not readable."""
        try:
            return super().from_json(text)
        except ValueError:
            raise LedgerFailed(DAMAGED) from None

    def complete(self, settled: object) -> Answer:
        """The answer as it leaves. `settled` has what the moment adds to the receipt, as attributes of these names."""
        core = {name: getattr(self.receipt, name) for name in ReceiptCore.__struct_fields__}
        added = {name: getattr(settled, name) for name in Receipt.__struct_fields__ if hasattr(settled, name)}
        versions = self.receipt.data_version, *self.receipt.public_versions.values()
        added["pays_again"] = min(filter(None, map(next_version, versions)), default=None)
        try:
            return Answer(
                columns=self.columns,
                rows=self.rows,
                stopped=self.stopped,
                receipt=Receipt(**core, **added),
                notes=[read_note(each) if isinstance(each, str) else each for each in self.notes],
            )
        except ValueError:
            raise LedgerFailed(DAMAGED) from None


def _read_moments(rows: AnswerRows, column: str, read: Callable[[Any], Any]) -> None:
    """Turn the texts of a column into moments, in place. Rows come from JSON, with texts, or are made with moments."""
    if isinstance(next((row[column] for row in rows if row[column] is not None), None), str):
        for row in rows:
            if isinstance(row[column], str):
                row[column] = read(row[column])


class Answer(Record, frozen=True, kw_only=True):
    """A private answer. Everything in it may leave.

    `columns` have a type each: those of the SELECT list, or the grouped columns and then the measure. `rows` are
    dictionaries keyed by them. `stopped` says that noise, and not the length that was asked for, ended the list.
    """

    columns: Columns
    rows: AnswerRows
    stopped: Annotated[bool, Meta(description="True if noise ended the list before the requested length.")]
    receipt: Receipt
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not all(map(self.columns.keys().__eq__, map(dict.keys, self.rows))):
            raise ValueError("the rows of an answer have its columns")
        for name, kind in self.columns.items():
            if issubclass(TYPES[kind].python, date):  # a cell of another type is itself
                _read_moments(self.rows, name, TYPES[kind].from_json)

    @property
    def measure(self) -> str | None:
        """The first column that has an interval: the noisy counts; None for a list without counts."""
        return next((name for name in self.columns if name in self.receipt.error95), None)

    def has_note(self, code: str) -> bool:
        return any(note.code == code for note in self.notes)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas data frame: a typed column for each of `columns`, and both ends of the 95 % interval of each count.

        The columns are the same when there are no rows. Ends that are not known are missing.
        """
        return pandas_frame(*self._columns_with_intervals())

    def to_polars(self) -> polars.DataFrame:
        """A polars data frame, with the columns of `to_pandas`."""
        return polars_frame(self)

    def to_arrow(self) -> pyarrow.Table:
        """A table of pyarrow, with the columns of `to_pandas`."""
        return arrow_table(self)

    def to_arrow_stream(self) -> bytes:
        """The columns of `to_pandas` as a stream of Arrow's IPC format."""
        return arrow_bytes(self)

    def to_csv(self) -> str:
        """The columns of `to_pandas` as CSV. Text that a spreadsheet would run gets an apostrophe before it."""
        return write_csv(*self._columns_with_intervals()).decode()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, which DuckDB writes: the PyCapsule interface, without pyarrow."""
        return arrow_stream(*self._columns_with_intervals(), requested_schema)

    def _columns_with_intervals(self) -> tuple[dict[str, Type], dict[str, list[Any]]]:
        return with_intervals(self.columns, self.rows, self.errors, self.receipt.signed)

    @property
    def errors(self) -> dict[str, int | float | None]:
        """The half-width of the 95 % interval of each column of counts; None where no interval is known."""
        return {name: self.receipt.error95[name] for name in self.columns if name in self.receipt.error95}

    def chart(self, *, title: str = "") -> Chart:
        """Horizontal bars with error whiskers, the largest on top. A list without counts has nothing to draw."""
        from sfumato import show

        noisy = {self.measure, *self.receipt.measures}
        return show.chart(self._figures([name for name in self.columns if name not in noisy]), title=title)

    def _repr_html_(self) -> str:
        from sfumato import show

        return show.table_html(self.figures(), self.lines())

    def __str__(self) -> str:
        from sfumato import show

        return show.figures_text(self.figures(), self.lines())

    def figures(self) -> Figures:
        """The rows as a picture needs them: keys as text and, if there are any, counts with their error.

        The numbers of further measures are text beside the keys, each with its error.
        """
        return self._figures([name for name in self.columns if name != self.measure])

    def _figures(self, by: Sequence[str]) -> Figures:
        from sfumato.show import Figures
        from sfumato.show.text import NO_GROUPS, cell_within

        measure, shown = self.measure, self.receipt.visible
        return Figures(
            by=tuple(by),
            keys=tuple(tuple(cell_within(row[name], self.errors.get(name)) for name in by) for row in self.rows),
            measure=measure,
            counts=() if measure is None else tuple(row[measure] for row in self.rows),
            error=0 if measure is None else self.receipt.error95[measure],
            signed=measure in self.receipt.signed,
            thinned=self.has_note(codes.SMALL_GROUPS_ABSENT),
            whole_from=None if shown is None or shown.above != "zero" else shown.most,
            nothing="There are no rows." if self.receipt.mechanism == "policy" else NO_GROUPS,
        )

    def lines(self) -> dict[str, str]:
        """The receipt and the notes in words, a label for each line."""
        from sfumato.show.text import day_name, noise_within

        receipt, measure = self.receipt, self.measure
        error = "without intervals" if self.has_note(codes.NO_INTERVAL) else "without counts"
        error = error if measure is None else noise_within(receipt.error95[measure])
        free = receipt.repeat and not receipt.charge
        until = "" if receipt.resets is None else f" until {receipt.resets}"
        again = receipt.pays_again
        costs_again = "" if again is None else f"; asked again from {day_name(again)} on, this costs again"
        versions = [receipt.data_version, *map(" ".join, receipt.public_versions.items())]
        ending = ["noise ended the list"] if self.stopped else []
        return {
            "receipt": f"{receipt.mechanism}, {error}",
            **({"parts": _part_lines(receipt.parts)} if receipt.parts else {}),
            **({} if receipt.visible is None else {"shown": str(receipt.visible)}),
            "charge": "nothing, as this was answered before" if free else str(receipt.charge),
            "left": f"{receipt.left}{until}",
            **({"data": f"version {', '.join(versions)}{costs_again}"} if receipt.data_version else {}),
            "rows": "; ".join([str(len(self.rows)), *ending, *map(str, self.notes)]),
        }


def _part_lines(parts: list[Receipt]) -> str:
    """What each question of a statement cost, in words."""
    prices = (
        "nothing, as it was answered before" if part.repeat and not part.charge else part.charge for part in parts
    )
    return f"{len(parts)} questions: {'; '.join(map(str, prices))}"
