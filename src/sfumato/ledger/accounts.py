"""The accounts that a request debits: the analyst's own, the organisation's, and those of the table's cap."""

from __future__ import annotations

from dataclasses import replace

from sfumato.config import RIGHTS, Config
from sfumato.errors import NotFound, find_nearest
from sfumato.ledger.types import OWN, Account

ORGANISATION = "organisation:"
RELEASE = "release:"
OTHERS = "others"  # the part of a cap for those who have none of their own


def accounts_of(config: Config, analyst: str, table: str | None = None) -> tuple[Account, ...]:
    """The accounts that pay for an analyst's request about a table: the analyst's own first, then shared ones."""
    who = config.analyst(analyst)
    accounts = [Account(OWN + analyst, config.budgets[who.budget])]
    if who.organisation:
        budget = config.budgets[config.organisations[who.organisation]]
        accounts.append(Account(ORGANISATION + who.organisation, budget, shared=True))
    return (*accounts, *cap_accounts(config, table, accounts[-1].name))


def budget_accounts(config: Config, analyst: str) -> list[Account]:
    """The accounts that limit what an analyst may ask: own, organisation, and of each cap of her tables her part."""
    paying, asks = accounts_of(config, analyst), config.analyst(analyst).role in RIGHTS["estimate"]
    tables = [table for table in config.tables if asks and config.may_use(analyst, table)]
    caps = (cap_accounts(config, table, paying[-1].name) for table in tables)
    return [*paying, *(accounts[-1] for accounts in caps if accounts)]


def all_accounts(config: Config) -> dict[str, Account]:
    """Every account of a configuration, by its name."""
    releases = [release_account(config, name) for name in config.budgets]
    asking = [accounts_of(config, analyst) for analyst in config.analysts]
    payers = [account.name for account in releases] + [accounts[-1].name for accounts in asking]
    caps = [account for table in config.tables for payer in payers for account in cap_accounts(config, table, payer)]
    return {account.name: account for account in [*(each for own in asking for each in own), *caps, *releases]}


def find_account(config: Config, name: str) -> Account:
    """The account of this full name, or an analyst's own."""
    accounts = all_accounts(config)
    if name in accounts:
        return accounts[name]
    if name in config.analysts:
        return accounts_of(config, name)[0]
    known = [*config.analysts, *accounts]
    near = find_nearest(name, known)
    there = "" if near else f"; there is {', '.join(known)}"
    raise NotFound(f"there is no account {name[:60]!r}{there}", nearest=near)


def cap_accounts(config: Config, table: str | None, payer: str) -> tuple[Account, ...]:
    """The accounts of a table's cap that pay for a request of `payer`: an organisation, or an account without one.

    Each payer pays for a step, also for one that another has paid for: strangers share this account, and a balance
    that stays where it is would show them what was asked before. With parts, the payer's part is debited too. Parts
    add up to the whole at most, so the whole refuses nothing; it counts what was spent before there were parts.
    """
    settings = None if table is None else config.tables[table]
    if settings is None or not settings.cap:
        return ()
    name, budget = f"table:{table}", config.budgets[settings.cap]
    whole = Account(name, budget, shared=True, payer=f"{name} {payer}")
    if not settings.parts:
        return (whole,)
    owner = payer.partition(":")[2]
    known = owner in settings.parts and not payer.startswith(RELEASE)
    share = settings.parts[owner] if known else 1 - sum(settings.parts.values())
    part = f"{name} part {owner if known else OTHERS}"
    return whole, Account(part, replace(budget, cap=budget.cap * share), shared=True, payer=f"{part} {payer}")


def release_account(config: Config, budget: str) -> Account:
    """The account that pays for releases under a budget. Analysts' requests do not use it."""
    return Account(RELEASE + budget, config.budgets[budget])
