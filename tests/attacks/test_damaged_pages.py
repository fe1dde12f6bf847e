"""A service on a ledger with a damaged page: every call ends in a documented reply, and no stored answer changes.

Readiness reads few pages. So a page that it does not read may be damaged while it says yes.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import LedgerFailed
from tests.helpers.repeats import repeats
from tests.helpers.served import REGIONS, TOP, TOTAL, Reply, Served, digest_of, new_served

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("damage_is_named")]

PAGE = 4096
ONCE = {"idempotency-key": "once"}
EXPECTED = {200, 401, 404, 422, 503}  # a key of the service, an answer or a call can be lost


@dataclass
class Story:
    """A service that has some of everything in its ledger, what it said, and its ledger's file."""

    served: Served
    whole: bytes = b""
    fence: bytes = b""
    calls: dict[str, Callable[[Served], Reply]] = field(default_factory=dict)
    said: dict[str, Reply] = field(default_factory=dict)
    spent: Charge = NOTHING

    @property
    def file(self) -> Path:
        return self.served.world.folder / "ledger.db"

    def put(self, content: bytes) -> None:
        self.file.write_bytes(content)
        self.served.world.fence.write_bytes(self.fence)
        for name in ("ledger.db-wal", "ledger.db-shm"):
            self.file.with_name(name).unlink(missing_ok=True)

    def reopen(self, portal: BlockingPortal) -> Served:
        return Served(self.served.world, portal, self.served.clock)


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


def calls_of(key: str, owner: str, digest: str) -> dict[str, Callable[[Served], Reply]]:
    reads = ("/v1/budget", "/v1/budget/charges?rows=1000", "/v1/tables", "/v1/me", "/v1/guarantee")
    return {
        "repeat": lambda served: served.ask(key, TOP),
        "call again": lambda served: served.ask(key, REGIONS, headers=ONCE),
        "recall": lambda served: served.get(f"/v1/answers/{digest}", key),
        "report": lambda served: served.report(key),
        "estimate": lambda served: served.call("POST", "/v1/estimates", key=key, json=TOTAL),
        "stored by another": lambda served: served.ask(owner, TOP),
        "new": lambda served: served.ask(key, TOTAL),
        "usage": lambda served: served.get("/v1/admin/usage", owner),
        **{path: lambda served, path=path: served.get(path, key) for path in reads},
        "readyz": lambda served: served.get("/readyz"),
    }


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Story:
    served = new_served(tmp_path_factory.mktemp("pages") / "world", portal, ads=True)
    story = Story(served)
    key, owner = served.key(), served.key("omar")
    for number in range(30):
        served.ask(key, {**TOTAL, "where": {"n": {"ne": number}}})
        served.keys.revoke(served.keys.create("ben", "analyst", None, served.clock.now)[1].id, served.clock.now)
    digest = digest_of(served.ask(key, TOP))
    served.ask(key, REGIONS, headers=ONCE)
    served.report(key)
    story.spent = served.spent()
    served.session.close()
    with closing(sqlite3.connect(story.file)) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    story.whole, story.fence = story.file.read_bytes(), served.world.fence.read_bytes()
    story.calls = calls_of(key, owner, digest)
    again = story.reopen(portal)
    story.said = {name: call(again) for name, call in story.calls.items()}
    assert {reply.status for reply in story.said.values()} == {200}
    again.session.close()
    return story


def damaged(page: bytes, whole: bytes, dice: random.Random) -> bytes:
    other = PAGE * dice.randrange(len(whole) // PAGE)
    fillings = bytes(PAGE), b"\xff" * PAGE, dice.randbytes(PAGE), whole[other : other + PAGE]
    return dice.choice((*fillings, page[:100] + bytes(PAGE - 100), bytes(PAGE // 2) + page[PAGE // 2 :]))


@pytest.mark.parametrize("live", [True, False], ids=["while it runs", "before it starts"])
@pytest.mark.parametrize("seed", range(repeats(8, 400)))
def test_every_reply_is_documented_and_no_answer_changes(
    seed: int, live: bool, story: Story, portal: BlockingPortal
) -> None:
    dice = random.Random(seed)
    at = PAGE * dice.randrange(len(story.whole) // PAGE)
    spoilt = damaged(story.whole[at : at + PAGE], story.whole, dice)
    story.put(story.whole if live else story.whole[:at] + spoilt + story.whole[at + PAGE :])
    try:
        served = story.reopen(portal)
    except LedgerFailed:
        return
    try:
        if live:
            with story.file.open("r+b") as file:
                file.seek(at)
                file.write(spoilt)
        for name in dice.sample([*story.calls], len(story.calls)):
            reply = story.calls[name](served)
            assert reply.status in EXPECTED, (name, reply.status, reply.body)
            assert reply.kind != "failed", (name, reply.body)
            if reply.status == 200 and name in ("repeat", "call again", "recall", "report"):
                assert reply.json["rows"] == story.said[name].json["rows"], name
            if reply.status == 200 and name == "/v1/budget":
                assert story.spent <= Charge.from_dict(reply.json["accounts"][0]["spent"])
    finally:
        served.session.close()
