"""Which fence the services of a PostgreSQL ledger use: a lock that those with one fence share.

Two machines with a fence each would both accept an old copy of the ledger for what the other has answered. So a service
does not start beside one that uses another fence.
"""

from __future__ import annotations

import hashlib
import os
import select
import threading
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerFailed
from sfumato.ledger.postgres_connection import connect
from sfumato.ledger.store import deadline, hold_lock, translate_errors

if TYPE_CHECKING:
    import psycopg

OTHER_FENCE = (
    "another service uses this ledger with another fence, and neither would notice an old copy of what the other has "
    'answered. Let both use one: a database, fence = "postgresql://...", or a folder that both mount; then, if it is '
    "new, run: sfumato budget join"
)

# Locks with this first key are services; the second key is the fence. Who takes one holds the other lock meanwhile, so
# two services that start at the same time see one another.
_TURN = "SELECT pg_advisory_xact_lock(hashtext('sfumato service'))"
_OTHERS = """
SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid::bigint = hashtext('sfumato service')::bigint & 4294967295 AND objid::bigint <> %s::bigint & 4294967295
"""
_LOCK = "SELECT pg_advisory_lock_shared(hashtext('sfumato service'), %s::integer)"


class ServiceLock:
    """A shared lock of one service, held by a connection of its own. It ends with the connection."""

    def __init__(self, url: str, fence: str) -> None:
        """`fence` is the identity of the fence."""
        self._url = url
        self._key = int.from_bytes(hashlib.sha256(fence.encode()).digest()[:4], "big", signed=True)
        self._mutex = threading.Lock()
        self._process = os.getpid()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def take(self) -> bool:
        """Take the lock. False if a service holds that of another fence."""
        import psycopg

        with translate_errors(psycopg.Error):
            connection = connect(self._url)
            try:
                with connection.transaction():
                    connection.execute(_TURN)
                    free = not connection.execute(_OTHERS, [self._key]).fetchall()
                    if free:
                        connection.execute(_LOCK, [self._key])
            except BaseException:
                connection.close()
                raise
        if free:
            self._connection = connection
        else:
            connection.close()
        return free

    def keep(self) -> None:
        """Take the lock again if its connection was lost. Raises `LedgerFailed` if that is not possible."""
        if os.getpid() != self._process:
            return  # the connection is the parent's; the store refuses a forked child
        with hold_lock(self._mutex, deadline("fence")):
            if self._connection is None or not _is_lost(self._connection):
                return
            self._connection.close()
            if not self.take():
                raise LedgerFailed(OTHER_FENCE)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and os.getpid() == self._process:
            connection.close()


def _is_lost(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    """Whether the server has closed an idle connection: only then is there something to read. Asks no server."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
