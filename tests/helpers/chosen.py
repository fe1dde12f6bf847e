"""A stream whose words a test chooses."""

from __future__ import annotations

import numpy as np

from sfumato.mechanisms.stream import Stream


class ChosenStream(Stream):
    """Words written by hand: lane -> index -> word. A word nobody wrote is an error."""

    def __init__(self, words: dict[int, dict[int, int]]) -> None:
        self._words = words

    def words(self, lane: int, start: int, count: int) -> np.ndarray:
        return np.array([self._words[lane][index] for index in range(start, start + count)], np.uint64)
