"""The records of `sfumato.toml`, as the owner wrote it. Their defaults are the defaults of the file."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from sfumato.accounting import Charge
from sfumato.errors import ConfigError, InvalidArgument, NotFound, NotSupported, find_nearest
from sfumato.query.abilities import USUAL, Abilities
from sfumato.query.policy import Bounds, Column, Measure, Prices, TablePolicy
from sfumato.query.public import KEY_TYPES
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.policy import Option
from sfumato.query.versions import Rhythm, version_name
from sfumato.types import TYPES, Type

Resets: TypeAlias = Literal["never", "daily", "weekly", "monthly"]
Mode: TypeAlias = Literal["enforce", "track"]
Role: TypeAlias = Literal["analyst", "reader", "owner", "auditor"]


def _utc(moment: datetime) -> datetime:
    """Refuses a moment without a zone: two machines would read it as two moments, and have two versions."""
    if moment.tzinfo is None:
        raise InvalidArgument("moment", "must carry a time zone")
    return moment.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """`fence` is the path of a file or a folder, or the URL of a database. Without it, a file in the state folder."""

    url: str = "sqlite:ledger.db"
    fence: Path | str | None = None


TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """An engine. `type` is its row in `sfumato.config.engines.ENGINES`; `options` has the other settings by name.

    The defaults of options are those of the engine's class. The default type is the engine that reads files.
    """

    type: str = "duckdb"
    url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def timeout_s(self) -> int:
        """How long a question may take, in seconds."""
        return int(self.options.get("timeout_s", TIMEOUT_S))


@dataclass(frozen=True, slots=True)
class Reference:
    """A public table whose column lists a domain."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """A column as the owner wrote it. Without a type it has that of the live schema.

    Its values count between `min` and `max` in whole steps, at most `max_per_unit` of one person in a group.
    """

    type: Type | None = None
    domain: tuple[Any, ...] | Reference | None = None
    max_groups: int | None = None
    guaranteed: bool = False
    min: Fraction | None = None
    max: Fraction | None = None
    step: Fraction | None = None
    max_per_unit: int | None = None

    @property
    def most_steps(self) -> int:
        """By how many steps one person can raise its sum in a group; 0 where it has no bounds, or can fall."""
        if self.min is None or self.max is None or self.min < 0:
            return 0
        return (self.max_per_unit or 1) * int(self.max / (self.step or 1))


@dataclass(frozen=True, slots=True)
class Version:
    """A public name for a state of the data. The clock or the owner makes it, never the rows.

    It follows a `rhythm`, which is "fixed" for rows that never change, or is `value` where the rhythm is None.
    """

    rhythm: Rhythm | None = "daily"
    value: str = ""

    def at(self, moment: datetime) -> str:
        """The name of the version in force at a moment (UTC)."""
        if self.rhythm is None:
            return f"value {self.value}"
        return version_name(self.rhythm, _utc(moment))


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
    parts: Mapping[str, Fraction] = field(default_factory=dict)

    def policy(
        self,
        schema: Mapping[str, str],
        domains: Mapping[str, tuple[Any, ...]],
        version: str,
        abilities: Abilities = USUAL,
    ) -> TablePolicy:
        """What may be asked, once the live schema has given the types and the reference tables their domains."""
        for problem in self.problems(schema, domains, abilities):
            raise problem
        columns = {name: self._column(name, schema, domains) for name in self.columns}
        policy = TablePolicy(self.name, self.privacy_unit, columns, self.measures, self.max_k, self.limit, version)
        return replace(policy, abilities=abilities)

    def problems(
        self, schema: Mapping[str, str], domains: Mapping[str, tuple[Any, ...]], abilities: Abilities = USUAL
    ) -> Iterator[ConfigError]:
        """Every way in which this does not fit the live schema, or what the engine can do."""
        here = f"tables.{self.name}"
        if self.privacy_unit and self.privacy_unit not in schema:
            problem, near = f"{self.privacy_unit} is not in the table", find_nearest(self.privacy_unit, schema)
            yield ConfigError(f"{here}.privacy_unit", problem, nearest=near)
        for name, measure in self.measures.items():
            if measure.column is not None and measure.column not in schema:
                problem, near = f"{measure.column} is not in the table", find_nearest(measure.column, schema)
                yield ConfigError(f"{here}.measures.{name}.sum", problem, nearest=near)
            elif measure.column is not None and schema[measure.column] != "integer":
                problem = f"must be a column of whole numbers; {measure.column} is not"
                yield ConfigError(f"{here}.measures.{name}.sum", problem)
            if unable := abilities.measure_problem(measure.counts):
                yield ConfigError(f"{here}.measures.{name}", unable)
        for name in self.columns:
            try:
                yield from _ability_problems(self._column(name, schema, domains), abilities, f"{here}.columns.{name}")
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
        bounds = _find_bounds(settings, live, f"tables.{self.name}.columns.{name}")
        return Column(name, live, domain, settings.max_groups, settings.guaranteed, bounds=bounds)

    def _type(self, name: str, written: Type | None, schema: Mapping[str, str]) -> Type:
        """The live type of a column, which a written one must agree with."""
        where = f"tables.{self.name}.columns.{name}"
        live = schema.get(name)
        if live is None:
            raise ConfigError(where, "is not in the table", nearest=find_nearest(name, schema))
        if live not in TYPES:
            problem = "has a type that cannot be asked about; leave it out, or use a view that casts it"
            raise ConfigError(where, problem)
        if written not in (None, live):
            raise ConfigError(f"{where}.type", f"is {written}, but the column holds {live}")
        return cast(Type, live)


@dataclass(frozen=True, slots=True)
class PublicSettings:
    """A public table as the owner wrote it: every analyst may read its rows. `key` is unique there.

    `types` are those of columns where the source does not say them. Its rows are read again with each `version`.
    """

    name: str
    engine: str
    source: str
    key: str
    version: Version
    types: Mapping[str, Type] = field(default_factory=dict)

    def problems(self, schema: Mapping[str, str]) -> Iterator[ConfigError]:
        """Every way in which this does not fit the live schema."""
        here = f"tables.{self.name}"
        for column in self.types:
            if column not in schema:
                yield ConfigError(
                    f"{here}.columns.{column}", "is not in the table", nearest=find_nearest(column, schema)
                )
        if self.key not in schema:
            yield ConfigError(f"{here}.key", f"{self.key} is not in the table", nearest=find_nearest(self.key, schema))
        elif schema[self.key] not in KEY_TYPES:
            kinds = ", ".join(TYPES[kind].words for kind in KEY_TYPES)
            yield ConfigError(f"{here}.key", f"must hold {kinds}; {self.key} does not")

    def columns(self, schema: Mapping[str, str]) -> dict[str, Type]:
        """The columns that can be used: those of a type that can be asked about."""
        return {name: cast(Type, kind) for name, kind in schema.items() if kind in TYPES}


def _find_bounds(settings: ColumnSettings, live: Type, where: str) -> Bounds | None:
    """Between which values the column counts, if the owner wrote that."""
    if settings.min is None or settings.max is None:
        return None
    if live not in ("integer", "number"):
        raise ConfigError(f"{where}.min", f"bounds numbers, and the column holds {TYPES[live].words}")
    if settings.step is None and live == "number":
        raise ConfigError(f"{where}.step", "is missing; write in which steps it counts, such as step = 0.01 for cents")
    return Bounds(settings.min, settings.max, settings.step or Fraction(1), settings.max_per_unit or 1)


def _ability_problems(column: Column, abilities: Abilities, here: str) -> Iterator[ConfigError]:
    """What the engine cannot do with a column that the owner described as one to group by."""
    if column.max_groups is None and column.domain is None:
        return  # it may be a filter only
    if problem := abilities.key_problem(column.name, column.type):
        yield ConfigError(here, problem)
    if column.max_groups is not None:
        is_certain = column.domain is not None and column.max_groups >= len(column.domain)
        if problem := abilities.groups_problem(guaranteed=is_certain or column.guaranteed):
            yield ConfigError(f"{here}.max_groups", problem)


@dataclass(frozen=True, slots=True)
class Budget:
    """What an account may spend in one period (`cap`), and what one unit and one call mean (`prices`).

    With `tables`, it pays for questions and releases of these tables only.
    """

    prices: Prices
    cap: Charge
    resets: Resets = "never"
    mode: Mode = "enforce"
    tables: tuple[str, ...] | None = None

    @property
    def unit_prices(self) -> tuple[Fraction, Fraction]:
        """What one unit and one call mean. Accounts that pay for one request must agree on it."""
        return self.prices.epsilon_per, self.prices.delta_per

    def period(self, moment: datetime) -> tuple[date | None, date | None]:
        """When the period at a moment (UTC) began and when the next begins; None for one that never ends.

        The last period of the year 9999 never ends: there is no date after it.
        """
        today = _utc(moment).date()
        if self.resets == "never":
            return None, None
        if self.resets == "monthly":
            first, days = today.replace(day=1), monthrange(today.year, today.month)[1]
        else:
            first, days = (today, 1) if self.resets == "daily" else (today - timedelta(days=today.weekday()), 7)
        return first, first + timedelta(days=days) if (date.max - first).days >= days else None


@dataclass(frozen=True, slots=True)
class Analyst:
    """One who asks. With `tables`, of these tables and their reports only; without it, of all.

    `where` is a SQL condition that every question gets in addition. With `entities`, by level, reports show these
    entities and those below them only.
    """

    budget: str
    organisation: str | None = None
    role: Role = "analyst"
    entities: Mapping[str, tuple[str | tuple[str, ...], ...]] | None = None
    tables: tuple[str, ...] | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Oidc:
    """Tokens of an identity provider: who issues them, for which audience, and which claim names the analyst.

    With `client_id`, people sign in to the pages with the provider. `client_secret_file` holds the secret that the
    service proves itself with, if the provider has given one.
    """

    issuer: str
    audience: str
    jwks_url: str
    claim: str = "sub"
    leeway_s: int = 60
    client_id: str | None = None
    client_secret_file: Path | None = None


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The HTTP service. With `pad_ms`, every response takes a multiple of that time. A rate of 0 is no limit.

    `Config.pad_ms` is the padding in force. `origin` is how people reach the service, as a browser writes it:
    https://numbers.example. Without it they reach the address that is bound.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    pad_ms: int | None = None
    rate_per_minute: int = 6000
    max_request_bytes: int = 1 << 18
    oidc: Oidc | None = None
    origin: str | None = None

    @property
    def has_provider(self) -> bool:
        """Whether people sign in to the pages with an identity provider, if they want to."""
        return self.oidc is not None and self.oidc.client_id is not None


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The pages of the service, and whether its owner may make keys and grants over HTTP (`govern`)."""

    enabled: bool = True
    session_hours: int = 8
    govern: bool = False


SHARED_PAD_MS = 100
"""Where tenants share a table. Below it, a tenant can tell by time what another has asked: `benchmarks/padding.py`."""


@dataclass(frozen=True, slots=True)
class StatisticSettings:
    """What a report counts: rows that pass `where`, or the sum of a `column`.

    `epsilon` is by level of time; it is empty where the report has Gaussian noise.
    """

    column: str | None
    where: Mapping[str, Any]
    epsilon: Mapping[str, Fraction]
    of: str | None = None


@dataclass(frozen=True, slots=True)
class AttributeSettings:
    """What a report breaks numbers down by. Without a domain it has that of its column in the table."""

    domain: tuple[Any, ...] | Reference | None
    max_values: int = 1
    separator: str = ""


@dataclass(frozen=True, slots=True)
class GaussianTotal:
    """What a report with Gaussian noise promises to one event, over all its cells in one version."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """A report as the owner wrote it. Types, domains and entities are looked up later.

    Its noise is Laplace noise of the statistics' epsilons, unless it is `gaussian`.
    """

    name: str
    table: str
    time: str
    calendar: Calendar
    statistics: Mapping[str, StatisticSettings]
    attributes: Mapping[str, AttributeSettings] = field(default_factory=dict)
    levels: tuple[str, ...] = ()
    entities: str | None = None
    min_count: int = 0
    fanout: int = 0
    lag: timedelta = timedelta(hours=1)
    max_versions: int = 1
    cap: int | None = None
    exact_totals: bool = False
    options: tuple[Option, ...] = ()
    gaussian: GaussianTotal | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file; `digest` is the SHA-256 of its text. `tables` are those of people, and `public` the others."""

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
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    public: Mapping[str, PublicSettings] = field(default_factory=dict)
    digest: str = field(default="", compare=False)

    @property
    def pad_ms(self) -> int:
        """The padding of response times in force: as written, or `SHARED_PAD_MS` where tenants share a table.

        A tenant is an organisation, or an analyst without one.
        """
        if self.service.pad_ms is not None:
            return self.service.pad_ms
        tenants = {name: (each.organisation, "" if each.organisation else name) for name, each in self.analysts.items()}
        for table in self.tables:
            if len({tenants[name] for name in self.analysts if self.may_use(name, table)}) > 1:
                return SHARED_PAD_MS
        return 0

    def analyst(self, name: str) -> Analyst:
        """The analyst of this name, or a refusal that names the nearest."""
        if not isinstance(name, str) or name not in self.analysts:
            near = find_nearest(str(name), self.analysts)
            raise NotFound(f"there is no analyst {str(name)[:60]!r}", nearest=near)
        return self.analysts[name]

    def tables_of(self, analyst: str) -> frozenset[str] | None:
        """The tables that an analyst may use: those of her section and of the budgets that pay; None for all."""
        who = self.analyst(analyst)
        paying = [who.budget, *([self.organisations[who.organisation]] if who.organisation else [])]
        limits = [who.tables, *(self.budgets[name].tables for name in paying)]
        given = [frozenset(limit) for limit in limits if limit is not None]
        return frozenset.intersection(*given) if given else None

    def may_use(self, analyst: str, table: str) -> bool:
        """Whether a table is one of `tables_of` an analyst."""
        limit = self.tables_of(analyst)
        return limit is None or table in limit
