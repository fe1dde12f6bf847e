"""Distinct people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sfumato.accounting.gaussian import GaussianStep
from sfumato.engines.contributions import Terms
from sfumato.mechanisms.estimates import Share
from sfumato.release.bounding import Pairs
from sfumato.release.statistics.base import CountStatistic
from sfumato.release.statistics.expressions import whole


@dataclass(frozen=True)
class Units(CountStatistic):
    """How many different people have the key."""

    word: ClassVar[str] = "units"

    @property
    def names(self) -> tuple[str, ...]:
        return ("units",)

    @property
    def describes(self) -> str:
        return "distinct people"

    @property
    def clamped(self) -> bool:
        return False

    @property
    def needs_rows(self) -> bool:
        return False

    @property
    def most(self) -> Mapping[str, int]:
        return {"people": 1}

    def steps(self, share: Share) -> tuple[GaussianStep, ...]:
        return tuple(GaussianStep.counts(step.variance, share.max_keys) for step in super().steps(share))

    def amounts(self, pairs: Pairs) -> Sequence[tuple[slice, int]]:
        return [(slice(None), 1)]

    def terms(self) -> Terms:
        return Terms((whole(1),))
