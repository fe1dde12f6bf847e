"""Rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.accounting.numbers import whole as checked_whole
from sfumato.engines.contributions import Terms
from sfumato.mechanisms.noise import Integers
from sfumato.release.bounding import Pairs
from sfumato.release.statistics.base import CountStatistic
from sfumato.release.statistics.expressions import ROWS, clip, column, whole

MAX_CAP = 2**31


@dataclass(frozen=True)
class Count(CountStatistic):
    """How many rows the key has, at most `cap` of each person."""

    word: ClassVar[str] = "count"

    cap: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", checked_whole(self.word, self.cap, at_least=1, at_most=MAX_CAP))

    @property
    def names(self) -> tuple[str, ...]:
        return ("count",)

    @property
    def describes(self) -> str:
        return f"rows, at most {self.cap:,} a person and key"

    @property
    def most(self) -> Mapping[str, int]:
        return {"rows": self.cap}

    def amounts(self, pairs: Pairs) -> Sequence[tuple[slice, Integers]]:
        return [(slice(None), np.minimum(pairs.rows, self.cap))]

    def terms(self) -> Terms:
        return Terms((clip(column(ROWS), whole(0), whole(self.cap)),))
