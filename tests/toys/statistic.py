"""A toy statistic: how many people have the key in two rows or more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.release.statistics.base import CountStatistic


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
