"""`sfumato.toml`: one file, strict and typed.

An unknown key is an error that names the nearest known one; `SFUMATO_*` environment variables win over the file
(`SFUMATO_LEDGER__URL` sets `[ledger] url`); relative paths start at the file's own folder, which `Config.folder` keeps
for the sources of tables. Reading it opens no table.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args
from urllib.parse import urlsplit

from sfumato.accounting import Charge
from sfumato.config.engines import EngineSettings, read_engine
from sfumato.config.reports import ReportSettings, report
from sfumato.config.sections import PREFIX, Reference, Section, blamed, domain, override
from sfumato.errors import ConfigError, InvalidArgument, NotFound, NotSupported, nearest
from sfumato.mechanisms.mechanism import CountNoise
from sfumato.query.policy import Column, CountKind, Measure, Prices, TablePolicy
from sfumato.query.values import Type

Rhythm: TypeAlias = Literal["hourly", "daily", "weekly", "monthly"]
Resets: TypeAlias = Literal["never", "daily", "weekly", "monthly"]
Mode: TypeAlias = Literal["enforce", "track"]
Role: TypeAlias = Literal["analyst", "owner", "auditor"]

NO_SETTINGS = frozenset((PREFIX, "SFUMATO_KEY"))  # the key of a client of the service is no setting of one
MAX_K, MAX_LIMIT = 100_000, 2**24


def _utc(moment: datetime) -> datetime:
    """A moment without a zone would be read in the machine's own: two machines, two versions."""
    if moment.tzinfo is None:
        raise InvalidArgument("moment", "must carry a time zone")
    return moment.astimezone(UTC)


LEDGER_URLS = {
    "sqlite": r"sqlite:(?!:memory:$).+",  # a file: books in memory would forget what was spent
    "postgresql": r"postgresql://.*",
    "postgres": r"postgres://.*",
}
"""The form of `ledger.url`, by its scheme. `sfumato.ledger.STORES` has the store of each."""


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    url: str = "sqlite:ledger.db"
    fence: Path | None = None


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """A column as the owner wrote it: its type may be left to the live schema, its domain to a reference table."""

    type: Type | None = None
    domain: tuple[Any, ...] | Reference | None = None
    max_groups: int | None = None
    guaranteed: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """A public name for a state of the data: minted by the clock or by the owner, never by the rows."""

    rhythm: Rhythm | None = "daily"
    value: str = ""

    def at(self, moment: datetime) -> str:
        """The version in force at a moment (UTC). Weeks start on Monday."""
        if self.rhythm is None:
            return f"value {self.value}"
        utc = _utc(moment)
        if self.rhythm == "weekly":
            utc -= timedelta(days=utc.weekday())
        form = {"hourly": "%Y-%m-%dT%H", "daily": "%Y-%m-%d", "weekly": "%Y-%m-%d", "monthly": "%Y-%m"}[self.rhythm]
        return f"{self.rhythm} {utc:{form}}"


@dataclass(frozen=True, slots=True)
class TableSettings:
    """A table as the owner wrote it."""

    name: str
    engine: str
    source: str
    privacy_unit: str
    columns: Mapping[str, ColumnSettings]
    measures: Mapping[str, Measure]
    version: Version = field(default_factory=Version)
    max_k: int = 100
    limit: int = 0
    cap: str | None = None

    def policy(self, schema: Mapping[str, str], domains: Mapping[str, tuple[Any, ...]], version: str) -> TablePolicy:
        """What may be asked, once the live schema has given the types and the reference tables their domains."""
        for problem in self.problems(schema, domains):
            raise problem
        columns = {name: self._column(name, schema, domains) for name in self.columns}
        return TablePolicy(self.name, self.privacy_unit, columns, self.measures, self.max_k, self.limit, version)

    def problems(self, schema: Mapping[str, str], domains: Mapping[str, tuple[Any, ...]]) -> Iterator[ConfigError]:
        """Every way in which this does not fit the live schema."""
        here = f"tables.{self.name}"
        if self.privacy_unit and self.privacy_unit not in schema:
            hint = nearest(self.privacy_unit, schema)
            yield ConfigError(f"{here}.privacy_unit", f"{self.privacy_unit} is not in the table{hint}")
        for name, measure in self.measures.items():
            if measure.column is not None and measure.column not in schema:
                problem = f"{measure.column} is not in the table{nearest(measure.column, schema)}"
                yield ConfigError(f"{here}.measures.{name}.sum", problem)
            elif measure.column is not None and schema[measure.column] != "integer":
                problem = f"must be a column of whole numbers; {measure.column} is not"
                yield ConfigError(f"{here}.measures.{name}.sum", problem)
        for name in self.columns:
            try:
                self._column(name, schema, domains)
            except ConfigError as problem:
                yield problem
            except (InvalidArgument, NotSupported) as problem:
                yield ConfigError(f"{here}.columns.{name}", str(problem))
        try:
            bare = {name: Column(name) for name in self.columns}
            TablePolicy(self.name, self.privacy_unit, bare, self.measures, self.max_k, self.limit)
        except InvalidArgument as problem:
            yield ConfigError(here, str(problem))

    def _column(self, name: str, schema: Mapping[str, str], domains: Mapping[str, tuple[Any, ...]]) -> Column:
        settings = self.columns[name]
        domain = domains[name] if isinstance(settings.domain, Reference) else settings.domain
        live = self._type(name, settings.type, schema)
        return Column(name, live, domain, settings.max_groups, settings.guaranteed)

    def _type(self, name: str, written: Type | None, schema: Mapping[str, str]) -> Type:
        """The live type of a column, which a written one must agree with."""
        where = f"tables.{self.name}.columns.{name}"
        live = schema.get(name)
        if live is None:
            raise ConfigError(where, f"is not in the table{nearest(name, schema)}")
        if live not in get_args(Type):
            raise ConfigError(
                where, "has a type that cannot be asked about; leave it out, or ask for a view that casts it"
            )
        if written not in (None, live):
            raise ConfigError(f"{where}.type", f"is {written}, but the column holds {live}")
        return cast(Type, live)


@dataclass(frozen=True, slots=True)
class Budget:
    """What an account may spend in one period, and what its units and calls mean."""

    prices: Prices
    cap: Charge
    resets: Resets = "never"
    mode: Mode = "enforce"

    def period(self, moment: datetime) -> tuple[date | None, date | None]:
        """When the period at a moment (UTC) began and when the next begins; None for one that never ends."""
        today = _utc(moment).date()
        if self.resets == "never":
            return None, None
        if self.resets == "daily":
            return today, today + timedelta(days=1)
        if self.resets == "weekly":
            monday = today - timedelta(days=today.weekday())
            return monday, monday + timedelta(days=7)
        first = today.replace(day=1)
        return first, (first + timedelta(days=31)).replace(day=1)


@dataclass(frozen=True, slots=True)
class Analyst:
    """Who asks. With `entities` reports tell about these alone, and about those below them."""

    budget: str
    organisation: str | None = None
    role: Role = "analyst"
    entities: Mapping[str, tuple[str | tuple[str, ...], ...]] | None = None


@dataclass(frozen=True, slots=True)
class Oidc:
    """Tokens of an identity provider: who issues them for whom, where its keys are, which claim names the analyst."""

    issuer: str
    audience: str
    jwks_url: str
    claim: str = "sub"
    leeway_s: int = 60


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The HTTP service. With `pad_ms`, every response takes a multiple of it; a rate of 0 is no limit."""

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    pad_ms: int = 0
    rate_per_minute: int = 6000
    max_request_bytes: int = 1 << 18
    oidc: Oidc | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file."""

    folder: Path
    ledger: LedgerSettings
    key_file: Path
    engines: Mapping[str, EngineSettings]
    tables: Mapping[str, TableSettings]
    budgets: Mapping[str, Budget]
    analysts: Mapping[str, Analyst]
    organisations: Mapping[str, str]
    service: ServiceSettings = field(default_factory=ServiceSettings)
    reports: Mapping[str, ReportSettings] = field(default_factory=dict)

    def analyst(self, name: str) -> Analyst:
        """The analyst of this name, or a refusal that names the nearest."""
        if not isinstance(name, str) or name not in self.analysts:
            raise NotFound(f"there is no analyst {str(name)[:60]!r}{nearest(str(name), self.analysts)}")
        return self.analysts[name]


def load_config(path: str | os.PathLike[str]) -> Config:
    """The configuration in a file, with the environment's word over it."""
    file = Path(path)
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigError(str(path), "cannot be read; `sfumato init` makes one") from None
    return read_config(text, file.resolve().parent, os.environ)


def read_config(text: str, folder: Path, environment: Mapping[str, str]) -> Config:
    """The configuration in `text`, whose relative paths start at `folder`; environment variables win."""
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"), parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise ConfigError("sfumato.toml", f"is not TOML: {str(error)[:200]}") from None
    variables: dict[str, str] = {}
    for name, value in environment.items():
        if name.startswith(PREFIX) and name not in NO_SETTINGS:
            variables |= dict.fromkeys(override(document, name, value), name)
    try:
        return _config(Section("", document), folder)
    except ConfigError as error:
        raise blamed(error, variables) from None


def _config(root: Section, folder: Path) -> Config:
    config = Config(
        folder=folder,
        ledger=root.section("ledger", lambda s: _ledger(s, folder), LedgerSettings()),
        key_file=root.section("noise", lambda s: folder / s.text("key_file", "noise.key"), folder / "noise.key"),
        engines=root.sections("engines", lambda _, s: read_engine(s, folder)),
        tables=root.sections("tables", _table),
        budgets=root.sections("budgets", lambda _, s: _budget(s)),
        analysts=root.sections("analysts", lambda _, s: _analyst(s)),
        organisations=root.sections("organisations", lambda _, s: s.text("budget")),
        service=root.section("service", _service, ServiceSettings()),
        reports=root.sections("reports", report),
    )
    root.done()
    _check_references(config)
    return config


def ledger_scheme(url: str) -> str:
    """The scheme of a `ledger.url`, which names the store. Raises `ConfigError` if the URL has none of the forms."""
    scheme = url.partition(":")[0]
    form = LEDGER_URLS.get(scheme)
    if form is None or not re.fullmatch(form, url, re.DOTALL):
        raise ConfigError("ledger.url", 'must be "sqlite:FILE", such as "sqlite:ledger.db", or "postgresql://..."')
    return scheme


def _ledger(section: Section, folder: Path) -> LedgerSettings:
    fence = section.text("fence", "")
    url = section.text("url", LedgerSettings().url)
    ledger_scheme(url)  # raises ConfigError
    return LedgerSettings(url, folder / fence if fence else None)


def _table(name: str, section: Section) -> TableSettings:
    max_k = section.whole("max_k", 100, at_least=1, at_most=MAX_K)
    table = TableSettings(
        name=name,
        engine=section.text("engine"),
        source=section.text("source"),
        privacy_unit=section.text("privacy_unit", ""),
        version=_version(section),
        max_k=max_k,
        limit=section.whole("limit", 0, at_least=max_k, at_most=MAX_LIMIT),
        cap=section.text("cap", "") or None,
        columns=section.sections("columns", lambda _, s: _column(s)),
        measures=section.sections("measures", _measure),
    )
    if table.measures and not table.privacy_unit:
        missing = "" if section.has("privacy_unit") else "is missing; it "
        raise ConfigError(section.at("privacy_unit"), f"{missing}must name the column that says whose row it is")
    return table


def _version(section: Section) -> Version:
    raw = section.take("version", (str, dict), 'a rhythm such as "daily", or { value = "..." }', "daily")
    if isinstance(raw, str):
        return Version(section.choice("version", Rhythm, "daily"))
    return section.section("version", lambda s: Version(None, s.text("value")), Version())


def _column(section: Section) -> ColumnSettings:
    kind = section.choice("type", Type) if section.has("type") else None
    bound = section.whole("max_groups", 0, at_least=1) or None
    guaranteed = section.flag("guaranteed")
    if guaranteed and bound is None:
        raise ConfigError(section.at("guaranteed"), "says that a bound holds; write max_groups, which says what bound")
    return ColumnSettings(kind, domain(section), bound, guaranteed)


def _measure(name: str, section: Section) -> Measure:
    if section.has("sum"):
        return Measure(name, "sum", section.text("sum"), section.whole("max_per_unit"))
    counts: CountKind = section.choice("count", Literal["units", "rows"])
    return Measure(name, counts, None, 1 if counts == "units" else section.whole("max_per_unit"))


def _budget(section: Section) -> Budget:
    prices = Prices(
        section.number("epsilon_per"),
        section.number("delta_per"),
        cast(CountNoise, section.choice("count_noise", CountNoise, "gaussian")),
    )
    cap = Charge(section.number("information"), section.number("calls"))
    return Budget(prices, cap, section.choice("resets", Resets, "never"), section.choice("mode", Mode, "enforce"))


def _analyst(section: Section) -> Analyst:
    organisation = section.text("organisation", "") or None
    section.take("entities", dict, 'names by their level, { level = ["..."] }', None)
    entities = section.section("entities", _tenancy, None)
    return Analyst(section.text("budget"), organisation, section.choice("role", Role, "analyst"), entities)


def _tenancy(section: Section) -> dict[str, tuple[str | tuple[str, ...], ...]]:
    """What an analyst may ask reports about: names of entities, or their paths from the top, by their level."""
    return {
        level: tuple(_entity(each, section.at(level)) for each in _listed(section, level)) for level in section.names()
    }


def _listed(section: Section, level: str) -> list[Any]:
    return cast(list[Any], section.take(level, list, "a list of names", ...))


def _entity(raw: Any, where: str) -> str | tuple[str, ...]:
    if isinstance(raw, list) and raw and all(isinstance(name, str | int) and name != "" for name in raw):
        return tuple(map(str, raw))
    if not isinstance(raw, str | int) or isinstance(raw, bool) or raw == "":
        raise ConfigError(where, 'must be a list of names, or of paths from the top: ["7"] or [["7", "spring"]]')
    return str(raw)


def _service(section: Section) -> ServiceSettings:
    default = ServiceSettings()
    return ServiceSettings(
        host=_host(section, default.host),
        port=section.whole("port", default.port, at_most=65_535),
        workers=section.whole("workers", default.workers, at_least=1, at_most=256),
        pad_ms=section.whole("pad_ms", default.pad_ms, at_most=60_000),
        rate_per_minute=section.whole("rate_per_minute", default.rate_per_minute, at_most=10**9),
        max_request_bytes=section.whole("max_request_bytes", default.max_request_bytes, at_least=1024, at_most=1 << 24),
        oidc=section.section("oidc", _oidc, None),
    )


def _host(section: Section, default: str) -> str:
    host = section.text("host", default)
    if not host:
        raise ConfigError(section.at("host"), "must name an address, such as 127.0.0.1; 0.0.0.0 is all of them")
    return host


def _oidc(section: Section) -> Oidc | None:
    keys = section.text("jwks_url")
    if not _trusted(keys):
        raise ConfigError(section.at("jwks_url"), "must begin with https://: whoever changes these keys can be anybody")
    names = {name: section.text(name) for name in ("issuer", "audience")}
    for name, text in names.items():
        if not text:
            raise ConfigError(section.at(name), "must not be empty: a token is checked against it")
    claim = section.text("claim", "sub")
    return Oidc(**names, jwks_url=keys, claim=claim, leeway_s=section.whole("leeway_s", 60, at_most=600))


def _trusted(url: str) -> bool:
    """Whether nobody on the way can change what comes from there."""
    try:
        parts = urlsplit(url)
        here = parts.hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False
    return bool(parts.hostname) and "@" not in parts.netloc and (parts.scheme == "https" or here)


def _check_references(config: Config) -> None:
    """Every name that points to another section must find it."""
    for name, settings in config.reports.items():
        _check_report(config, name, settings)
    for name, table in config.tables.items():
        _known(f"tables.{name}.engine", table.engine, config.engines, "an engine")
        _check_domains(config, name, table)
        if table.cap:
            _known(f"tables.{name}.cap", table.cap, config.budgets, "a budget")
        if not table.measures and all(report.table != name for report in config.reports.values()):
            example = 'people = { count = "units" }'
            raise ConfigError(f"tables.{name}.measures", f"there is none, so that nothing can be asked; add {example}")
    for name, analyst in config.analysts.items():
        _known(f"analysts.{name}.budget", analyst.budget, config.budgets, "a budget")
        if analyst.organisation:
            _known(f"analysts.{name}.organisation", analyst.organisation, config.organisations, "an organisation")
    for name, budget in config.organisations.items():
        _known(f"organisations.{name}.budget", budget, config.budgets, "a budget")
    for name, analyst in config.analysts.items():
        if not name:
            raise ConfigError("analysts", "a name must not be empty")
        _check_prices(config, name, analyst)
        _check_tenancy(config, name, analyst)


def _check_report(config: Config, name: str, settings: ReportSettings) -> None:
    here = f"reports.{name}"
    _known(f"{here}.table", settings.table, config.tables, "a table")
    table = config.tables[settings.table]
    for attribute, described in settings.attributes.items():
        beside = table.columns.get(attribute)
        if described.domain is None and (beside is None or beside.domain is None):
            problem = "is missing; only values that are public before anybody acts can be shown"
            raise ConfigError(f"{here}.attributes.{attribute}.domain", problem)
        if isinstance(described.domain, Reference):
            _check_public(config, table, described.domain.table, f"{here}.attributes.{attribute}.domain")
    if settings.entities is not None:
        _check_public(config, table, settings.entities, f"{here}.entities.table", "a list of entities")
    if settings.cap is not None and not table.privacy_unit:
        problem = f"needs tables.{table.name}.privacy_unit, the column that says whose row it is"
        raise ConfigError(f"{here}.max_events_per_unit", problem)


def _check_tenancy(config: Config, name: str, analyst: Analyst) -> None:
    levels = {level for settings in config.reports.values() for level in settings.levels}
    for level in analyst.entities or ():
        if level not in levels:
            problem = f"no report has entities of this level{nearest(level, sorted(levels))}"
            raise ConfigError(f"analysts.{name}.entities.{level}", problem)


def _check_domains(config: Config, name: str, table: TableSettings) -> None:
    for column, settings in table.columns.items():
        if isinstance(settings.domain, Reference):
            _check_public(config, table, settings.domain.table, f"tables.{name}.columns.{column}.domain")


def _check_public(config: Config, table: TableSettings, source: str, where: str, what: str = "a domain") -> None:
    """A list of values that is read from a table of people would publish what they are."""
    beside = [other for other in config.tables.values() if other.engine == table.engine]
    if source.casefold() in {text.casefold() for other in beside for text in (other.name, other.source)}:
        raise ConfigError(where, f"{source} is a table about people; {what} must be public")


def _check_prices(config: Config, name: str, analyst: Analyst) -> None:
    """Accounts that pay for one question count it in the same units."""
    shared = {f"tables.{table.name}.cap": table.cap for table in config.tables.values() if table.cap}
    if analyst.organisation:
        shared[f"organisations.{analyst.organisation}.budget"] = config.organisations[analyst.organisation]
    own = config.budgets[analyst.budget].prices
    for setting, budget in shared.items():
        prices = config.budgets[budget].prices
        if (prices.epsilon_per, prices.delta_per) != (own.epsilon_per, own.delta_per):
            raise ConfigError(
                setting,
                f"budget {budget!r} must have the epsilon_per and delta_per of {analyst.budget!r}, "
                f"which {name} spends: one question is paid from both",
            )


def _known(setting: str, name: str, names: Mapping[str, Any], words: str) -> None:
    if name not in names:
        raise ConfigError(setting, f"names {words} that is not in the file: {name!r}{nearest(name, list(names))}")
