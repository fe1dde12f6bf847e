"""The outermost layer: padding of response times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.service import middleware
from tests.helpers.served import TOP, UNKNOWN, Reply, Served, digest_of

Serving = Callable[..., Served]


@pytest.mark.slow
class TestPadding:
    @pytest.mark.parametrize("late", [0.0, 0.093])
    @pytest.mark.parametrize("took", [0.001, 0.0999, 0.1001, 0.25, 7.77])
    def test_every_reply_begins_at_a_multiple(
        self, serving: Serving, monkeypatch: pytest.MonkeyPatch, took: float, late: float
    ) -> None:
        """Measured from the end of the body: a late body must not cancel the padding."""
        served = serving(service={"rate_per_minute": 0, "pad_ms": 100, "max_request_bytes": 2000})
        key, foreign = served.key(), served.key("ben")
        digest = digest_of(served.ask(foreign))
        ticks: dict[str, Any] = {"now": 0.0, "slept": 0.0, "waits": 0}

        def now() -> float:
            ticks["now"] += took
            return float(ticks["now"])

        async def sleep(seconds: float) -> None:
            assert 0 <= seconds <= 0.1 + 1e-9
            ticks["now"] += seconds
            ticks["slept"], ticks["waits"] = ticks["now"], ticks["waits"] + 1

        loop = SimpleNamespace(time=now)
        faked = SimpleNamespace(get_running_loop=lambda: loop, sleep=sleep, timeout=asyncio.timeout)
        monkeypatch.setattr(middleware, "asyncio", faked)
        received = middleware._read_body

        async def slowly(*arguments: Any) -> bytes:
            body = await received(*arguments)
            ticks["now"] += late
            return body

        monkeypatch.setattr(middleware, "_read_body", slowly)
        calls: list[Callable[[], Reply]] = [
            lambda: served.ask(key),
            *([lambda: served.ask(key)] * 3),
            lambda: served.ask(key, {**TOP, "by": "x"}),
            lambda: served.ask("x"),
            lambda: served.get(f"/v1/answers/{digest}", key),
            lambda: served.get(f"/v1/answers/{UNKNOWN}", key),
            lambda: served.get("/v1/nope", key),
            lambda: served.get("/v1/budget", key),
            lambda: served.call("DELETE", "/v1/budget"),
            lambda: served.call("POST", "/v1/answers", body=b"x" * 2001),
        ]
        for at, call in enumerate(calls, start=1):
            ticks["now"] = 0.0
            call()
            assert ticks["waits"] == at
            # Looked at on arrival, and again when the whole body is there, which that of the last call never is.
            began = took if at == len(calls) else 2 * took + late
            past = (ticks["slept"] - began) / 0.1
            assert abs(past - round(past)) < 1e-6
            assert round(past) >= 1

    def test_other_paths_do_not_wait(self, serving: Serving) -> None:
        served = serving(service={"rate_per_minute": 0, "pad_ms": 60_000})
        assert served.get("/healthz").status == 200
