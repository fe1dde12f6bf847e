"""What every release is: rows to read, a budget, a plan that is known before a row is read, and a computation."""

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

from sfumato.accounting.numbers import rational
from sfumato.engines.contributions import Contributions
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng, context
from sfumato.release.bounding import KeyOrder, as_port
from sfumato.release.guarantee import ReleaseGuarantee, Spending, as_written
from sfumato.release.source import RULES, Reading, Source
from sfumato.release.statement import ENDINGS, FORMAT, NEIGHBOURS
from sfumato.release.statistics.base import Statistic
from sfumato.release.statistics.numeric import Numeric
from sfumato.release.table import Released

ProgressCallback: TypeAlias = Callable[[str, float], None]


def quiet(stage: str, share: float) -> None:
    """No progress is shown."""


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest(ABC):
    """A release, all of whose parameters are known; nothing has been read."""

    reading: Reading
    guarantee: ReleaseGuarantee
    """What was asked for, by the conversion of zCDP."""

    statistics: tuple[Statistic, ...] = ()
    source: str = ""
    """Where the rows come from, as it was written: part of the request's digest, and never shown."""

    def __post_init__(self) -> None:
        columns = [name + ending for each in self.all_statistics for name in each.names for ending in ENDINGS.values()]
        names = [name.casefold() for name in (*self.reading.key, *columns)]
        twice = [name for name in (*self.reading.key, *columns) if names.count(name.casefold()) > 1]
        if twice:
            problem = f"{twice[0]} would be two columns of the table; rename one in the frame or in a view"
            raise InvalidArgument("key", problem)

    @property
    def all_statistics(self) -> tuple[Statistic, ...]:
        """The statistics of the table, also those that are not asked for."""
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
        """What the budget is spent on, and the noise that it buys: known before a row is read."""

    @property
    def promised(self) -> ReleaseGuarantee:
        """What is promised, and charged to a ledger."""
        return self.guarantee

    @property
    def assumptions(self) -> list[str]:
        """What `spendings` assumes, because it depends on the data."""
        return []

    @abstractmethod
    def check_affordable(self) -> None:
        """Refuse a budget that cannot buy anything, or noise that cannot be drawn."""

    @abstractmethod
    def table(self, rows: Rows, progress: ProgressCallback) -> Released:
        """The release itself. Nothing is refused here: a refusal would depend on rows."""

    @property
    def digest(self) -> str:
        """A name for the parameters: the same for the same request."""
        return self.digests[0]

    @property
    def digests(self) -> tuple[str, ...]:
        """Its digest, and those of the same request under earlier algorithms, which had other parameters."""
        plain = [_without_mechanism(each) for each in describe(self.statistics)]
        asked = [self.parameters, *self.earlier_parameters]
        every = [*asked, *({**each, "statistics": plain} for each in asked)]
        return tuple(dict.fromkeys(self._digest(each) for each in every))

    def _digest(self, parameters: Mapping[str, Any]) -> str:
        named = {"source": self.source, "method": self.method, "guarantee": self.guarantee.to_dict(), **parameters}
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()

    @property
    def earlier_parameters(self) -> Sequence[Mapping[str, Any]]:
        """The parameters of the same request under earlier algorithms: a job that was finished then is still known."""
        return ()

    def check(self, source: Source) -> None:
        """Refuse what does not fit the source, before anything is charged. Reads no row but those of public keys."""
        self.reading.key_types(source)
        source.engine.check_contributions(self.reading.query(source))

    def run(self, source: Source, secret: bytes, progress: ProgressCallback = quiet) -> Released:
        """Read the rows and release the table. `secret` makes the noise and chooses what people over a bound keep."""
        with Rows.read(self, source, secret, progress) as rows:
            return self.table(rows, progress)

    def statement(
        self, columns: Sequence[Mapping[str, Any]], spent: Sequence[Spending], promised: ReleaseGuarantee, **found: Any
    ) -> dict[str, Any]:
        """The statement beside the table; `found` are parameters that were found on the way."""
        return {
            "format": FORMAT,
            "code": f"sfumato {version('sfumato')}",
            "method": self.method,
            "unit": self.reading.unit,
            "neighbours": NEIGHBOURS,
            "guarantee": promised.to_dict(),
            "groups": promised.to_groups(spent),
            "parameters": {**self.parameters, **found},
            "steps": [each.to_dict(promised.accounting) for each in spent],
            "rules": list(RULES),
            "columns": list(columns),
        }


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a request, coded and ready to be bounded, the types of its keys, and the randomness of its job."""

    contributions: Contributions
    kinds: Mapping[str, str]
    rng: Rng
    secret: bytes = field(repr=False)

    @classmethod
    @contextmanager
    def read(cls, request: ReleaseRequest, source: Source, secret: bytes, progress: ProgressCallback) -> Iterator[Rows]:
        kinds = request.reading.key_types(source)
        query = request.reading.query(source)
        progress("reading", 0)
        rng = Rng.keyed(secret, context(release=request.digest, purpose="noise"))
        with as_port(source.engine.contributions(query, lambda share: progress("bounding", share))) as contributions:
            yield cls(contributions, kinds, rng, secret)

    def order(self, purpose: str) -> KeyOrder:
        """Which keys people over a bound keep, for one purpose."""
        return KeyOrder.of(self.secret, purpose)


def budget_share(name: str, value: Any) -> Fraction:
    """A part of the budget: above 0 and below 1."""
    exact = rational(name, as_written(value))
    if not 0 < exact < 1:
        raise InvalidArgument(name, "is a share of the budget, and must lie strictly between 0 and 1")
    return exact


def without_bounds(statistics: Sequence[Statistic]) -> list[Numeric]:
    """The statistics whose bounds are still to be found."""
    return [each for each in statistics if isinstance(each, Numeric) and not each.bounded]


def describe(statistics: Sequence[Statistic]) -> list[dict[str, Any]]:
    """Statistics as parameters of a request."""
    return [{"statistic": each.word} | _described(each) for each in statistics]


def _described(statistic: Statistic) -> dict[str, Any]:
    # The names of the fields are in the digest and in the statement: a field that is renamed keeps its old name here.
    values = {part.name: getattr(statistic, part.name) for part in fields(statistic)}  # type: ignore[arg-type]
    # What is not asked for is left out: a request that does not ask for a new option keeps its digest.
    said = {name: _to_json(value) for name, value in values.items() if value is not False}
    return said if statistic.mechanism is None else {"mechanism": statistic.mechanism, **said}


def _without_mechanism(described: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in described.items() if name != "mechanism"}


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return str(value) if isinstance(value, Fraction) else value
