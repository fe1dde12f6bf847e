"""Keys retained, and how well they are counted, on the Plume paper's synthetic data (Amin et al., 2022, section 9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks import pictures, plume_data
from benchmarks.reproduction import Integers, Pairs, Released
from benchmarks.timing import table
from sfumato.accounting import zcdp_rho
from sfumato.mechanisms import Rng
from sfumato.mechanisms.key_selection import GaussianRule, KeyRule, LaplaceRule
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Noise

PEOPLE, FEWER_PEOPLE = 10**6, 10**5
EPSILON, DELTA = Fraction(math.log(3)), Fraction(1, 10**5)
BOUND = 64
BOUNDS = tuple(2**power for power in range(9))
TRIALS, CURVE_TRIALS = 5, 3
LARGEST = 1000
RHO = Fraction(zcdp_rho(EPSILON, DELTA / 2))


@dataclass(frozen=True, slots=True)
class Synthetic:
    """The people's keys in two unrelated orders, one to select keys and one to count the selected, and the truth."""

    people: int
    selecting: Pairs
    counting: Pairs
    exact: Integers

    @classmethod
    def of(cls, people: int) -> Synthetic:
        persons, keys = plume_data.piece(0, people)
        selecting, counting = (Pairs.of(persons, keys, label=label) for label in ("select", "aggregate"))
        return cls(people, selecting, counting, counting.counts())


Method = Callable[[Synthetic, int, Integers], Released]
"""Of the data, L and the counts bounded to L."""


def laplace_plume(data: Synthetic, max_keys: int, bounded: Integers) -> Released:
    keys = _selected(_laplace_half(max_keys), bounded)
    return _noisy(keys, _bounded_again(data, keys, max_keys), DiscreteLaplace(2 * max_keys / EPSILON))


def laplace_fast(data: Synthetic, max_keys: int, bounded: Integers) -> Released:
    keys = _selected(_laplace_half(max_keys), bounded)
    return _noisy(keys, bounded, DiscreteLaplace(2 * max_keys / EPSILON))


def gaussian_halves(data: Synthetic, max_keys: int, bounded: Integers) -> Released:
    keys = _selected(GaussianRule(total=RHO / 2, delta=DELTA / 2, max_keys=max_keys), bounded)
    # No person is in more keys than were selected, and which were is public: a smaller bound is free.
    most = max(1, min(max_keys, len(keys)))
    return _noisy(keys, _bounded_again(data, keys, most), DiscreteGaussian(most / RHO))


def one_release(data: Synthetic, max_keys: int, bounded: Integers) -> Released:
    rule = GaussianRule(total=RHO, delta=DELTA / 2, max_keys=max_keys)
    selected = rule.select(bounded, Rng.system())
    return Released(selected.kept, selected.counts)


PLUME, FAST, HALVES, ONE = "Laplace, re-bounded", "Laplace, bounded once", "Gaussian halves, re-bounded", "one release"
METHODS: dict[str, Method] = {PLUME: laplace_plume, FAST: laplace_fast, HALVES: gaussian_halves, ONE: one_release}


def _laplace_half(max_keys: int) -> LaplaceRule:
    return LaplaceRule(epsilon=EPSILON / 2, delta=DELTA, max_keys=max_keys)


def _selected(rule: KeyRule, bounded: Integers) -> Integers:
    return rule.select(bounded, Rng.system()).kept


def _bounded_again(data: Synthetic, keys: Integers, max_keys: int) -> Integers:
    return data.counting.within(keys).counts(max_keys)


def _noisy(keys: Integers, counts: Integers, noise: Noise) -> Released:
    return Released(keys, counts[keys] + noise.sample(Rng.system().stream(), len(keys)))


@dataclass(frozen=True, slots=True)
class Errors:
    """Of one method at one L, means over trials. Errors are relative to the truth, and of retained keys."""

    retained: float
    mean: float
    median: float
    accurate: float
    largest: float
    """The median error of the LARGEST keys, dropped ones counted as 0: the same keys for every method."""
    absolute: float
    """The mean absolute error over all keys, dropped ones counted as 0."""

    @classmethod
    def of(cls, released: Released, exact: Integers) -> Errors:
        truth = exact[released.keys]
        relative = np.abs(released.counts - truth) / truth if len(truth) else np.array([np.nan])
        shown = np.zeros(len(exact), np.int64)
        shown[released.keys] = released.counts
        wrong = np.abs(shown - exact)
        top = np.argsort(-exact, kind="stable")[:LARGEST]
        return cls(
            retained=len(truth),
            mean=float(relative.mean()),
            median=float(np.median(relative)),
            accurate=released.accurate(exact),
            largest=float(np.median(wrong[top] / exact[top])),
            absolute=float(wrong.sum() / np.count_nonzero(exact)),
        )

    @classmethod
    def averaged(cls, errors: Sequence[Errors]) -> Errors:
        fields = cls.__dataclass_fields__
        return cls(*(float(np.mean([getattr(error, name) for error in errors])) for name in fields))

    def __str__(self) -> str:
        return f"{self.retained:,.0f} · {_percent(self.median)} · {self.accurate:,.0f}"


Curve = dict[tuple[str, int], Errors]


def _percent(share: float) -> str:
    return "none" if math.isnan(share) else f"{100 * share:.1f} %"


def measure(data: Synthetic, bounds: Sequence[int], trials: int) -> Curve:
    """Every method at every L."""
    curve: Curve = {}
    for max_keys in bounds:
        bounded = data.selecting.counts(max_keys)
        for name, method in METHODS.items():
            errors = [Errors.of(method(data, max_keys, bounded), data.exact) for _ in range(trials)]
            curve[name, max_keys] = Errors.averaged(errors)
    return curve


def report() -> str:
    data = Synthetic.of(PEOPLE)
    curve = measure(data, BOUNDS, CURVE_TRIALS)
    parts = [_introduction(), _at_one_bound(measure(data, [BOUND], TRIALS)), _paper(curve), _pictures(curve)]
    fewer = measure(Synthetic.of(FEWER_PEOPLE), BOUNDS, CURVE_TRIALS)
    for people, errors in ((PEOPLE, curve), (FEWER_PEOPLE, fewer)):
        parts += [_crossings(people, errors), _numbers(errors)]
    return "## Keys retained on the Plume paper's data\n\n" + "\n".join(parts)


def _introduction() -> str:
    return (
        f"Distinct people per key of {PEOPLE:,} synthetic people, each in at most L keys; epsilon ln 3, delta 1e-5. "
        "Errors are relative to the true count, people not bounded, and of the retained keys only; the paper reports "
        "their mean, which a single key of few people that passes the threshold by chance can double.\n\n"
        f"- **{PLUME}**: the paper's Naive and Plume. Keys are selected by Laplace noise with half of "
        "epsilon and all of delta; the other half counts them, each person bounded once more, to L of these.\n"
        f"- **{FAST}**: the paper's RuntimeOptimized. The same, without the second bounding.\n"
        f"- **{HALVES}**: both steps with Gaussian noise. Half of delta is for the threshold and half for the "
        f"conversion from rho = {float(RHO):.4f}, of which each step has half. Where fewer than L keys are "
        "selected, a person is in no more than there are, and the noise is made for that.\n"
        f"- **{ONE}**: one `GaussianRule` with all of that rho. The noisy counts that select the keys are the answer.\n"
    )


def _at_one_bound(curve: Curve) -> str:
    header = [f"L = {BOUND}, means of {TRIALS} trials", "retained", "median error", "mean error", "within 10 %"]
    lines = [("table 1 of the paper: Naive, RuntimeOptimized, Plume", "934, 936, 939", "", "", "")]
    for (name, _), errors in curve.items():
        shares = _percent(errors.median), _percent(errors.mean)
        lines.append((name, f"{errors.retained:,.0f}", *shares, f"{errors.accurate:,.0f}"))
    return table(header, lines)


def _paper(curve: Curve) -> str:
    """What the paper says of L, in its own measures."""
    best = min(BOUNDS, key=lambda bound: _or_infinity(curve[PLUME, bound].mean))
    least = min(BOUNDS, key=lambda bound: curve[PLUME, bound].absolute)
    relative = curve[PLUME, 1].mean / curve[PLUME, best].mean
    absolute = curve[PLUME, 1].absolute / curve[PLUME, least].absolute
    worse = [curve[FAST, bound].mean / curve[PLUME, bound].mean for bound in BOUNDS if curve[PLUME, bound].retained]
    return (
        "The paper gives no formula for its threshold, so the numbers of retained keys need not agree with its "
        f"table. In its pipeline L = 1 has {relative:.1f} times the mean error of the best L, {best}, and "
        f"{absolute:.1f} times the absolute error over all keys of the best L for that, {least}; the paper has 19 and "
        "2.4, of 10^7 people. Without the second bounding the mean error is "
        f"{min(worse):.2f} to {max(worse):.2f} times as large, depending on L; the paper finds it larger at every L.\n"
    )


def _numbers(curve: Curve) -> str:
    lines = [(str(bound), *(str(curve[name, bound]) for name in METHODS)) for bound in BOUNDS]
    return table(["L", *METHODS], lines)


def _crossings(people: int, curve: Curve) -> str:
    def won(measure: str, sign: int) -> str:
        one, halves = ({b: sign * getattr(curve[name, b], measure) for b in BOUNDS} for name in (ONE, HALVES))
        return _where([bound for bound in BOUNDS if one[bound] > halves[bound]])

    best = {name: _most_accurate(curve, name) for name in (ONE, HALVES)}
    at_best = {name: f"{curve[name, bound].accurate:,.0f} at L = {bound}" for name, bound in best.items()}
    return (
        f"**{people:,} people**, means of {CURVE_TRIALS} trials. Beside Gaussian halves, one release has the smaller "
        f"median error {won('median', -1)}, the smaller one on the {LARGEST:,} largest keys {won('largest', -1)}, and "
        f"more keys within 10 % {won('accurate', 1)}. At their best: one release {at_best[ONE]}, Gaussian halves "
        f"{at_best[HALVES]}. In the table: keys retained · their median error · keys within 10 %.\n"
    )


def _most_accurate(curve: Curve, name: str) -> int:
    return max(BOUNDS, key=lambda bound: curve[name, bound].accurate)


def _or_infinity(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _where(better: Sequence[int]) -> str:
    """From some L on, if it is better at every one from there to the last; and where else."""
    tail = [bound for at, bound in enumerate(BOUNDS) if set(BOUNDS[at:]) <= set(better)]
    others = ", ".join(str(bound) for bound in better if bound not in tail)
    texts = [f"from L = {tail[0]} on"] if tail else []
    return " and ".join([*texts, *([f"at L = {others}"] if others else [])]) or "nowhere"


LINES = (
    pictures.Line(PLUME, pictures.ORANGE),
    pictures.Line(HALVES, pictures.BLUE),
    pictures.Line(FAST, pictures.SAND, dashed=True),
    pictures.Line(ONE, pictures.GREEN),
)


def _pictures(curve: Curve) -> str:
    bound = pictures.Axis("L", "L, keys a person", {"type": "log", "base": 2, "domain": [1, 256]}, BOUNDS[::2])
    percent = [0.02, 0.05, 0.1, 0.2, 0.5, 1]
    error = pictures.Axis("value", "relative error", {"type": "log", "domain": [0.01, 1]}, [0.01, *percent], ".0%")
    number = pictures.Axis("value", "keys", {"domain": [0, 15_000]}, range(0, 15_001, 5000), ",d")
    errors = {
        "mean": "Mean, retained keys",
        "median": "Median, retained keys",
        "largest": f"Median, {LARGEST:,} largest keys",
    }
    numbers = {"retained": "Retained", "accurate": "Within 10 % of the truth"}
    return "\n".join(
        [
            _drawn(curve, bound, error, errors, "retained_errors"),
            _drawn(curve, bound, number, numbers, "retained_keys"),
        ]
    )


def _drawn(curve: Curve, x: pictures.Axis, y: pictures.Axis, measures: dict[str, str], name: str) -> str:
    points = [
        {"method": method, "L": bound, "what": title, "value": _or_none(getattr(errors, measure))}
        for (method, bound), errors in curve.items()
        for measure, title in measures.items()
    ]
    panels = pictures.Panels("what", list(measures.values()), side=200)
    chart = pictures.lines(points, x, y, panels, LINES)
    return pictures.save(chart, name, f"{y.title.capitalize()} by L, {PEOPLE:,} people")


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


if __name__ == "__main__":
    print(report())
