"""A toy statistic: how many people have the key in two rows or more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sqlglot import exp

from sfumato.engines.contributions import Terms
from sfumato.release.statistics.base import CountStatistic
from sfumato.release.statistics.expressions import ROWS, clip, column, whole


@dataclass(frozen=True)
class Regulars(CountStatistic):
    word: ClassVar[str] = "regulars"

    @property
    def names(self):
        return ("regulars",)

    @property
    def describes(self):
        return "people with two rows or more"

    @property
    def most(self):
        return {"regulars": 1}

    def amounts(self, pairs):
        return [(slice(None), (pairs.rows > 1).astype(np.int64))]

    def terms(self):
        return Terms((clip(exp.Sub(this=column(ROWS), expression=whole(1)), whole(0), whole(1)),))
