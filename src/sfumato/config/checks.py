"""Names that point from one section of the file to another: each must find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.config.settings import Analyst, Config, PublicSettings, Reference, ReportSettings, TableSettings
from sfumato.errors import ConfigError, find_nearest


def check_references(config: Config) -> None:
    """Raise `ConfigError` for the first name that is not in the file, or that must not be used so."""
    for name, settings in config.reports.items():
        _check_report(config, name, settings)
    for name, table in config.tables.items():
        _check_table(config, name, table)
    for name, public in config.public.items():
        _check_public_table(config, name, public)
    for name, analyst in config.analysts.items():
        _check_known(f"analysts.{name}.budget", analyst.budget, config.budgets, "a budget")
        _check_tables(config, f"analysts.{name}.tables", analyst.tables)
        if analyst.organisation:
            _check_known(f"analysts.{name}.organisation", analyst.organisation, config.organisations, "an organisation")
    for name, budget in config.organisations.items():
        _check_known(f"organisations.{name}.budget", budget, config.budgets, "a budget")
    for name, paying in config.budgets.items():
        _check_tables(config, f"budgets.{name}.tables", paying.tables)
    for name, table in config.tables.items():
        _check_parts(config, table, f"tables.{name}.parts")
    levels = {level for settings in config.reports.values() for level in settings.levels}
    for name, analyst in config.analysts.items():
        if not name:
            raise ConfigError("analysts", "a name must not be empty")
        _check_prices(config, name, analyst)
        for level in analyst.entities or ():
            if level not in levels:
                near = find_nearest(level, sorted(levels))
                raise ConfigError(
                    f"analysts.{name}.entities.{level}", "no report has entities of this level", nearest=near
                )


def _check_table(config: Config, name: str, table: TableSettings) -> None:
    here = f"tables.{name}"
    _check_known(f"{here}.engine", table.engine, config.engines, "an engine")
    for column, settings in table.columns.items():
        if isinstance(settings.domain, Reference):
            _check_public(config, table, settings.domain.table, f"{here}.columns.{column}.domain")
    if table.cap:
        _check_known(f"{here}.cap", table.cap, config.budgets, "a budget")
        paid = config.budgets[table.cap].tables
        if paid is not None and name not in paid:
            raise ConfigError(f"{here}.cap", f"names a budget that does not pay for {name}: budgets.{table.cap}.tables")
    if not table.measures and all(report.table != name for report in config.reports.values()):
        raise ConfigError(f"{here}.measures", 'is empty, so nothing can be asked; add people = { count = "units" }')


def _check_public_table(config: Config, name: str, public: PublicSettings) -> None:
    _check_known(f"tables.{name}.engine", public.engine, config.engines, "an engine")
    others = {each.casefold() for each in (*config.tables, *config.public) if each != name}
    if name.casefold() in others:
        raise ConfigError(f"tables.{name}", "has the name of another table but for case; rename one")
    people = {table.source.casefold() for table in config.tables.values() if table.engine == public.engine}
    if public.source.casefold() in people:
        raise ConfigError(f"tables.{name}.source", f"{public.source} is a table about people, and cannot be public")


def _check_parts(config: Config, table: TableSettings, here: str) -> None:
    """Parts of a cap belong to organisations, or to analysts without one. What they leave is the part of all others."""
    who = {name: analyst.organisation or name for name, analyst in config.analysts.items()}
    payers = dict.fromkeys([*config.organisations, *(name for name, payer in who.items() if name == payer)])
    asking = [payer for name, payer in who.items() if config.may_use(name, table.name)]
    if table.parts and not table.cap:
        raise ConfigError(here, "are parts of a cap; name the cap's budget: cap = ...")
    for name, part in table.parts.items():
        _check_known(f"{here}.{name}", name, payers, "an organisation, or an analyst without one,")
        if not 0 < part <= 1:
            raise ConfigError(f"{here}.{name}", "must be above 0 and at most 1: a part of the cap")
    if sum(table.parts.values()) > 1:
        raise ConfigError(here, "add up to more than 1, the whole cap")
    if sum(table.parts.values()) == 1 and (others := [name for name in asking if name not in table.parts]):
        raise ConfigError(here, f"leave nothing of the cap to {others[0]}; give {others[0]} a part, or leave a rest")


def _check_report(config: Config, name: str, settings: ReportSettings) -> None:
    here = f"reports.{name}"
    _check_known(f"{here}.table", settings.table, config.tables, "a table")
    table = config.tables[settings.table]
    for attribute, settings_of_attribute in settings.attributes.items():
        column = table.columns.get(attribute)
        if settings_of_attribute.domain is None and (column is None or column.domain is None):
            problem = "is missing; a report shows only values that are public before any event"
            raise ConfigError(f"{here}.attributes.{attribute}.domain", problem)
        if isinstance(settings_of_attribute.domain, Reference):
            _check_public(config, table, settings_of_attribute.domain.table, f"{here}.attributes.{attribute}.domain")
    if settings.entities is not None:
        _check_public(config, table, settings.entities, f"{here}.entities.table", "a list of entities")
    if settings.cap is not None and not table.privacy_unit:
        problem = f"needs tables.{table.name}.privacy_unit, the column that says whose row it is"
        raise ConfigError(f"{here}.max_events_per_unit", problem)


def _check_public(config: Config, table: TableSettings, source: str, where: str, what: str = "a domain") -> None:
    """A list of values that is read from a table about people would publish their values."""
    beside = [other for other in config.tables.values() if other.engine == table.engine]
    if source.casefold() in {text.casefold() for other in beside for text in (other.name, other.source)}:
        raise ConfigError(where, f"{source} is a table about people; {what} must be public")


def _check_prices(config: Config, name: str, analyst: Analyst) -> None:
    """Accounts that pay for one question must count it in the same units."""
    hers = config.tables_of(name)
    shared = {
        f"tables.{table}.cap": settings.cap
        for table, settings in config.tables.items()
        if settings.cap and (hers is None or table in hers)
    }
    if analyst.organisation:
        shared[f"organisations.{analyst.organisation}.budget"] = config.organisations[analyst.organisation]
    own = config.budgets[analyst.budget].unit_prices
    for setting, budget in shared.items():
        if config.budgets[budget].unit_prices != own:
            raise ConfigError(
                setting,
                f"budget {budget!r} must have the epsilon_per and delta_per of {analyst.budget!r}, "
                f"which {name} spends: one question is paid from both",
            )


def _check_tables(config: Config, setting: str, tables: tuple[str, ...] | None) -> None:
    for table in tables or ():
        if table in config.public:
            raise ConfigError(setting, f"{table} is public, and needs no right: leave it out")
        _check_known(setting, table, config.tables, "a table")


def _check_known(setting: str, name: str, names: Mapping[str, Any], words: str) -> None:
    if name not in names:
        raise ConfigError(
            setting, f"names {words} that is not in the file: {name!r}", nearest=find_nearest(name, names)
        )
