"""PostgreSQL: tables of a server, read by a role that may only SELECT."""

from sfumato.engines.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
