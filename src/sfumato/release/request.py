"""What every release is: rows to read, a budget, a plan that can be told before a row is read, and a computation."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from fractions import Fraction
from importlib.metadata import version
from typing import Any, TypeAlias

from sqlglot import exp

from sfumato.accounting.numbers import rational
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng, context
from sfumato.mechanisms.noise import Integers
from sfumato.release.bounding import Contributions, KeyOrder
from sfumato.release.guarantee import ReleaseGuarantee, Spending, as_written
from sfumato.release.source import RULES, Reading, Source, public_keys
from sfumato.release.statistics import Numeric, Statistic
from sfumato.release.table import Released

FORMAT = "sfumato-release/1"
ENDINGS = {"statistic": "", "low": "_low", "high": "_high", "deviation": "_deviation"}
"""The columns of a statistic."""

NEIGHBOURS = "two tables, of which one has all rows of one more person"

Progress: TypeAlias = Callable[[str, float], None]


def quiet(stage: str, share: float) -> None:
    """Tell nobody how far it is."""


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest(ABC):
    """A release, all of whose parameters are known; nothing has been read."""

    reading: Reading
    guarantee: ReleaseGuarantee
    statistics: tuple[Statistic, ...] = ()
    source: str = ""
    """Where the rows come from, as it was written: part of the request's name, and told to nobody."""

    def __post_init__(self) -> None:
        columns = [name + ending for each in self.released for name in each.names for ending in ENDINGS.values()]
        names = [name.casefold() for name in (*self.reading.key, *columns)]
        twice = [name for name in (*self.reading.key, *columns) if names.count(name.casefold()) > 1]
        if twice:
            raise InvalidArgument("key", f"{twice[0]} would be two columns of the table; rename one in a view")

    @property
    def released(self) -> tuple[Statistic, ...]:
        """The statistics of the table."""
        return self.statistics

    @property
    @abstractmethod
    def method(self) -> str: ...

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Everything that the law of the release depends on, as JSON."""

    @abstractmethod
    def spendings(self) -> list[Spending]:
        """What the budget goes to, and the noise that it buys: known before a row is read."""

    @property
    def assumptions(self) -> list[str]:
        """What `spendings` had to take for granted, because only the data will tell."""
        return []

    @abstractmethod
    def check_affordable(self) -> None:
        """Refuse a budget that cannot buy anything, or noise that cannot be drawn."""

    @abstractmethod
    def table(self, rows: Rows, progress: Progress) -> Released:
        """The release itself. Nothing here refuses: what happens depends on rows."""

    @property
    def digest(self) -> str:
        """A name for the parameters: the same for the same request."""
        told = {"source": self.source, "method": self.method, "guarantee": self.guarantee.to_dict(), **self.parameters}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def check(self, source: Source) -> None:
        """Refuse what does not fit the source, before anything is charged. Reads no row but those of public keys."""
        kinds = self.reading.kinds(source.schema(), loose=source.loose)
        with source.engine.workspace() as workspace:
            self.reading.check(source, workspace)
            if source.public is not None:
                public_keys(source, workspace, kinds)

    def run(self, source: Source, secret: bytes, progress: Progress = quiet) -> Released:
        """Read the rows and release the table. `secret` makes the noise and chooses what people over a bound keep."""
        with Rows.read(self, source, secret, progress) as rows:
            return self.table(rows, progress)

    def statement(
        self, columns: Sequence[Mapping[str, Any]], spent: Sequence[Spending], **found: Any
    ) -> dict[str, Any]:
        """What is told beside the table, for machines."""
        return {
            "format": FORMAT,
            "code": f"sfumato {version('sfumato')}",
            "method": self.method,
            "unit": self.reading.unit,
            "neighbours": NEIGHBOURS,
            "guarantee": self.guarantee.to_dict(),
            "parameters": {**self.parameters, **found},
            "steps": [each.to_dict() for each in spent],
            "rules": list(RULES),
            "columns": list(columns),
        }


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a request, coded and ready to be bounded, and the randomness of its job."""

    contributions: Contributions
    kinds: Mapping[str, str]
    rng: Rng
    secret: bytes = field(repr=False)
    native: Mapping[str, str]
    coded: Callable[[exp.Query | None], Contributions]

    @classmethod
    @contextmanager
    def read(cls, request: ReleaseRequest, source: Source, secret: bytes, progress: Progress) -> Iterator[Rows]:
        reading = request.reading
        kinds = reading.kinds(source.schema(), loose=source.loose)
        with source.engine.workspace() as workspace:
            native = source.native(workspace)
            query = reading.query(source, native)
            domain = None if source.public is None else public_keys(source, workspace, kinds)

            def coded(keys: exp.Query | None) -> Contributions:
                return Contributions(
                    workspace,
                    query,
                    unit=reading.unit,
                    key=list(reading.key),
                    values=reading.values,
                    domain=keys,
                    progress=lambda share: progress("bounding", share),
                )

            progress("reading", 0)
            rng = Rng.keyed(secret, context(release=request.digest, purpose="noise"))
            with coded(domain) as contributions:
                yield cls(contributions, kinds, rng, secret, native, coded)

    def joined(self, codes: Integers) -> Contributions:
        """The rows of these keys, read again by a join and coded anew."""
        cells = [
            tuple(
                exp.cast(exp.Literal.string(str(cell)), self.native[name], dialect="duckdb")
                for name, cell in zip(self.kinds, key, strict=True)
            )
            for key in self.contributions.keys(codes)
        ]
        columns = [exp.column(name, quoted=True) for name in self.kinds]
        return self.coded(exp.select(*columns).from_(exp.values(cells, alias="chosen", columns=[*self.kinds])))

    def order(self, purpose: str) -> KeyOrder:
        """Which keys people over a bound keep, for one purpose."""
        return KeyOrder.of(self.secret, purpose)


def share(name: str, value: Any) -> Fraction:
    """A part of the budget: above 0 and below 1."""
    exact = rational(name, as_written(value))
    if not 0 < exact < 1:
        raise InvalidArgument(name, "is a share of the budget, and must lie strictly between 0 and 1")
    return exact


def needed_values(statistics: Sequence[Statistic]) -> tuple[str, ...]:
    """The value columns of some statistics, each once."""
    return tuple(dict.fromkeys(name for statistic in statistics for name in statistic.columns))


def unbounded(statistics: Sequence[Statistic]) -> list[Numeric]:
    """The statistics whose bounds are still to be found."""
    return [each for each in statistics if isinstance(each, Numeric) and not each.bounded]


def described(statistics: Sequence[Statistic]) -> list[dict[str, Any]]:
    """Statistics as parameters of a request."""
    return [_described(statistic) for statistic in statistics]


def _described(statistic: Statistic) -> dict[str, Any]:
    # The names of the fields are in the digest and in the statement: a field that is renamed keeps its old name here.
    told = {each.name: _plain(getattr(statistic, each.name)) for each in fields(statistic)}  # type: ignore[arg-type]
    return {"statistic": statistic.word, **told}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Fraction) else value


def key_columns(kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """The key columns, as a statement tells them."""
    return [
        {"name": name, "type": kind, "role": "key", "statistic": None, "meaning": "key"} for name, kind in kinds.items()
    ]


def statistic_columns(statistic: Statistic) -> list[dict[str, Any]]:
    """A statistic's columns, as a statement tells them."""
    roles = {
        "statistic": (statistic.kind, statistic.describes),
        "low": (statistic.kind, "lower end of a 95 % interval for what the noise did"),
        "high": (statistic.kind, "upper end of it"),
        "deviation": ("number", statistic.spread),
    }
    return [
        {"name": name + ENDINGS[role], "type": kind, "role": role, "statistic": name, "meaning": meaning}
        for name in statistic.names
        for role, (kind, meaning) in roles.items()
    ]
