"""Which accounts a request debits: the asker's own, her organisation's, and the table's as a whole."""

from __future__ import annotations

from sfumato.config import Config
from sfumato.ledger.ledger import OWN, Account

RELEASE = "release:"


def accounts_of(config: Config, analyst: str, table: str | None = None) -> tuple[Account, ...]:
    """An analyst's own account first, then those that she shares; with a table, also its own."""
    who = config.analyst(analyst)
    accounts = [Account(OWN + analyst, config.budgets[who.budget])]
    if who.organisation:
        budget = config.budgets[config.organisations[who.organisation]]
        accounts.append(Account(f"organisation:{who.organisation}", budget, shared=True))
    if table is not None and config.tables[table].cap:
        accounts.append(table_account(config, table))
    return tuple(accounts)


def table_account(config: Config, table: str) -> Account:
    """The account of a table that has a cap."""
    return Account(f"table:{table}", config.budgets[config.tables[table].cap or ""], shared=True)


def release_account(config: Config, budget: str) -> Account:
    """The account of what is published under a budget, as against what its analysts ask."""
    return Account(RELEASE + budget, config.budgets[budget])


def all_accounts(config: Config) -> dict[str, Account]:
    """Every account of a configuration, by its name."""
    people = [account for analyst in config.analysts for account in accounts_of(config, analyst)]
    capped = [table_account(config, name) for name, table in config.tables.items() if table.cap]
    published = [release_account(config, name) for name in config.budgets]
    return {account.name: account for account in [*people, *capped, *published]}


def budget_accounts(config: Config, analyst: str) -> tuple[Account, ...]:
    """All accounts that an analyst's requests can debit: the analyst's own first."""
    capped = (table_account(config, name) for name, table in config.tables.items() if table.cap)
    return (*accounts_of(config, analyst), *capped)
