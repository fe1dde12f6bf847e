"""The outermost layer: padding of response times."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.service import bodies, middleware
from tests.helpers.served import TOP, UNKNOWN, Reply, Served, digest_of

Serving = Callable[..., Served]


@pytest.mark.slow
class TestPadding:
    @pytest.mark.parametrize("late", [0.0, 0.093])
    @pytest.mark.parametrize("took", [0.001, 0.0999, 0.1001, 0.25, 7.77])
    def test_every_reply_begins_at_a_multiple(
        self, serving: Serving, monkeypatch: pytest.MonkeyPatch, took: float, late: float
    ) -> None:
        """Measured from the head, or from the end of a late body, which must not cancel the padding."""
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
        monkeypatch.setattr(middleware, "asyncio", SimpleNamespace(get_running_loop=lambda: loop, sleep=sleep))
        received = bodies.Body._read

        async def read(self: bodies.Body) -> bytes:
            content = await received(self)
            ticks["now"] += late
            ticks["read"] = ticks["now"] + took  # the look at the clock when it is complete
            if late:
                self._on_late()
            return content

        monkeypatch.setattr(bodies.Body, "_read", read)
        monkeypatch.setattr(bodies, "LATE_S", 60.0)
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
            ticks["now"], ticks["read"] = 0.0, None
            call()
            assert ticks["waits"] == at
            # From the arrival of the head; if the body was late, from its end.
            began = ticks["read"] if late and ticks["read"] else took
            past = (ticks["slept"] - began) / 0.1
            assert abs(past - round(past)) < 1e-6
            assert round(past) >= 1

    def test_other_paths_do_not_wait(self, serving: Serving) -> None:
        served = serving(service={"rate_per_minute": 0, "pad_ms": 60_000})
        assert served.get("/healthz").status == 200
