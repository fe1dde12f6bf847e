"""`[engines.NAME]`: which engine it is, and the settings that this engine takes.

`ENGINES` has one row per engine: where its class is, and how its settings are read. Nothing is imported here: the class
is imported when an engine is opened (`sfumato.engines.open_engine`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from sfumato.config.sections import Section
from sfumato.config.settings import EngineSettings
from sfumato.errors import ConfigError, find_nearest

Reader: TypeAlias = Callable[[Section, str, Path], Any]
"""Read a setting of a section, given its key and the folder of the file; None where it is absent."""

_SIZE = re.compile(r"(?=[0-9.]*[1-9])[0-9]{1,9}(\.[0-9]{1,9})? ?([kmgt]i?b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EngineKind:
    """A row of `ENGINES`. `home` is "module:Class". `url` is the form of its address, by an example, or by two with
    " or " between them; "" for none.

    An address begins as an example does, or with one of `schemes`. `frames` is the package whose data frames a release
    on this engine reads.
    """

    home: str
    options: Mapping[str, Reader] = field(default_factory=dict)
    url: str = ""
    schemes: tuple[str, ...] = ()
    frames: str = ""


def file(section: Section, key: str, folder: Path) -> Path | None:
    """A file. Relative paths start at the folder of the configuration."""
    text = section.text(key, "")
    return folder / text if text else None


def size(section: Section, key: str, folder: Path) -> str | None:
    """An amount of memory."""
    amount: str | None = section.text(key, None)
    if amount is not None and not _SIZE.fullmatch(amount):
        raise ConfigError(section.at(key), "must be a number and a unit, such as '2GB': KB, MB, GB, TB, KiB to TiB")
    return amount


def seconds(section: Section, key: str, folder: Path) -> int | None:
    return section.whole(key, None, at_least=1)


def number(section: Section, key: str, folder: Path) -> int | None:
    return section.whole(key, None, at_least=1)


def text(section: Section, key: str, folder: Path) -> str | None:
    return section.text(key, "") or None


def address(section: Section, key: str, folder: Path) -> str | None:
    """The address of an HTTP server."""
    return (
        read_url(section, key, "http://controller:9000 or https://controller:9000") if section.text(key, "") else None
    )


ENGINES: dict[str, EngineKind] = {
    "duckdb": EngineKind(
        "sfumato.engines.duckdb:DuckDBEngine", {"database": file, "memory_limit": size, "timeout_s": seconds}
    ),
    "postgres": EngineKind(
        "sfumato.engines.postgres:PostgresEngine",
        {"password_file": file, "timeout_s": seconds, "memory_limit": size},
        url="postgresql://reader@db/sales",
    ),
    "clickhouse": EngineKind(
        "sfumato.engines.clickhouse:ClickHouseEngine",
        {"password_file": file, "timeout_s": seconds, "memory_limit": size},
        url="https://reader@db:8443/sales or chdb:/data/click",
    ),
    "pinot": EngineKind(
        "sfumato.engines.pinot:PinotEngine",
        {"controller": address, "password_file": file, "ca_file": file, "timeout_s": seconds},
        url="http://broker:8099 or https://broker:8099",
    ),
    "spark": EngineKind(
        "sfumato.engines.spark:SparkEngine",
        {"timeout_s": seconds, "max_collected": number},
        url="sc://spark:15002 or local[4]",
        schemes=("local", "spark://", "yarn", "k8s://"),
        frames="pyspark.sql",
    ),
}


def read_engine(section: Section, folder: Path) -> EngineSettings:
    """The settings of one engine. Its options stand in its section, or below it in `options`."""
    name = section.text("type")
    if name not in ENGINES:
        raise ConfigError(
            section.at("type"), f"must be one of {', '.join(ENGINES)}", nearest=find_nearest(name, ENGINES)
        )
    kind = ENGINES[name]
    below = Section(section.at("options"), section.take("options", dict, "a section", {}))
    options: dict[str, Any] = {}
    for place in (section, below):
        for key, read in kind.options.items():
            value = read(place, key, folder)
            if value is not None:
                options[key] = value
    below.refuse_unknown()
    return EngineSettings(name, read_url(section, "url", kind.url, kind.schemes) if kind.url else None, options)


def read_url(section: Section, key: str, example: str, schemes: tuple[str, ...] = ()) -> str:
    """The address of an engine. It begins as an example does, with the same scheme, or with one of `schemes`."""
    url: str = section.text(key)
    examples = example.split(" or ")
    if not url.startswith((*(each.partition(":")[0] + ":" for each in examples), *schemes)):
        raise ConfigError(section.at(key), "must be such as " + " or ".join(f'"{each}"' for each in examples))
    return url
