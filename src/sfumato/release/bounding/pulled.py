"""The side of the port that an engine without one of its own has: rows are handed over, bounded and counted here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.engines.contributions import Addend, CodedContributions, Contributions, Order
from sfumato.mechanisms.noise import Integers
from sfumato.release.bounding.counting import count_people, fold_pairs, keys_per_person, sum_weights
from sfumato.release.bounding.order import KeyOrder
from sfumato.release.bounding.pairs import Pairs


class PulledContributions(Contributions):
    """The coded rows of an engine."""

    def __init__(self, coded: CodedContributions) -> None:
        self.coded = coded

    @property
    def size(self) -> int:
        return self.coded.size

    def keys(self, codes: Sequence[int] | Integers) -> list[tuple[Any, ...]]:
        return self.coded.keys(codes)

    def count_people(self, order: Order, *, max_keys: int, within: Sequence[int] | Integers | None = None) -> Integers:
        return count_people(self.coded, _as_keyed(order), max_keys=max_keys, within=within)

    def keys_per_person(self, most: int, *, within: Sequence[int] | Integers | None = None) -> Integers:
        return keys_per_person(self.coded, most, within=within)

    def sum_weights(self, order: Order, weights: Integers, *, without: Sequence[int] | Integers = ()) -> Integers:
        return sum_weights(self.coded, _as_keyed(order), weights, without=without)

    def add_up(
        self, addends: Sequence[Addend], order: Order, *, max_keys: int, codes: Integers, within: bool = True
    ) -> list[Any]:
        size = len(codes) + 1
        places = np.full(self.size, len(codes), np.int64)
        places[codes] = np.arange(len(codes))
        total = [addend.nothing(size) for addend in addends]

        def add(pairs: Pairs) -> list[Any]:
            return [addend.parts(pairs, places[pairs.keys], size) for addend in addends]

        rows = any(addend.needs_rows for addend in addends)
        chosen = codes if within else None
        for parts in fold_pairs(self.coded, add, _as_keyed(order), max_keys=max_keys, within=chosen, rows=rows):
            total = [before + part for before, part in zip(total, parts, strict=True)]
        return total

    def restrict(self, codes: Sequence[int] | Integers) -> PulledContributions:
        return PulledContributions(self.coded.restrict(codes))

    def close(self) -> None:
        self.coded.close()


def as_port(found: Contributions | CodedContributions) -> Contributions:
    """What an engine has for a release, as the port."""
    return found if isinstance(found, Contributions) else PulledContributions(found)


def _as_keyed(order: Order) -> KeyOrder:
    return KeyOrder(order.a, order.b)
