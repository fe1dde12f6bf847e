"""Threads that read the first record of a kind at the same moment."""

from __future__ import annotations

import sys
import threading
from typing import Any

import msgspec
import pytest

from sfumato.accounting import Charge
from sfumato.wire import Record
from tests.helpers import children
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow  # a process

ROUNDS, THREADS = repeats(200, 1000), 16
SERIAL = {"outer": {"inner": {"name": "x", "charge": {"information": "1", "calls": "1"}}}, "amounts": {"a": 1}}
TEXT = msgspec.json.encode(SERIAL)


def new_kind() -> type[Record]:
    """Records that are used for the first time."""
    inner = msgspec.defstruct("Inner", [("name", str), ("charge", Charge)], bases=(Record,), frozen=True)
    outer = msgspec.defstruct("Outer", [("inner", inner)], bases=(Record,), frozen=True)
    kind: Any = msgspec.defstruct("Kind", [("outer", outer), ("amounts", dict[str, int])], bases=(Record,), frozen=True)
    return kind


def read_at_once(way: str) -> int:
    """Read a new kind of record in all threads, again and again. A crash ends this process."""
    sys.setswitchinterval(1e-6)
    read = 0
    for _ in range(ROUNDS):
        kind, together = new_kind(), threading.Barrier(THREADS)

        def first(kind: type[Record] = kind, together: threading.Barrier = together) -> None:
            nonlocal read
            together.wait()
            read += (kind.from_dict(SERIAL) if way == "dict" else kind.from_json(TEXT)).to_dict() == SERIAL

        threads = [threading.Thread(target=first) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return read > 0


@pytest.mark.parametrize("way", ["dict", "json"])
def test_the_process_survives(way: str) -> None:
    assert children.alone(read_at_once, way)
