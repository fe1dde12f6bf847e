"""A service for browsers, with people in every situation that a page speaks about."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
from anyio.from_thread import BlockingPortal

import sfumato as sf
from sfumato.errors import EngineFailed
from tests.helpers.listening import listening
from tests.helpers.served import Served, new_served
from tests.helpers.servers import PATIENCE_S
from tests.helpers.worlds import _BUDGET

TERMS = {"epsilon_per": "0.5", "resets": "monthly", "count_noise": "gaussian"}
# nina may ask about nothing; paul has little; tess is counted and not limited.
SITUATIONS = (
    _BUDGET.format(name="little", information=12, calls=5, mode="enforce", **TERMS)
    + _BUDGET.format(name="counted", information=100, calls=5, mode="track", **TERMS)
    + '[analysts.nina]\nbudget = "partner"\ntables = []\n[analysts.paul]\nbudget = "little"\n'
    '[analysts.tess]\nbudget = "counted"\n'
)


@dataclass
class Stage:
    """A service that listens, and who is signed in to it."""

    served: Served
    url: str
    cookies: dict[str, dict[str, str]] = field(default_factory=dict)

    def cookie(self, analyst: str) -> Mapping[str, str]:
        """That of an analyst who has signed in."""
        if analyst not in self.cookies:
            self.cookies[analyst] = sign_in(self.url, self.served.key(analyst))
        return self.cookies[analyst]


def sign_in(url: str, key: str) -> dict[str, str]:
    headers = {"origin": url}
    reply = httpx2.post(f"{url}/sign-in", data={"key": key, "next": "/"}, headers=headers, timeout=PATIENCE_S)
    assert reply.status_code == 303, reply.text
    return dict(reply.cookies)


@contextmanager
def staged(folder: Path, portal: BlockingPortal, **options: Any) -> Iterator[Stage]:
    served = new_served(folder, portal, **{"console": True, "more": SITUATIONS} | options)
    with listening(served.app) as url:
        yield Stage(served, url)


def publish(stage: Stage) -> None:
    """Put a release of a few rows into the ledger."""
    world = stage.served.world
    rows = world.folder / "rows.csv"
    rows.write_text("person,item\n" + "".join(f"{person},{'ab'[person % 2]}\n" for person in range(400)))
    options: dict[str, Any] = {"unit": "person", "key": "item", "method": "pcr", "rho": 1, "delta": 1e-6}
    sf.release_counts(rows, **options, config=world.path, budget="partner", job="items")


@contextmanager
def engine_fails(stage: Stage) -> Iterator[None]:
    def fail(*_: Any, **__: Any) -> Any:
        raise EngineFailed("the engine could not answer")

    with patch.object(_engine_class(stage), "run", fail):
        yield


@contextmanager
def engine_waits(stage: Stage) -> Iterator[threading.Event]:
    """The engine begins when the event is set; at the end of the block at the latest."""
    go, real = threading.Event(), _engine_class(stage).run

    def run(*arguments: Any, **options: Any) -> Any:
        go.wait(PATIENCE_S)
        return real(*arguments, **options)

    with patch.object(_engine_class(stage), "run", run):
        try:
            yield go
        finally:
            go.set()


def _engine_class(stage: Stage) -> Any:
    return type(stage.served.session._catalog.engine("engagements"))
