"""What one caller may put into the service: how much, how deep, how often."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from sfumato.errors import InvalidArgument, RateLimited

MAX_KEY = 255
MAX_BODY_DEPTH = 200

_TEXT = re.compile(
    rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL
)  # a text without an end goes on to the end: nothing is read twice
_BRACKETS = re.compile(rb"[][{}]")


class Rates:
    """A bucket of calls for each analyst, filled at so many a minute; a full one holds a minute's worth.

    Every worker process has its own. Thread-safe.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, analyst: str) -> None:
        """One call, or `RateLimited` with the seconds until the next."""
        left = self._taken(analyst)
        if left < 0:
            wait_s = math.ceil(-left * 60 / self._per_minute)
            raise RateLimited(f"more than {self._per_minute} calls a minute; wait {wait_s} s", wait_s)

    def spare(self, analyst: str) -> bool:
        """One call, if there is one."""
        return self._taken(analyst) >= 0

    def _taken(self, analyst: str) -> float:
        """What is left after one call; below zero, it was not made, by how much too early it would be."""
        if not self._per_minute:
            return 0
        full = float(self._per_minute)
        with self._lock:
            now = self._clock()
            left, at = self._buckets.get(analyst, (full, now))
            left = min(full, left + (now - at) * full / 60) - 1
            if left >= 0:
                self._buckets[analyst] = left, now
            return left


def read_object(body: bytes, example: str = '{"sql": "SELECT ..."}') -> dict[str, Any]:
    """The JSON object in a body. What Python would let pass and others not is refused: NaN, lone surrogates."""
    if _depth(body) > MAX_BODY_DEPTH:
        raise InvalidArgument("body", f"is nested more than {MAX_BODY_DEPTH} deep; flatten it")
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_refused)
        if b"\\u" in body:
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidArgument("body", f"must be one JSON object in UTF-8, such as {example}")
    return found


def _depth(body: bytes) -> int:
    """How deep a body is nested; no more than it has brackets. Looked at before anything recurses over it."""
    brackets = body.count(b"{") + body.count(b"[")
    if brackets <= MAX_BODY_DEPTH:
        return brackets
    steps = (1 if sign in b"{[" else -1 for sign in _BRACKETS.findall(_TEXT.sub(b"", body)))
    return max(itertools.accumulate(steps), default=0)


def read_key(key: str | None) -> str | None:
    """An `Idempotency-Key`, if it is one."""
    if key is not None and not (0 < len(key) <= MAX_KEY and all("!" <= char <= "~" for char in key)):
        raise InvalidArgument("Idempotency-Key", f"must be 1 to {MAX_KEY} visible ASCII characters, such as a UUID")
    return key


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)
