"""What each account promises, whatever is asked with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.accounting import Charge
from sfumato.config import RIGHTS, Budget, Config
from sfumato.explain.calls import TYPICAL, call_deltas, has_histograms, mechanism, pure_epsilon, shapes
from sfumato.explain.losses import Loss, periods, round_delta
from sfumato.ledger import Account, accounts_of
from sfumato.mechanisms.mechanism import CountNoise
from sfumato.wire.guarantee import AccountBound, AccountPromise, Asked


@dataclass(slots=True)
class Reach:
    """What can be asked with an account: about which tables, and which noise the counts may have."""

    tables: set[str] = field(default_factory=set)
    noises: set[CountNoise] = field(default_factory=set)

    def loss(self, config: Config, budget: Budget) -> Loss:
        """What a period of a budget lets through that is spent on this."""
        asked = shapes(config.tables[name] for name in self.tables)
        return Loss.of_charge(budget.cap, budget.prices, call_deltas(budget.prices, frozenset(self.noises), asked))


def reaches(config: Config, analysts: Iterable[str]) -> dict[str, Reach]:
    """What these analysts can ask with each account, by its name; without accounts that they cannot ask with."""
    by_account: dict[str, Reach] = {}
    for analyst in analysts:
        who = config.analysts[analyst]
        for name, table in config.tables.items():
            if who.role in RIGHTS["ask"] and table.measures and config.may_use(analyst, name):
                for account in accounts_of(config, analyst, name):
                    reach = by_account.setdefault(account.name, Reach())
                    reach.tables.add(name)
                    reach.noises.add(config.budgets[who.budget].prices.count_noise)
    return by_account


def promise(config: Config, account: Account, reach: Reach) -> AccountPromise:
    """What an account promises: for one question, a tenth of the budget, all of it, and a year of it."""
    budget = account.budget
    return AccountPromise(
        account=account.name,
        mode=budget.mode,
        resets=budget.resets,
        limit=budget.cap,
        epsilon_per=budget.prices.epsilon_per,
        delta_per=budget.prices.delta_per,
        bounds=[*account_bounds(account, histograms=any(has_histograms(config.tables[name]) for name in reach.tables))],
        groups=reach.loss(config, budget).groups() if reach.tables and budget.mode == "enforce" else [],
    )


def account_bounds(account: Account, *, histograms: bool) -> Iterator[AccountBound]:
    """What is promised if one question is asked, a tenth of the budget is spent, all of it, or a year of it."""
    budget, cap = account.budget, account.budget.cap
    tracked = budget.mode == "track"
    # A tracked budget refuses nothing, so there is a question with a call, whatever the limit says.
    delta = round_delta((max(cap.calls, Fraction(1)) if tracked else cap.calls) * budget.prices.delta_per)
    # The analyst's own budget chooses the noise of counts. For a shared account: the noise that promises less.
    prices = replace(budget.prices, count_noise="gaussian") if account.shared else budget.prices
    for what in TYPICAL:
        if what == "histogram" and not histograms:
            continue
        answering = mechanism(what, prices)
        if answering.reserve <= cap or tracked:
            yield _account_bound(what, answering.reserve, budget, delta, pure_epsilon(answering))
    if tracked:
        return
    yield _account_bound("tenth", cap * Fraction(1, 10), budget, delta)
    yield _account_bound("period", cap, budget, delta)
    if budget.resets != "never":
        yield _account_bound("year", cap * periods(budget.resets, "year"), budget)


def _account_bound(
    what: Asked, charge: Charge, budget: Budget, delta: Fraction | None = None, pure: Fraction | None = None
) -> AccountBound:
    bound = Loss.of_charge(charge, budget.prices, None).person(at=delta, pure=pure)
    return AccountBound(what=what, charge=charge, epsilon=bound.epsilon, delta=bound.delta, wins=bound.wins)
