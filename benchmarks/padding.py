"""Padding of response times: how well one tenant can tell that another has asked a question before."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from benchmarks.service import SERVE, Line, new_key_for, process
from benchmarks.shares import new_question, prepare
from benchmarks.timing import table

QUESTIONS, PADS_MS = 80, (0, 20, 50, 100)


def report() -> str:
    rows = []
    for pad_ms in PADS_MS:
        with tempfile.TemporaryDirectory() as place:
            config = prepare(Path(place) / "shop", pad_ms)
            anna, ben = new_key_for(config, "anna"), new_key_for(config, "ben")
            with process([*SERVE, "--config", str(config)]) as (service, _):
                asked, new = _times(service, anna, ben)
        rows.append((str(pad_ms), f"{_accuracy(asked, new):.2f}"))
    return (
        "## Padding\n\n"
        f"One tenant times {QUESTIONS} questions that another tenant asked before, and {QUESTIONS} new ones, and takes "
        "the best threshold to tell them apart: how often it is right, where 0.50 is chance. The same questions choose "
        "and judge the threshold, so chance alone gives a little more than 0.50.\n\n"
        + table(["`pad_ms`", "right"], rows)
    )


def _times(service: str, key: str, other: str) -> tuple[list[float], list[float]]:
    """Seconds that questions take which the other has asked, and which are new; in turns."""
    own, others, asked, new = Line(service), Line(service), list[float](), list[float]()
    numbers = itertools.count(int(time.time() * 1000) % 10**9 * 1000)
    for at in range(-10, QUESTIONS):
        first, second = next(numbers), next(numbers)
        others.ask(new_question(service, other, first))
        for number, times in ((first, asked), (second, new)):
            started = time.perf_counter()
            own.ask(new_question(service, key, number))
            if at >= 0:  # the first ones are to warm up
                times.append(time.perf_counter() - started)
    return asked, new


def _accuracy(asked: list[float], new: list[float]) -> float:
    """Of the best rule "it was asked before if it took less than so long"."""
    cuts = [*asked, *new]
    right = (sum(each < cut for each in asked) + sum(each >= cut for each in new) for cut in cuts)
    return max(right) / len(cuts)


if __name__ == "__main__":
    print(report())
