"""Replies that are known: the same call again, while nothing in the ledger has changed.

A reply is a function of the call, the ledger and the second. So a reply that was made while the ledger stood still is
right for as long as it stands, within that second: periods begin and versions change on whole seconds, and with a key
that expires within the second nothing is remembered.
Every commit of any process changes the ledger's stamp: a revoked key, a grant and a charge are seen by the next call.
Where a ledger cannot be stamped for next to nothing (PostgreSQL), nothing is remembered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sfumato.errors import SfumatoError
from sfumato.ledger import Ledger
from sfumato.ledger.api_keys import START

MAX_REPLIES = 2048
MAX_REPLY_BYTES = 1 << 16

Call: TypeAlias = tuple[str, bytes, str | None]
"""The `Authorization`, the body and the `Idempotency-Key`."""


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A reply, ready to be sent, and whose it is."""

    analyst: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class ReplyCache:
    """The latest replies. Thread-safe."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._ledger, self._clock = ledger, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Call, tuple[Hashable, CachedReply]] = OrderedDict()

    def stamp(self) -> Hashable | None:
        """What replies depend on, as it is now; None where that is not known."""
        try:
            books = self._ledger.stamp()
        except SfumatoError:
            return None  # whoever asks will be told
        return None if books is None else (books, int(self._clock().timestamp()))

    def get(self, call: Call) -> CachedReply | None:
        with self._lock:
            found = self._kept.get(call)
        return found[1] if found is not None and found[0] == self.stamp() else None

    def keep(self, call: Call, since: Hashable | None, reply: CachedReply, until: datetime | None = None) -> None:
        """Remember a reply to a call that began at a stamp, unless something has happened in between.

        Tokens of an identity provider are not remembered: what they are worth is not in the ledger. `until` is when
        the key of the call expires.
        """
        if until is not None and int(until.timestamp()) <= int(self._clock().timestamp()):
            return
        plain = call[0][:7].lower() == "bearer " and call[0][7:].startswith(START)
        if not plain or len(call[1]) + len(reply.body) > MAX_REPLY_BYTES or since is None or since != self.stamp():
            return
        with self._lock:
            self._kept[call] = since, reply
            self._kept.move_to_end(call)
            while len(self._kept) > MAX_REPLIES:
                self._kept.popitem(last=False)
