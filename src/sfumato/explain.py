"""What a configuration promises to one person, in numbers and in words: `sfumato policy explain`.

Pure: everything follows from the file. Epsilons are rounded up, so the promise that is shown holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

from sfumato.accounting import Charge, epsilon
from sfumato.accounting.composition import approximate_zcdp_epsilon
from sfumato.config import RIGHTS, Budget, Config, Role
from sfumato.ledger import Account, all_accounts, budget_accounts
from sfumato.ledger.accounts import RELEASE
from sfumato.mechanisms import KnownLaplace, Mechanism, UnknownGaussian, UnknownGumbel, UnknownLaplace
from sfumato.query.policy import Prices
from sfumato.query.reports.policy import ReportGuarantee

LEAST_DELTA = Fraction(1, 10**9)
PERIODS = {"daily": "per day", "weekly": "per week", "monthly": "per month", "never": "in all"}
PERIODS_PER_YEAR = {"daily": 366, "weekly": 53, "monthly": 12}
ALL = "all of it"
WEAK = 3  # from this epsilon on, a bet at 50:50 can be won 19 times in 20


@dataclass(frozen=True, slots=True)
class Bound:
    """(epsilon, delta)-DP for one person, at a charge; with an `epsilon` of None there is no bound.

    A bet at 50:50 on whether one person is in the data is won with a probability of at most `wins`,
    (e^epsilon + delta) / (1 + e^epsilon), whatever else is known.
    """

    words: str
    charge: Charge | None
    epsilon: float | None
    delta: Fraction | None

    @property
    def wins(self) -> float:
        """Rounded up to a hundredth of a percent."""
        if self.epsilon is None or self.delta is None:
            return 1.0
        chance = 1 - (1 - float(self.delta)) / (1 + math.exp(min(self.epsilon, 700)))
        return min(_round_up(chance, 10_000), 1.0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.words,
            "charge": None if self.charge is None else self.charge.to_dict(),
            "epsilon": self.epsilon,
            "delta": None if self.delta is None else float(self.delta),
            "wins": self.wins,
        }


@dataclass(frozen=True, slots=True)
class Promise:
    """What one account promises. `bounds` begin with one question and end with the whole budget, or a year of it."""

    account: Account
    bounds: tuple[Bound, ...]

    @property
    def tracked(self) -> bool:
        return self.account.budget.mode == "track"

    @property
    def nothing(self) -> bool:
        """Whether no question is ever answered."""
        return not self.tracked and not self.account.budget.cap

    @property
    def whole(self) -> Bound:
        return next(bound for bound in self.bounds if bound.words == ALL)

    def to_dict(self) -> dict[str, Any]:
        budget = self.account.budget
        return {
            "account": self.account.name,
            "mode": budget.mode,
            "resets": budget.resets,
            "limit": budget.cap.to_dict(),
            "epsilon_per": str(budget.prices.epsilon_per),
            "delta_per": str(budget.prices.delta_per),
            "guarantee": None if self.tracked else self.whole.to_dict(),
            "bounds": [bound.to_dict() for bound in self.bounds],
        }


@dataclass(frozen=True, slots=True)
class AnalystRights:
    """What an analyst may ask about. With `where`, some rows only; with `some_entities`, reports show some only."""

    role: Role
    tables: tuple[str, ...]
    reports: tuple[str, ...]
    where: str | None
    some_entities: bool


@dataclass(frozen=True, slots=True)
class PolicyExplanation:
    """The promise of every account, and what all analysts together could learn: None if nothing bounds that.

    `reports` have their own guarantees, None where it is not known. `readers` are the analysts who may read every
    entity of them. `rights` are what each analyst may ask about. `uncapped` are tables without a cap, `guaranteed`
    columns whose bound no query enforces.
    """

    promises: tuple[Promise, ...]
    analysts: tuple[str, ...]
    together: Bound | None
    uncapped: tuple[str, ...]
    guaranteed: tuple[str, ...]
    reports: Mapping[str, ReportGuarantee | None] = field(default_factory=dict)
    readers: tuple[str, ...] = ()
    rights: Mapping[str, AnalystRights] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "accounts": [promise.to_dict() for promise in self.promises],
            "together": {
                "analysts": list(self.analysts),
                "guarantee": None if self.together is None else self.together.to_dict(),
            },
            "tables_without_a_cap": list(self.uncapped),
            "reports": {name: None if each is None else each.to_dict() for name, each in self.reports.items()},
            "read_every_entity": list(self.readers),
            "rights": {name: asdict(each) for name, each in self.rights.items()},
            "not_bounded": list(exclusions(self)),
        }


def explain(
    config: Config, analyst: str | None = None, guarantees: Mapping[str, ReportGuarantee] | None = None
) -> PolicyExplanation:
    """The promises of a configuration; with an analyst, those of the accounts that her questions debit.

    `guarantees` are those of reports. They depend on the types of live columns, so the caller finds them.
    """
    accounts = {name: each for name, each in all_accounts(config).items() if not name.startswith(RELEASE)}
    if analyst is not None:
        hers = {account.name for account in budget_accounts(config, analyst)}
        accounts = {name: each for name, each in accounts.items() if name in hers}
    has_entities = any(report.levels for report in config.reports.values())
    return PolicyExplanation(
        promises=tuple(Promise(account, tuple(_bounds(account))) for account in accounts.values()),
        analysts=tuple(config.analysts),
        together=_bound_together(config),
        uncapped=tuple(name for name, table in config.tables.items() if table.measures and not table.cap),
        guaranteed=tuple(
            f"{name}.{column}"
            for name, table in config.tables.items()
            for column, settings in table.columns.items()
            if settings.guaranteed
        ),
        reports={name: (guarantees or {}).get(name) for name in config.reports},
        readers=tuple(
            name
            for name, each in config.analysts.items()
            if has_entities and each.entities is None and analyst in (None, name) and _rights(config, name).reports
        ),
        rights={name: _rights(config, name) for name in config.analysts if analyst in (None, name)},
    )


def _rights(config: Config, analyst: str) -> AnalystRights:
    who, limit = config.analyst(analyst), config.tables_of(analyst)
    asks, reads = who.role in RIGHTS["ask"], who.role in RIGHTS["report"]
    tables = [name for name, table in config.tables.items() if asks and table.measures]
    reports = [name for name in config.reports if reads]
    return AnalystRights(
        role=who.role,
        tables=tuple(name for name in tables if limit is None or name in limit),
        reports=tuple(name for name in reports if limit is None or config.reports[name].table in limit),
        where=who.where,
        some_entities=who.entities is not None,
    )


def _bounds(account: Account) -> Iterator[Bound]:
    """One question, a tenth of the budget, the whole budget, and a year of it."""
    budget = account.budget
    cap, tracked = budget.cap, budget.mode == "track"
    # A tracked budget refuses nothing, so there is a question with a call, whatever the limit says.
    delta = _delta((max(cap.calls, Fraction(1)) if tracked else cap.calls) * budget.prices.delta_per)
    # The analyst's own budget chooses the noise of counts. For a shared account: the noise that promises less.
    prices = replace(budget.prices, count_noise="gaussian") if account.shared else budget.prices
    for words, mechanism, pure in _typical_questions(prices):
        if mechanism.reserve <= cap or tracked:
            yield _bound(words, mechanism.reserve, budget.prices, delta, pure)
    if tracked:
        return
    yield _bound("a tenth of the budget", Charge(cap.information / 10, cap.calls / 10), budget.prices, delta)
    yield _bound(ALL, cap, budget.prices, delta)
    if times := PERIODS_PER_YEAR.get(budget.resets):
        year = Charge(cap.information * times, cap.calls * times)
        yield _bound("a year of it", year, budget.prices, _delta(year.calls * budget.prices.delta_per))


def _typical_questions(prices: Prices) -> Iterator[tuple[str, Mechanism, Fraction | None]]:
    """Typical questions, each with its epsilon if it is pure but for the delta of its call."""
    common: dict[str, Any] = {"epsilon": prices.epsilon_per, "delta": prices.delta_per}
    laplace = prices.count_noise == "laplace"
    total = KnownLaplace.of(epsilon=prices.epsilon_per, max_groups=1)
    histogram = (UnknownLaplace if laplace else UnknownGaussian).of(max_groups=1, **common)
    ranking = UnknownGumbel.of(k=10, count_noise=prices.count_noise, **common)
    yield "one total", total, prices.epsilon_per / 2
    yield "one histogram", histogram, prices.epsilon_per / 2 if laplace else None
    yield "one list of ten", ranking, ranking.reserve.information * prices.epsilon_per if laplace else None


def _bound(words: str, charge: Charge, prices: Prices, delta: Fraction | None, pure: Fraction | None = None) -> Bound:
    if delta is None:
        return Bound(words, charge, None, None)
    tight = epsilon(charge.information, charge.calls, prices.epsilon_per, prices.delta_per, delta)
    least = Fraction(tight) if pure is None else min(Fraction(tight), pure)
    return Bound(words, charge, _round_up(least, 100), delta)


def _delta(spent: Fraction) -> Fraction | None:
    """The smallest power of ten that is at least 1e-9 and ten times the delta of the calls; None if it is 1 or more."""
    delta = LEAST_DELTA
    while delta < 10 * spent:
        delta *= 10
    return delta if delta < 1 else None


@dataclass(frozen=True, slots=True)
class _Sum:
    """Budgets added up in units that all of them share: rho of zCDP, and the delta of the calls."""

    rho: Fraction = Fraction(0)
    approximation: Fraction = Fraction(0)

    def __add__(self, other: _Sum) -> _Sum:
        return _Sum(self.rho + other.rho, self.approximation + other.approximation)

    @classmethod
    def of(cls, budget: Budget) -> _Sum | None:
        """None for a budget that bounds nothing."""
        prices, cap = budget.prices, budget.cap
        if budget.mode == "track":
            return None
        return cls(cap.information * prices.epsilon_per**2 / 8, cap.calls * prices.delta_per)

    def bound(self, words: str) -> Bound:
        delta = _delta(self.approximation)
        if delta is None:
            return Bound(words, None, None, None)
        return Bound(words, None, _round_up(approximate_zcdp_epsilon(self.rho, self.approximation, delta), 100), delta)


def _bound_together(config: Config) -> Bound | None:
    """What all analysts can learn together: the smaller of the sum of their accounts and that of the tables' caps."""
    groups: dict[tuple[str, str], list[Budget]] = {}
    for name, analyst in config.analysts.items():
        group = (analyst.organisation, "") if analyst.organisation else ("", name)
        groups.setdefault(group, []).append(config.budgets[analyst.budget])
    people = [_group_sum(members, config, organisation) for (organisation, _), members in groups.items()]
    asked = [table for table in config.tables.values() if table.measures]  # the others are there for reports alone
    caps = [None if table.cap is None else _Sum.of(config.budgets[table.cap]) for table in asked]
    sums = [_add(people), _add(caps) if caps else None]
    bounds = [total.bound("all analysts together") for total in sums if total is not None]
    found = [bound for bound in bounds if bound.epsilon is not None]
    return min(found, key=lambda bound: bound.epsilon or 0, default=None)


def _group_sum(members: Sequence[Budget], config: Config, organisation: str) -> _Sum | None:
    """What one organisation, or one analyst without one, can learn in a period."""
    apart = _add([_Sum.of(budget) for budget in members])
    shared = config.budgets[config.organisations[organisation]] if organisation else None
    capped = None if shared is None else _Sum.of(shared)
    if shared is None or capped is None:
        return apart
    # Sums over different periods cannot be compared. Then the shared budget holds: all members pay from it.
    alike = all(budget.resets == shared.resets for budget in members)
    if apart is not None and alike and apart.rho <= capped.rho and apart.approximation <= capped.approximation:
        return apart
    return capped


def _add(parts: Sequence[_Sum | None]) -> _Sum | None:
    total = _Sum()
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def describe_promise(promise: Promise) -> str:
    """What an account promises, in a few sentences."""
    kind, _, name = promise.account.name.partition(":")
    who = {
        "analyst": name,
        "organisation": f"The organisation {name}, all of its analysts together,",
        "table": f"The table {name}: all who ask about it, together,",
    }[kind]
    amount = f"{promise.account.budget.cap} {PERIODS[promise.account.budget.resets]}"
    whole = None if promise.tracked else promise.whole
    if whole is None:
        return (
            f"{who} has no bound at all: this budget is tracked and never refuses. The limit of {amount} is only "
            "compared with. One question alone still has its bound, but nothing limits how many are asked."
        )
    if promise.nothing:
        return f"{who} may spend nothing: no question is answered, and only reports tell anything."
    if whole.epsilon is None:
        return f"{who} may spend {amount}: so many calls that their deltas add up to no bound at all."
    promised = (
        f"{who} may spend {amount}. Whatever is asked with all of it, the answers are (epsilon, delta)-differentially "
        f"private for one person, with epsilon {whole.epsilon:.2f} and delta {float(whole.delta or 0):.0e}. "
        "A bet at 50:50 on whether one person is in the data"
    )
    wins = percent(whole.wins)
    if whole.epsilon < WEAK:
        return f"{promised} is won with at most {wins}, whatever else is known; without any answer, with 50 %."
    return (
        f"{promised} may be won with up to {wins}. So this worst case, the whole budget used against one "
        "person by an analyst who knows all others, promises little by itself; a few answers promise much more:"
    )


def describe_reports(explained: PolicyExplanation) -> Iterator[str]:
    """What reports promise, beside the budgets."""
    for name, promise in explained.reports.items():
        size = "" if promise is None else f": epsilon {_round_up(promise.epsilon, 10_000):,.6g} for one {promise.unit}"
        yield (
            f"The report {name} has its own guarantee, however often and by however many it is asked{size}. It debits "
            f"no budget, and is not in the numbers above; see: sfumato report explain --report {name}"
        )
    if explained.readers:
        yield f"May read every entity of the reports, as no `entities` limit them: {', '.join(explained.readers)}."


def describe_rights(explained: PolicyExplanation) -> Iterator[str]:
    """What each analyst may ask about."""
    for name, each in explained.rights.items():
        rows = "" if each.where is None else f", of rows where {each.where}"
        entities = ", of some entities" if each.some_entities else ""
        questions = f"questions about {', '.join(each.tables)}{rows}" if each.tables else "no questions"
        reports = f"the reports {', '.join(each.reports)}{entities}" if each.reports else "no reports"
        yield f"{name} ({each.role}): {questions}; {reports}."


def exclusions(explained: PolicyExplanation) -> Iterator[str]:
    """What the numbers do not cover, in a sentence or two each."""
    if any(promise.account.budget.resets != "never" and not promise.nothing for promise in explained.promises):
        yield "Periods add up. Every reset is a new budget about the same people; see the year in the table."
    yield from _collusion(explained)
    yield "Grants add to a budget for one period and are not in this file; see: sfumato budget show."
    yield "What is published by `sfumato release --budget B` is paid by an account of its own, with the limits of B."
    yield (
        "The policy itself is public: the lists of values, the bounds, the versions and the names in the file. "
        "What was copied into it from the rows is not protected."
    )
    if explained.guaranteed:
        yield f"Bounds that the file calls guaranteed are not enforced: {', '.join(explained.guaranteed)}."
    yield "Several people at once: a household of k, all alike, has k times the epsilon, and a larger delta."


def _collusion(explained: PolicyExplanation) -> Iterator[str]:
    """What analysts learn who share their answers."""
    bound = explained.together
    if len(explained.analysts) < 2 or (bound is not None and bound.epsilon == 0):
        return
    where = f" Tables without a cap: {', '.join(explained.uncapped)}." if explained.uncapped else ""
    if bound is None:
        yield f"Analysts who share their answers: nothing bounds what all of them learn together.{where}"
        return
    yield (
        "Analysts who share their answers add up, unless they have an organisation in common or the table has a cap. "
        f"All {len(explained.analysts)} together: epsilon {bound.epsilon:.2f} at delta {float(bound.delta or 0):.0e}, "
        f"in one period of each; a bet at 50:50 is won with at most {percent(bound.wins)}.{where}"
    )


def percent(chance: float) -> str:
    return f"{100 * chance:.2f} %"


def _round_up(value: float | Fraction, steps: int) -> float:
    """Rounded up to a multiple of 1 / `steps`, exactly."""
    return math.ceil(Fraction(value) * steps) / steps
