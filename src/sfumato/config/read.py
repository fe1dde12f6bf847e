"""From TOML to the records of `settings`. Reports are read in `reports`, engines in `engines`."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from sfumato.accounting import Charge
from sfumato.config.checks import check_references
from sfumato.config.engines import read_engine
from sfumato.config.reports import read_report_settings
from sfumato.config.sections import PREFIX, Section, defaults, name_variable, override
from sfumato.config.settings import (
    Analyst,
    Budget,
    ColumnSettings,
    Config,
    ConsoleSettings,
    LedgerSettings,
    Mode,
    Oidc,
    PublicSettings,
    Resets,
    Role,
    ServiceSettings,
    TableSettings,
    Version,
)
from sfumato.config.stores import store_kind
from sfumato.errors import ConfigError
from sfumato.mechanisms.mechanism import CountNoise
from sfumato.query.policy import CountKind, Measure, Prices
from sfumato.query.versions import Rhythm
from sfumato.types import Type

NO_SETTINGS = frozenset((PREFIX, "SFUMATO_KEY"))  # a client's key is no setting of a service
MAX_K, MAX_LIMIT = 100_000, 2**24
MAX_SESSION_HOURS = 7 * 24

_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")  # before Python 3.14 tomllib has the place in its text only


def load_config(path: str | os.PathLike[str]) -> Config:
    """The configuration in a file; environment variables win over it."""
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
        place = _PLACE.search(str(error))
        at = (int(place[1]), int(place[2])) if place else None
        raise ConfigError("sfumato.toml", f"is not TOML: {str(error)[:200]}", at=at) from None
    variables: dict[str, str] = {}
    for name, value in environment.items():
        if name.startswith(PREFIX) and name not in NO_SETTINGS:
            variables |= dict.fromkeys(override(document, name, value), name)
    root = Section("", document)
    try:
        tables = root.sections("tables", read_table)
        config = Config(
            folder=folder,
            ledger=root.section("ledger", lambda s: read_ledger(s, folder), LedgerSettings()),
            key_file=root.section("noise", lambda s: folder / s.text("key_file", "noise.key"), folder / "noise.key"),
            engines=root.sections("engines", lambda _, s: read_engine(s, folder)),
            tables={name: each for name, each in tables.items() if isinstance(each, TableSettings)},
            public={name: each for name, each in tables.items() if isinstance(each, PublicSettings)},
            budgets=root.sections("budgets", lambda _, s: read_budget(s)),
            analysts=root.sections("analysts", lambda _, s: read_analyst(s)),
            organisations=root.sections("organisations", lambda _, s: s.text("budget")),
            service=root.section("service", lambda s: read_service(s, folder), ServiceSettings()),
            reports=root.sections("reports", read_report_settings),
            console=root.section("console", read_console, ConsoleSettings()),
            digest=hashlib.sha256(text.encode()).hexdigest(),
        )
        root.refuse_unknown()
        check_references(config)
    except ConfigError as error:
        raise name_variable(error, variables) from None
    return config


def read_ledger(section: Section, folder: Path) -> LedgerSettings:
    usual = LedgerSettings()
    url = section.text("url", usual.url)
    store_kind(url)  # raises ConfigError
    return LedgerSettings(url, read_fence(section.text("fence", ""), folder, section.at("fence")) or usual.fence)


def read_fence(text: str, folder: Path, setting: str) -> Path | str | None:
    """Where a fence is: a path, or the URL of a database; None for an empty text. Relative paths start at `folder`."""
    if re.match(r"postgres(ql)?://", text):
        return text
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", text):
        raise ConfigError(setting, 'must be the path of a file or a folder, or "postgresql://..."')
    path = folder / text
    if text.endswith("/") and not path.is_dir():
        raise ConfigError(setting, f"there is no folder {text!r}; mount it, or create it")
    return path if text else None


def read_table(name: str, section: Section) -> TableSettings | PublicSettings:
    if section.flag("public"):
        return read_public_table(name, section)
    usual = defaults(TableSettings)
    max_k = section.whole("max_k", usual["max_k"], at_least=1, at_most=MAX_K)
    table = TableSettings(
        name=name,
        engine=section.text("engine"),
        source=section.text("source"),
        privacy_unit=section.text("privacy_unit", ""),
        version=_version(section),
        max_k=max_k,
        limit=section.whole("limit", usual["limit"], at_least=max_k, at_most=MAX_LIMIT),
        cap=section.text("cap", "") or usual["cap"],
        parts=section.section("parts", lambda s: {name: s.number(name) for name in s.names()}, {}),
        columns=section.sections("columns", lambda _, s: read_column(s)),
        measures=section.sections("measures", read_measure),
    )
    if table.measures and not table.privacy_unit:
        missing = "" if section.has("privacy_unit") else "is missing; it "
        raise ConfigError(section.at("privacy_unit"), f"{missing}must name the column that says whose row it is")
    return table


def read_public_table(name: str, section: Section) -> PublicSettings:
    """A table with `public = true`: it has no privacy unit and no measures, because it is about no person."""
    for key in ("privacy_unit", "measures"):
        if section.has(key):
            raise ConfigError(section.at(key), "does not belong to a public table, whose rows everyone may read")
    return PublicSettings(
        name=name,
        engine=section.text("engine"),
        source=section.text("source"),
        key=section.text("key"),
        version=_version(section, "fixed"),
        types=section.sections("columns", lambda _, s: cast(Type, s.choice("type", Type))),
    )


def _version(section: Section, usual: Rhythm = "daily") -> Version:
    raw = section.take("version", (str, dict), 'a rhythm such as "daily", "fixed", or { value = "..." }', usual)
    if isinstance(raw, str):
        return Version(section.choice("version", Rhythm, usual))
    return section.section("version", lambda s: Version(None, s.text("value")), Version())


def read_column(section: Section) -> ColumnSettings:
    column = ColumnSettings(
        type=section.choice("type", Type) if section.has("type") else None,
        domain=section.domain(),
        max_groups=section.whole("max_groups", 0, at_least=1) or None,
        guaranteed=section.flag("guaranteed"),
        **_read_bounds(section),
    )
    if column.guaranteed and column.max_groups is None:
        raise ConfigError(section.at("guaranteed"), "says that a bound holds; write max_groups, which is the bound")
    return column


def _read_bounds(section: Section) -> dict[str, Any]:
    """Between which values a column counts; nothing where neither end is written."""
    given = [key for key in ("min", "max", "step", "max_per_unit") if section.has(key)]
    for key in ("min", "max") if given else ():
        if key not in given:
            raise ConfigError(section.at(key), f"is missing beside {given[0]}; a bound has min and max")
    numbers = {key: section.number(key, signed=key != "step") for key in given if key != "max_per_unit"}
    cap = {"max_per_unit": section.whole("max_per_unit", at_least=1)} if "max_per_unit" in given else {}
    return {**numbers, **cap}


def read_measure(name: str, section: Section) -> Measure:
    if section.has("sum"):
        return Measure(name, "sum", section.text("sum"), section.whole("max_per_unit"))
    counts: CountKind = section.choice("count", Literal["units", "rows"])
    return Measure(name, counts, None, 1 if counts == "units" else section.whole("max_per_unit"))


def read_budget(section: Section) -> Budget:
    usual, noise = defaults(Budget), defaults(Prices)["count_noise"]
    return Budget(
        prices=Prices(
            epsilon_per=section.number("epsilon_per"),
            delta_per=section.number("delta_per"),
            count_noise=cast(CountNoise, section.choice("count_noise", CountNoise, noise)),
        ),
        cap=Charge(section.number("information"), section.number("calls")),
        resets=section.choice("resets", Resets, usual["resets"]),
        mode=section.choice("mode", Mode, usual["mode"]),
        tables=section.texts("tables") if section.has("tables") else None,
    )


def read_analyst(section: Section) -> Analyst:
    section.take("entities", dict, 'names by their level, { level = ["..."] }', None)
    where = section.text("where", None)
    if where is not None and not where.strip():
        raise ConfigError(section.at("where"), "is empty; write a condition, or leave it out for all rows")
    return Analyst(
        budget=section.text("budget"),
        organisation=section.text("organisation", "") or None,
        role=section.choice("role", Role, defaults(Analyst)["role"]),
        entities=section.section("entities", read_entities_of_analyst, None),
        tables=section.texts("tables") if section.has("tables") else None,
        where=where,
    )


def read_entities_of_analyst(section: Section) -> dict[str, tuple[str | tuple[str, ...], ...]]:
    """The entities that an analyst may ask reports about, by level: names, or paths from the top."""

    def name_or_path(raw: Any, where: str) -> str | tuple[str, ...]:
        if isinstance(raw, list) and raw and all(isinstance(name, str | int) and name != "" for name in raw):
            return tuple(map(str, raw))
        if not isinstance(raw, str | int) or isinstance(raw, bool) or raw == "":
            raise ConfigError(where, 'must be a list of names, or of paths from the top: ["7"] or [["7", "spring"]]')
        return str(raw)

    return {
        level: tuple(name_or_path(each, section.at(level)) for each in section.take(level, list, "a list of names"))
        for level in section.names()
    }


def read_service(section: Section, folder: Path) -> ServiceSettings:
    usual = ServiceSettings()
    host = section.text("host", usual.host)
    if not host:
        raise ConfigError(section.at("host"), "must name an address, such as 127.0.0.1; 0.0.0.0 is all of them")
    settings = ServiceSettings(
        host=host,
        port=section.whole("port", usual.port, at_most=65_535),
        workers=section.whole("workers", usual.workers, at_least=1, at_most=256),
        pad_ms=section.whole("pad_ms", at_most=60_000) if section.has("pad_ms") else usual.pad_ms,
        rate_per_minute=section.whole("rate_per_minute", usual.rate_per_minute, at_most=10**9),
        max_request_bytes=section.whole("max_request_bytes", usual.max_request_bytes, at_least=1024, at_most=1 << 24),
        oidc=section.section("oidc", lambda s: read_oidc(s, folder), None),
        origin=read_origin(section) if section.has("origin") else usual.origin,
    )
    if settings.has_provider and settings.origin is None:
        words = "must be set for [service.oidc] client_id: the provider sends people back to this address only"
        raise ConfigError(section.at("origin"), words)
    return settings


def read_origin(section: Section) -> str:
    """An origin in the one spelling that browsers use: in small letters, without a path and without the usual port."""
    text = section.text("origin").lower()
    match = re.fullmatch(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?/?", text)
    try:
        named = match is not None and bool(urlsplit(text).hostname) and urlsplit(text).port != 0
    except ValueError:
        named = False
    if match is None or not named:
        words = 'must be https:// and a host, such as "https://numbers.example", without a path and without a password'
        raise ConfigError(section.at("origin"), words)
    scheme, host, port = match.groups()
    usual = "443" if scheme == "https" else "80"
    return f"{scheme}://{host}" if port is None or str(int(port)) == usual else f"{scheme}://{host}:{int(port)}"


def read_console(section: Section) -> ConsoleSettings:
    usual = ConsoleSettings()
    return ConsoleSettings(
        enabled=section.flag("enabled", default=usual.enabled),
        session_hours=section.whole("session_hours", usual.session_hours, at_least=1, at_most=MAX_SESSION_HOURS),
        govern=section.flag("govern"),
    )


def read_oidc(section: Section, folder: Path) -> Oidc | None:
    usual, jwks_url = defaults(Oidc), section.text("jwks_url")
    if not _is_trusted(jwks_url):
        raise ConfigError(section.at("jwks_url"), "must begin with https://, because these keys decide who may ask")
    names = {name: section.text(name) for name in ("issuer", "audience")}
    for name, text in names.items():
        if not text:
            raise ConfigError(section.at(name), "must not be empty: a token is checked against it")
    client_id, secret_file = (section.text(name, "") for name in ("client_id", "client_secret_file"))
    if client_id and not _is_trusted(names["issuer"]):
        words = "must begin with https://, because the provider's addresses for signing in are read from there"
        raise ConfigError(section.at("issuer"), words)
    if secret_file and not client_id:
        raise ConfigError(section.at("client_secret_file"), "is for signing in to the pages, which needs client_id")
    return Oidc(
        **names,
        jwks_url=jwks_url,
        claim=section.text("claim", usual["claim"]),
        leeway_s=section.whole("leeway_s", usual["leeway_s"], at_most=600),
        client_id=client_id or None,
        client_secret_file=folder / secret_file if secret_file else None,
    )


def _is_trusted(url: str) -> bool:
    """Whether a reply from there cannot be changed on its way: by TLS, or because it is this machine."""
    try:
        parts = urlsplit(url)
        local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False
    return bool(parts.hostname) and "@" not in parts.netloc and (parts.scheme == "https" or local)
