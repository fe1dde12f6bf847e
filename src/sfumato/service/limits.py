"""Limits per caller: rate, nesting of bodies, idempotency keys, page sizes."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from sfumato.errors import InvalidArgument, RateLimited
from sfumato.query.request import unique_object

MAX_IDEMPOTENCY_KEY = 255  # characters
MAX_BODY_DEPTH = 200
MAX_PAGE_ROWS, DEFAULT_PAGE_ROWS = 1000, 100

# A string without a closing quote ends with the body: no byte is read twice.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKETS = re.compile(rb"[][{}]")
_BODY_OBJECT = partial(unique_object, "body")


class Rates:
    """A token bucket per analyst: `per_minute` tokens are added per minute, and a full bucket holds as many.

    Each worker process has its own buckets. Thread-safe.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, analyst: str) -> None:
        """Take a token. Raises `RateLimited`, with the seconds until the next one, if there is none."""
        left = self._take(analyst)
        if left < 0:
            wait_s = math.ceil(-left * 60 / self._per_minute)
            raise RateLimited(f"more than {self._per_minute} calls per minute; wait {wait_s} s", wait_s)

    def try_take(self, analyst: str) -> bool:
        """Take a token if there is one."""
        return self._take(analyst) >= 0

    def _take(self, analyst: str) -> float:
        """The tokens left after taking one. If negative, none was taken, and this is how much was missing."""
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
    """The JSON object in a body. Stricter than `json`: NaN, lone surrogates and a key twice are refused."""
    if nesting(body) > MAX_BODY_DEPTH:
        raise InvalidArgument("body", f"is nested more than {MAX_BODY_DEPTH} deep; flatten it")
    try:
        content = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_BODY_OBJECT)
        if b"\\u" in body:
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except InvalidArgument:
        raise
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InvalidArgument("body", f"must be one JSON object in UTF-8, such as {example}")
    return content


def nesting(body: bytes) -> int:
    """An upper bound of the nesting depth of a JSON text, without recursion."""
    brackets = body.count(b"{") + body.count(b"[")
    if brackets <= MAX_BODY_DEPTH:
        return brackets
    steps = (1 if bracket in b"{[" else -1 for bracket in _BRACKETS.findall(_STRING.sub(b"", body)))
    return max(itertools.accumulate(steps), default=0)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def read_idempotency_key(text: str | None) -> str | None:
    if text is not None and not (0 < len(text) <= MAX_IDEMPOTENCY_KEY and all("!" <= char <= "~" for char in text)):
        limit = f"must be 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters, such as a UUID"
        raise InvalidArgument("Idempotency-Key", limit)
    return text


def read_page_rows(text: str | None) -> int:
    if text is None:
        return DEFAULT_PAGE_ROWS
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MAX_PAGE_ROWS):
        raise InvalidArgument("rows", f"must be a whole number from 1 to {MAX_PAGE_ROWS}")
    return int(text)
