"""Connections of the fence and of the lock between services: each statement is a transaction, and ends soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from sfumato.postgres import connection_type

if TYPE_CHECKING:
    import psycopg

_SETTINGS: LiteralString = """
SELECT set_config('synchronous_commit', 'on', false),
    set_config('lock_timeout', '4s', false),
    set_config('statement_timeout', '5s', false),
    set_config('idle_in_transaction_session_timeout', '5s', false),
    set_config('tcp_keepalives_idle', '2', false),
    set_config('tcp_keepalives_interval', '1', false),
    set_config('tcp_keepalives_count', '3', false)
"""


def connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection whose statements are transactions of their own, on disk when they return.

    Both sides end it if the other is gone, or has held a lock for long. A standby is refused: it may know less.
    """
    connection = connection_type().connect(
        url,
        autocommit=True,
        connect_timeout=5,
        keepalives_idle=2,
        keepalives_interval=1,
        keepalives_count=3,
        tcp_user_timeout=5000,
        target_session_attrs="read-write",
    )
    try:
        connection.execute(_SETTINGS)
    except BaseException:
        connection.close()
        raise
    return connection
