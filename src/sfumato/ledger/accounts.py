"""The accounts that a request debits: the analyst's own, the organisation's, and the table's."""

from __future__ import annotations

from sfumato.config import RIGHTS, Config
from sfumato.ledger.types import OWN, Account

RELEASE = "release:"


def accounts_of(config: Config, analyst: str, table: str | None = None) -> tuple[Account, ...]:
    """The accounts that pay for an analyst's request about a table: the analyst's own first, then shared ones."""
    who = config.analyst(analyst)
    accounts = [Account(OWN + analyst, config.budgets[who.budget])]
    if who.organisation:
        budget = config.budgets[config.organisations[who.organisation]]
        accounts.append(Account(f"organisation:{who.organisation}", budget, shared=True))
    if table is not None and config.tables[table].cap:
        accounts.append(table_account(config, table))
    return tuple(accounts)


def budget_accounts(config: Config, analyst: str) -> list[Account]:
    """The accounts that limit what an analyst may ask: own, organisation, and those of her tables with a cap."""
    tables = config.tables_of(analyst) if config.analyst(analyst).role in RIGHTS["estimate"] else frozenset[str]()
    return [*accounts_of(config, analyst), *_table_accounts(config, tables)]


def all_accounts(config: Config) -> dict[str, Account]:
    """Every account of a configuration, by its name."""
    own = [account for analyst in config.analysts for account in accounts_of(config, analyst)]
    releases = [release_account(config, name) for name in config.budgets]
    return {account.name: account for account in [*own, *_table_accounts(config), *releases]}


def table_account(config: Config, table: str) -> Account:
    """The account of a table that has a cap."""
    return Account(f"table:{table}", config.budgets[config.tables[table].cap or ""], shared=True)


def release_account(config: Config, budget: str) -> Account:
    """The account that pays for releases under a budget. Analysts' requests do not use it."""
    return Account(RELEASE + budget, config.budgets[budget])


def _table_accounts(config: Config, tables: frozenset[str] | None = None) -> list[Account]:
    """The accounts of these tables (None: of all) that have a cap."""
    capped = [name for name, table in config.tables.items() if table.cap]
    return [table_account(config, name) for name in capped if tables is None or name in tables]
