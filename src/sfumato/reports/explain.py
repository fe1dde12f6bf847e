"""`sfumato report explain`: what a report promises, as a product of factors and in words.

Pure: everything follows from the policy. Long numbers are rounded up, so what is shown holds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Literal

from sfumato.query.reports.policy import (
    ReportGuarantee,
    ReportPolicy,
    ReportStatistic,
    SourceGuarantee,
    guarantee,
)
from sfumato.reports.accuracy import compare_noise, usual_errors
from sfumato.show.text import at_delta, join_words

TIMES = " x "
MAX_LISTED_VERSIONS = 6


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of the guarantee: its number, how it is written, and where it comes from.

    A sum stands in brackets in the formula. Of a small rho, the first digits count.
    """

    number: Fraction
    words: str
    why: str
    is_sum: bool = False
    is_rho: bool = False

    @property
    def number_text(self) -> str:
        """The number as a table has it."""
        return digits(self.number) if self.is_rho and self.number < 1 else amount(self.number)

    @property
    def term(self) -> str:
        """The factor in the formula."""
        return f"({self.words})" if self.is_sum else self.words


@dataclass(frozen=True, slots=True)
class ReportExplanation:
    """A report's guarantee with all that goes into it.

    `sealed` is the number of its places and their highest version, if known; `others` is the number of places that were
    drawn under another policy. `together` is what this report and all others of the same rows promise, if there are.
    """

    policy: ReportPolicy
    promise: ReportGuarantee
    factors: tuple[Factor, ...]
    sealed: tuple[int, int] | None = None
    others: int = 0
    together: SourceGuarantee | None = None

    @property
    def formula(self) -> str:
        product, epsilon = TIMES.join(factor.term for factor in self.factors), amount(self.promise.epsilon)
        if self.promise.gaussian is None:
            return f"{product} = {epsilon}"
        rho = math.prod(factor.number for factor in self.factors)
        return f"{product} = {digits(Fraction(rho))}: epsilon {epsilon}{at_delta(self.promise.delta)}"

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions to list: the first ones, the one that is reached, and the last that there may be."""
        most, reached = self.promise.versions, self.sealed[1] if self.sealed else 0
        return tuple(sorted({*range(1, min(most, MAX_LISTED_VERSIONS) + 1), most, *([reached] if reached else [])}))

    def to_dict(self) -> dict[str, Any]:
        policy, other = self.policy, compare_noise(self.policy, self.promise)
        return {
            "report": policy.name,
            "guarantee": self.promise.to_dict(),
            "together": None if self.together is None else self.together.to_dict(),
            "formula": self.formula,
            "factors": [{"number": float(f.number), "words": f.term, "why": f.why} for f in self.factors],
            "statistics": {"counting_one_event": list(self.promise.statistics), "why": list(joint_statistics(policy))},
            "attributes": {
                name: {"values": len(each.domain), "max_values": each.max_values}
                for name, each in policy.attributes.items()
            },
            cell_parameter(policy): {
                name: {level: float(each) for level, each in cell_parameters(policy, name).items()}
                for name in policy.statistics
            },
            "versions": [{"versions": count, "epsilon": float(self.promise.after(count))} for count in self.versions],
            "max_versions": policy.max_versions,
            "person": float(self.promise.epsilon) if self.promise.unit == "person" else None,
            "exact_totals": policy.exact_totals,
            "errors": [each.to_dict() for each in usual_errors(policy)],
            other.noise: other.to_dict(),
            "sealed_under_another_policy": self.others,
            "sealed": None if self.sealed is None else dict(zip(("places", "highest"), self.sealed, strict=True)),
            "notes": [*meaning(self), *not_covered(self)],
        }


def explain_report(
    policy: ReportPolicy,
    sealed: tuple[int, int] | None = None,
    others: int = 0,
    sums: Iterable[SourceGuarantee] = (),
) -> ReportExplanation:
    """The factors behind a report's guarantee; their product is exactly its epsilon, or its rho with Gaussian noise.

    `sums` are those of all reports; at most one has this report in it.
    """
    promise = guarantee(policy)
    together = next((each for each in sums if f"report {policy.name}" in each.parts), None)
    return ReportExplanation(policy, promise, tuple(_factors(policy, promise)), sealed, others, together)


def _factors(policy: ReportPolicy, promise: ReportGuarantee) -> Iterator[Factor]:
    *before, price = _cell_factors(policy, promise)
    yield _attribute_factor(policy, promise)
    yield from before
    if policy.levels:
        words, why = _many(promise.entities, "level", "of entities"), f"{join_words(policy.levels)}: one of each"
        yield Factor(Fraction(promise.entities), words, f"an event counts for {why}")
    yield price
    if promise.versions > 1:
        words = _many(promise.versions, "version")
        yield Factor(Fraction(promise.versions), words, "max_versions: how often a range may be sealed")
    if promise.events > 1:
        most = f"max_events_per_unit: no more of one {policy.unit} count"
        if promise.gaussian is None:
            yield Factor(Fraction(promise.events), f"{promise.events:,} events of a person", most)
        else:
            words, squared = f"{promise.events:,}^2 for the events of a person", "they may all be in the same cells"
            yield Factor(Fraction(promise.events**2), words, f"{most}, and {squared}")


def _attribute_factor(policy: ReportPolicy, promise: ReportGuarantee) -> Factor:
    """The values of one event; the total is one more, unless it is exact."""
    values = sum(attribute.max_values for attribute in policy.attributes.values())
    count = len(policy.attributes)
    words = _many(count, "attribute") if values == count else f"{values} values of {_many(count, 'attribute')}"
    several = [f"{each.name} (up to {each.max_values})" for each in policy.attributes.values() if each.max_values > 1]
    why = "an event has one value of each" if not several else f"an event has several values of {join_words(several)}"
    number = Fraction(promise.attributes)
    if policy.exact_totals:
        return Factor(number, words, f"{why}; totals are exact, and not in the sum")
    if not count:
        return Factor(number, "1 total", "there are no attributes")
    return Factor(number, f"{words} + 1 total", f"{why}, and counts in the total", is_sum=True)


def _cell_factors(policy: ReportPolicy, promise: ReportGuarantee) -> Iterator[Factor]:
    """Levels of time, statistics that count one event, and last the price of a cell: its epsilon, or its rho.

    They are factors where all cells have the same price, and a sum where they do not.
    """
    levels, names = policy.calendar.levels, promise.statistics
    is_rho = policy.gaussian is not None
    unit, write = ("rho", digits) if is_rho else ("epsilon", amount)
    rows = {name: tuple(_price(policy, name, level) for level in levels) for name in names}
    first, alike = rows[names[0]], len({*rows.values()}) == 1
    flat = alike and len({*first}) == 1
    if flat:
        why = f"{join_words(levels)}: an event lies in one range of each"
        yield Factor(Fraction(len(levels)), _many(len(levels), "level", "of time"), why)
    if alike and len(names) > 1:
        yield Factor(Fraction(len(names)), _many(len(names), "statistic"), f"{join_words(names)} may count one event")
    if flat:
        yield Factor(first[0], f"{unit} {write(first[0])}", "that of one cell", is_rho=is_rho)
    elif alike:
        terms = " + ".join(f"{write(each)} in {level}" for each, level in zip(first, levels, strict=True))
        yield Factor(sum(first, Fraction(0)), f"{unit} ({terms})", "that of a cell, by level of time", is_rho=is_rho)
    else:
        terms = " + ".join(f"{' + '.join(map(write, each))} of {name}" for name, each in rows.items())
        total = sum((sum(each, Fraction(0)) for each in rows.values()), Fraction(0))
        yield Factor(total, f"{unit} ({terms})", f"that of a cell, in {join_words(levels)}", is_rho=is_rho)


def _price(policy: ReportPolicy, statistic: str, level: str) -> Fraction:
    """What a cell adds to the sum: its epsilon; with Gaussian noise its rho, 1 / (2 deviation^2)."""
    if policy.gaussian is None:
        return policy.epsilon(statistic, level)
    return 1 / (2 * policy.gaussian.variance(level))


def cell_parameter(policy: ReportPolicy) -> Literal["epsilon", "deviation"]:
    """What says how much noise a cell has."""
    return "epsilon" if policy.gaussian is None else "deviation"


def cell_parameters(policy: ReportPolicy, statistic: str) -> Mapping[str, Fraction]:
    """It, by level of time."""
    return policy.statistics[statistic].epsilon if policy.gaussian is None else policy.gaussian.deviations


def joint_statistics(policy: ReportPolicy) -> Iterator[str]:
    """Which statistics may count one event, and why the others cannot count the same one."""
    counting, names = guarantee(policy).statistics, list(policy.statistics)
    others = [name for name in names if name not in counting]
    if len(names) == 1:
        yield f"{names[0]} is the only statistic."
    elif not others:
        yield f"One event may count in all of {join_words(names)}: their filters may hold at once."
    elif not any(_may_count_one_event(policy, *pair) for pair in itertools.combinations(names, 2)):
        sums = {sum((_price(policy, name, level) for level in policy.calendar.levels), Fraction(0)) for name in names}
        largest = "" if len(sums) == 1 else f" {counting[0]} has the largest epsilon."
        columns = [statistic.column for statistic in policy.statistics.values()]
        why = "no two of their filters can hold at once"
        why += "" if len({*columns}) == 1 else ", or they add up two columns"
        if len({*columns}) == len(columns):
            why = "each adds up a column of its own"
        yield f"One event counts in at most one of {join_words(names)}: {why}.{largest}"
    else:
        alone = f"in {counting[0]} alone" if len(counting) == 1 else f"in {join_words(counting)} at once"
        yield f"At most, one event counts {alone}; no other statistics that may count one event add up to more."
        for name in others:
            other = next(each for each in counting if not _may_count_one_event(policy, name, each))
            why = f"its filter and that of {other} cannot hold at once"
            if policy.statistics[name].column != policy.statistics[other].column:
                why = f"it adds up {policy.statistics[name].column}, another column than {other} does"
            yield f"{name} cannot count the same event: {why}."


def _may_count_one_event(policy: ReportPolicy, *names: str) -> bool:
    """Whether all these statistics may count one event: by the guarantee of a report with them alone."""
    alone: dict[str, ReportStatistic] = {name: replace(policy.statistics[name], of=None) for name in names}
    return len(guarantee(replace(policy, statistics=alone)).statistics) == len(names)


def meaning(explained: ReportExplanation) -> Iterator[str]:
    """What the number means, in sentences."""
    policy, promise = explained.policy, explained.promise
    yield (
        "It holds over all that is ever asked under this policy, by all analysts together and however often: a cell is "
        "drawn once and stored, and answers are made of stored cells. A report debits no budget."
    )
    if promise.versions == 1:
        yield (
            "Each range is sealed once. A second version (`sfumato report reseal`, or another epsilon, filter or cap) "
            f"needs max_versions = 2, and epsilon {amount(promise.after(2))}{at_delta(promise.delta)}."
        )
    gaussian = promise.gaussian is not None
    if promise.unit == "event":
        would_be = "that of n^2 times the rho" if gaussian else f"n times {amount(promise.epsilon)}"
        yield (
            "It is for one event. For one person there is no bound, because a person may have any number of events: "
            f"with a cap of n, max_events_per_unit = n, it would be {would_be}, if a person's "
            f"rows arrive within the lag, {_lag(policy)}."
        )
        return
    each = f"{promise.events:,} times {amount(promise.seal)} for each version"
    if gaussian:
        each = f"{promise.events:,}^2 times the rho of one, which has epsilon {amount(promise.seal)} for one version"
    yield f"It is for one person, one {policy.unit}, of whose events the first {promise.events:,} count: {each}."
    yield (
        f"That needs rows to arrive within the lag, {_lag(policy)} after the end of their range: later rows change "
        "which events of a person are the first, and then more of them may be counted in all."
    )


def not_covered(explained: ReportExplanation) -> Iterator[str]:
    """What the number does not cover."""
    policy = explained.policy
    if explained.together is not None:
        yield describe_sum(explained.together)
    if explained.others:
        yield (
            f"What was drawn under another policy (another epsilon, filter, zone, ...): {explained.others:,} sealed "
            f"place{'' if explained.others == 1 else 's'}. What that policy promised adds to this number."
        )
    if policy.exact_totals:
        noised = (
            f"epsilon {amount(epsilon_with_noise(policy))}" if policy.gaussian is None else "all noise is larger then"
        )
        yield (
            "Totals are exact: the owner has it known to the reader. They tell whether one event is there, and are not "
            f"in the number. With noise they would be: {noised}, and no exact_totals."
        )
    yield (
        "The policy is public: domains, the table of entities, epsilons, filters. Values that were copied into it from "
        "the rows are not protected."
    )
    yield "What is asked with `sfumato ask` or published by `sfumato release` about the same rows adds to it."
    several = "n times the epsilon"
    if policy.gaussian is not None:
        several = "n^2 times the rho, which is more than n times the epsilon at the same delta"
    if explained.promise.unit == "event":
        yield f"Several events at once, of a person or of a household: n events have {several}."
    else:
        yield f"Several people at once: a household of n has {several}."


def describe_sum(together: SourceGuarantee) -> str:
    """What several draws of the same rows promise, in a sentence or two."""
    tables, parts = join_words(together.tables), together.parts.items()
    each = join_words([f"{name} ({amount(epsilon)})" for name, epsilon in parts])
    size = f"epsilon {amount(together.epsilon)}{at_delta(together.delta)}"
    return (
        f"Several reports draw from the same rows, {tables}: {each}. Each has noise of its own, so "
        f"they add up: {size} for one {together.unit}, over all of them."
    )


def epsilon_with_noise(policy: ReportPolicy) -> Fraction:
    """The guarantee that a report would have with noise on its totals too."""
    return guarantee(replace(policy, exact_totals=False)).epsilon


def _lag(policy: ReportPolicy) -> str:
    minutes = int(policy.lag.total_seconds() // 60)
    for size, name in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes % size == 0 and minutes:
            return _many(minutes // size, name)
    return "no time"


def _many(count: int, noun: str, rest: str = "") -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}{' ' if rest else ''}{rest}"


def digits(number: Fraction) -> str:
    """The first four digits of a number, rounded up.

    >>> [digits(Fraction(text)) for text in ("1/2", "1/3000", "12345")]
    ['0.5', '0.0003334', '12350']
    """
    first = Context(prec=4, rounding=ROUND_CEILING)
    return f"{first.divide(Decimal(number.numerator), Decimal(number.denominator)).normalize():f}"


def amount(number: Fraction) -> str:
    """A number in full where that is short, and rounded up where it is not.

    >>> [amount(Fraction(text)) for text in ("42", "1/2", "1/3", "123456")]
    ['42', '0.5', '0.3334', '123,456']
    """
    if number.denominator == 1:
        return f"{number.numerator:,}"
    return f"{math.ceil(number * 10_000) / 10_000:,.4f}".rstrip("0").rstrip(".")
