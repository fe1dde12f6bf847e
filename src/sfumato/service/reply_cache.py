"""A cache of replies: the same call again, while the ledger has not changed.

A reply is a function of the call, the ledger and the second: periods begin and data versions change on whole seconds.
So a reply stays right until the ledger's stamp or the second changes. Every commit of any process changes the stamp: a
revoked key, a grant or a charge affects the next call. A reply to a key that expires within the second is not cached.
A ledger whose stamp is expensive (PostgreSQL) has none, and then nothing is cached.

Why the LRU is an `OrderedDict` and not `cachetools`: docs/adr/0009-caches.md.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from starlette.responses import Response

from sfumato.errors import SfumatoError
from sfumato.ledger import Ledger
from sfumato.ledger.api_keys import START

MAX_REPLIES = 2048
MAX_REPLY_BYTES = 1 << 16

CallKey: TypeAlias = tuple[str, bytes, str | None, str]
"""The `Authorization`, the body, the `Idempotency-Key` and the media type of the reply."""


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A reply and the analyst who got it."""

    analyst: str
    reply: Response


class ReplyCache:
    """The latest replies. Thread-safe."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._ledger, self._clock = ledger, clock
        self._lock = threading.Lock()
        self._policy = 0
        self._replies: OrderedDict[CallKey, tuple[Hashable, CachedReply]] = OrderedDict()

    def stamp(self) -> Hashable | None:
        """The state that replies depend on; None if it is unknown."""
        try:
            ledger = self._ledger.stamp()
        except SfumatoError:
            return None  # the call itself will report it
        return None if ledger is None else (ledger, self._policy, int(self._clock().timestamp()))

    def forget(self) -> None:
        """Another policy is in force: no earlier reply and no earlier stamp is right any more."""
        with self._lock:
            self._policy += 1
            self._replies.clear()

    def get(self, call: CallKey, stamp: Hashable | None) -> CachedReply | None:
        """The reply to this call, if it was cached at this stamp, which is the present one."""
        with self._lock:
            entry = self._replies.get(call)
        return entry[1] if entry is not None and entry[0] == stamp else None

    def is_lasting(self, authorization: str, until: datetime | None) -> bool:
        """Whether this authorization stays valid while the stamp is the same: a key that does not expire before."""
        ends = until is not None and int(until.timestamp()) <= int(self._clock().timestamp())
        return not ends and authorization[:7].lower() == "bearer " and authorization[7:].startswith(START)

    def put(self, call: CallKey, stamp: Hashable | None, cached: CachedReply, until: datetime | None = None) -> None:
        """Cache a reply to a call that began at `stamp`, unless the stamp has changed since.

        Calls with a token are not cached: its validity is not in the ledger. `until` is when the API key expires.
        """
        authorization, body, *_ = call
        is_small = len(body) + len(cached.reply.body) <= MAX_REPLY_BYTES
        if not is_small or not self.is_lasting(authorization, until) or stamp is None or stamp != self.stamp():
            return
        with self._lock:
            self._replies[call] = stamp, cached
            self._replies.move_to_end(call)
            while len(self._replies) > MAX_REPLIES:
                self._replies.popitem(last=False)
