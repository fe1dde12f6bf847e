"""An answer and its receipt."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Self, TypeAlias, TypedDict

from msgspec import Meta, field

from sfumato.accounting.charges import Charge
from sfumato.errors import DAMAGED, LedgerFailed
from sfumato.types import TYPES, Type
from sfumato.wire import notes as codes
from sfumato.wire.base import Cell, Record
from sfumato.wire.frames import arrow_stream, pandas_frame, polars_frame
from sfumato.wire.notes import Note, read_note

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars

    from sfumato.show import Chart, Figures

DIGEST = "^sha256:[0-9a-f]{64}$"

Columns: TypeAlias = Annotated[dict[str, Type], Meta(description="Column names with their types.")]
Rows: TypeAlias = Annotated[list[dict[str, Cell]], Meta(description="The largest first.")]


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
        dict[str, int],
        Meta(
            description="Half-width of the 95 % interval of the noise; 0 if `mechanism` is `exact`. The options "
            "`monotone`, `totals` and `actions` of a report can raise a count further."
        ),
    ]
    data_version: str
    digest: Annotated[
        str, Meta(extra_json_schema={"pattern": DIGEST}, description="Identifies the answer: GET /v1/answers/{digest}.")
    ]
    visible: Annotated[
        Visible | None,
        Meta(description="Absent if no group is withheld for its size, and in answers of earlier versions."),
    ] = None


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


class StoredAnswer(Record, frozen=True, kw_only=True):
    """Everything in an answer but what the moment adds to its receipt: charge, left, resets and repeat.

    Answers that were stored by earlier versions hold notes as texts.
    """

    columns: Columns
    rows: Rows
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


class Answer(Record, frozen=True, kw_only=True):
    """A private answer. Everything in it may leave.

    `columns` are the grouped columns and then the measure, each with its type; `rows` are dictionaries keyed by them,
    the largest first. `stopped` says that noise, and not the length that was asked for, ended the list.
    """

    columns: Columns
    rows: Rows
    stopped: Annotated[bool, Meta(description="True if noise ended the list before the requested length.")]
    receipt: Receipt
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = self.columns.keys()
        for row in self.rows:
            if row.keys() != names:
                raise ValueError("the rows of an answer have its columns")
        for name, kind in self.columns.items():
            if issubclass(TYPES[kind].python, date):  # a cell of another type is itself
                for row in self.rows:
                    if isinstance(row[name], str):
                        row[name] = TYPES[kind].from_json(row[name])

    @property
    def measure(self) -> str | None:
        """The column that holds the noisy counts; None for a list without counts."""
        name = list(self.columns)[-1]
        return name if name in self.receipt.error95 else None

    def has_note(self, code: str) -> bool:
        return any(note.code == code for note in self.notes)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas data frame with a typed column for each of `columns`, also when there are no rows."""
        return pandas_frame(self.columns, self._data())

    def to_polars(self) -> polars.DataFrame:
        """A polars data frame with a typed column for each of `columns`, also when there are no rows."""
        return polars_frame(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, which DuckDB writes: the PyCapsule interface, without pyarrow."""
        return arrow_stream(self.columns, self._data(), requested_schema)

    def _data(self) -> dict[str, list[Any]]:
        return {name: [row[name] for row in self.rows] for name in self.columns}

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

        measure, shown = self.measure, self.receipt.visible
        by = tuple(name for name in self.columns if name != measure)
        return Figures(
            by=by,
            keys=tuple(tuple(cell(row[name]) for name in by) for row in self.rows),
            measure=measure,
            counts=() if measure is None else tuple(row[measure] for row in self.rows),
            error=0 if measure is None else self.receipt.error95[measure],
            thinned=self.has_note(codes.SMALL_GROUPS_ABSENT),
            whole_from=None if shown is None or shown.above != "zero" else shown.most,
        )

    def lines(self) -> dict[str, str]:
        """The receipt and the notes in words, a label for each line."""
        from sfumato.show.text import noise_within

        receipt, measure = self.receipt, self.measure
        error = "without counts" if measure is None else noise_within(receipt.error95[measure])
        free = receipt.repeat and not receipt.charge
        until = "" if receipt.resets is None else f" until {receipt.resets}"
        ending = ["noise ended the list"] if self.stopped else []
        return {
            "receipt": f"{receipt.mechanism}, {error}",
            **({} if receipt.visible is None else {"shown": str(receipt.visible)}),
            "charge": "nothing, as this was answered before" if free else str(receipt.charge),
            "left": f"{receipt.left}{until}",
            "data": f"version {receipt.data_version}",
            "rows": "; ".join([str(len(self.rows)), *ending, *map(str, self.notes)]),
        }
