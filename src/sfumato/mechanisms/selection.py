"""The Gumbel race: an exact order by score plus ideal real-valued Gumbel noise.

Runner i has the weight exp(score_i). Ordering the runners by score_i + Gumbel_i is the same as drawing them
one after another without replacement, each with probability proportional to its weight among those left
(peeling), which is how the exponential mechanism is run k times in one shot. The noise is never released,
only the order. Proof: proofs/gumbel_race.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Stream, Uniform, decimal

Floats: TypeAlias = NDArray[np.float64]

# Float64 places a runner to within (1 + |score| + |place|) * MARGIN plus what its unrevealed digits may move it.
MARGIN = 2.0**-44

RUNNERS = 64
"""So many runners have one bound in `runners_ahead`."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Exact scores rate * count - ln(divisor) + ln(weight), one a runner.

    A runner of weight n runs like n runners of weight 1 of which the first is taken.
    """

    rate: Fraction
    counts: Integers
    divisors: Integers | None = None
    weights: Integers | None = None
    reference: int = field(init=False)

    def __post_init__(self) -> None:
        # Counts matter by their differences only; the largest is the zero point, where floats are finest.
        object.__setattr__(self, "reference", int(self.counts.max(initial=-(2**62))))

    def decimal(self, runner: int, context: Context) -> tuple[Decimal, Decimal]:
        """One score, and a bound on its rounding error."""
        score = decimal(self.rate * (int(self.counts[runner]) - self.reference), context)
        less = context.ln(1 if self.divisors is None else int(self.divisors[runner]))
        more = context.ln(1 if self.weights is None else int(self.weights[runner]))
        size = context.add(context.add(1, score.copy_abs()), context.add(less, more))
        return context.subtract(context.add(score, more), less), context.scaleb(size, 2 - context.prec)


def race(scores: Scores, stream: Stream, first: int) -> list[int]:
    """The `first` runners in the order of score + Gumbel noise, largest first.

    Exact: float64 brackets every runner; where two brackets that decide the answer overlap, further digits
    of their noise are revealed and compared in decimal arithmetic. Runner i uses word i of every lane.
    """
    runners = len(scores.counts)
    if runners == 0:
        return []
    low, high = _brackets(scores, stream.words(0, 0, runners))
    contenders = np.arange(runners)
    if first < runners:
        bar = np.partition(low, len(low) - first)[len(low) - first]
        contenders = np.flatnonzero(high >= bar)
    return _order(scores, stream, contenders, (low[contenders], high[contenders]), first)


def runners_ahead(scores: Scores, stream: Stream, first: int) -> list[int]:
    """The runners ahead of runner 0 in the order of `race`, at most the `first` of them; only counts make scores.

    Few runners get ahead of a distant one: noise above x takes a uniform number below 1 - exp(-exp(-x)) < exp(-x). So
    comparing words with that, at the largest count of each block of runners, leaves a few to look at.
    """
    if len(scores.counts) == 1:
        return []
    words, others = stream.words(0, 0, len(scores.counts)), scores.counts[1:]
    largest = np.maximum.reduceat(others, np.arange(0, len(others), RUNNERS))
    bar = _brackets(Scores(scores.rate, scores.counts[:1]), words[:1])[0]
    missing = float(scores.rate) * (scores.counts[0] - largest)
    least = bar + missing - (1 + np.abs(bar) + np.abs(missing)) * MARGIN
    bounds = np.exp(-np.maximum(least, 0)) * (2.0**64 * (1 + MARGIN)) + 1
    possible = words[1:] < np.repeat(bounds, RUNNERS)[: len(others)]
    runners = np.concatenate([[0], 1 + np.flatnonzero(possible)])
    low, high = _brackets(Scores(scores.rate, scores.counts[runners]), words[runners])
    ahead = high >= low[0]
    order = _order(scores, stream, runners[ahead], (low[ahead], high[ahead]), first)
    return order[: order.index(0)] if 0 in order else order


def _order(scores: Scores, stream: Stream, runners: Integers, ends: tuple[Floats, Floats], first: int) -> list[int]:
    """The `first` of these runners, whose noisy scores are between `ends`."""
    by_middle = np.argsort(-sum(ends), kind="stable")
    low, high = (end[by_middle] for end in ends)
    # A cut after place j is clean when everybody before it is surely ahead of everybody behind it.
    clean = np.minimum.accumulate(low)[:-1] > np.maximum.accumulate(high[::-1])[::-1][1:]
    likely: list[int] = runners[by_middle].tolist()
    if clean.all():
        return likely[:first]
    order: list[int] = []
    for start, stop in itertools.pairwise([0, *(np.flatnonzero(clean) + 1).tolist(), len(likely)]):
        if len(order) >= first:
            break
        group = likely[start:stop]
        order += group if len(group) == 1 else _compare(scores, stream, group)
    return order[:first]


def winners(scores: Scores, starts: Integers, stream: Stream) -> Integers:
    """The first of each of many races: race j is between the runners from `starts[j]` on, up to the next start.

    Each race has a runner at least. The noise, and so each winner, is that of `race` on the same runners.
    """
    runners = len(scores.counts)
    low, high = _brackets(scores, stream.words(0, 0, runners))
    bars = np.repeat(np.maximum.reduceat(low, starts), np.diff(starts, append=runners))
    contenders = np.flatnonzero(high >= bars)
    of_race = np.searchsorted(starts, contenders, side="right") - 1
    firsts = np.searchsorted(of_race, np.arange(len(starts)))
    ahead = contenders[firsts]
    for j in np.flatnonzero(np.diff(firsts, append=len(contenders)) > 1):
        ahead[j] = _compare(scores, stream, contenders[of_race == j].tolist())[0]
    return ahead


def _brackets(scores: Scores, words: NDArray[np.uint64]) -> tuple[Floats, Floats]:
    """Certain bounds of score - ln(-ln(1 - W)), W in [word, word + 1) / 2^64.

    For W >= 1/2 the complement is formed in integers: 1 - W rounded after the fact would lose its digits.
    """
    nearer = np.minimum(words, ~words)  # below 2^63: int64 holds it, and is quicker to turn into floats
    near = nearer.view(np.int64) + 0.5  # distance to the nearer end of the interval, in 2^-64
    distance = near * 2.0**-64
    exponential = -np.where(words == nearer, np.log1p(-distance), np.log(distance))
    floats = np.multiply(scores.counts - scores.reference, float(scores.rate), dtype=np.float64)
    size: Floats = np.abs(floats)  # of what goes into the scores
    if scores.divisors is not None:
        logs: Floats = np.log(scores.divisors.astype(np.float64))
        floats, size = floats - logs, size + logs
    if scores.weights is not None:
        logs = np.log(scores.weights.astype(np.float64))
        floats, size = floats + logs, size + logs
    place = floats - np.log(exponential)
    slack = (1 + size + np.abs(place)) * MARGIN + 1 / near
    low, high = place - slack, place + slack
    if not nearer.all():  # one of them is at an end, which is open
        low[words == np.uint64(2**64 - 1)] = -math.inf
        high[words == 0] = math.inf
    return low, high


def _compare(scores: Scores, stream: Stream, group: list[int]) -> list[int]:
    runners = [_Runner(scores, runner, Uniform(stream, runner)) for runner in group]
    return [runner.number for runner in sorted(runners, key=cmp_to_key(_ahead))]


def _ahead(one: _Runner, other: _Runner) -> int:
    """-1 if `one` is ahead: its noisy score is larger. Reveals digits of both until that is certain."""
    while True:
        if one.low > other.high:
            return -1
        if other.low > one.high:
            return 1
        one.reveal()
        other.reveal()


@dataclass(slots=True)
class _Runner:
    """A runner under the magnifying glass: decimal bounds of its noisy score."""

    scores: Scores
    number: int
    uniform: Uniform
    low: Decimal = field(init=False)
    high: Decimal = field(init=False)

    def __post_init__(self) -> None:
        self._measure()

    def reveal(self) -> None:
        self.uniform.reveal()
        self._measure()

    def _measure(self) -> None:
        context, numerator = self.uniform.context(), self.uniform.numerator
        score, error = self.scores.decimal(self.number, context)
        late = context.subtract(score, self._log_exponential(context, numerator + 1))
        early = context.subtract(score, self._log_exponential(context, numerator))
        self.low = context.subtract(late, self._slack(context, late, error))
        self.high = context.add(early, self._slack(context, early, error)) if numerator else early

    def _log_exponential(self, context: Context, numerator: int) -> Decimal:
        """ln(-ln(1 - numerator / 2^bits)); -Infinity at 0 and +Infinity at 2^bits."""
        bits = self.uniform.bits
        rest = context.ln((1 << bits) - numerator)
        return (
            context.ln(context.subtract(context.multiply(bits, context.ln(2)), rest))
            if numerator
            else Decimal("-Infinity")
        )

    def _slack(self, context: Context, place: Decimal, error: Decimal) -> Decimal:
        """Rounding, counting that the exponential may be as small as numerator / 2^bits while its terms are bits."""
        if not place.is_finite():
            return Decimal(0)
        bits = self.uniform.bits
        cancelled = context.divide(bits << bits, max(self.uniform.numerator, 1))
        return context.add(error, context.scaleb(context.add(place.copy_abs(), cancelled), 2 - context.prec))
