"""ClickHouse: tables of a server that is read over HTTP, or of a folder that `chdb` opens in this process."""

from sfumato.engines.clickhouse.engine import ClickHouseEngine

__all__ = ["ClickHouseEngine"]
