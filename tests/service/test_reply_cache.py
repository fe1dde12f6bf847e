"""The reply cache: a cached reply is not used after anything that it depends on has changed."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from fractions import Fraction

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.ledger import accounts_of, open_ledger
from sfumato.ledger.api_keys import ApiKeys
from sfumato.session import Session
from tests.helpers.served import TOP, TOTAL, Reply, Served, digest_of
from tests.helpers.worlds import NOW

Serving = Callable[..., Served]


class TestNothingIsStale:
    """A reply that is remembered is gone with whatever it hung on."""

    @pytest.fixture
    def warm(self, serving: Serving) -> Served:
        return serving(version='"daily"')

    def warmed(self, served: Served, key: str) -> Reply:
        """After three of the same, the last came from memory, or could have."""
        *_, last = [served.ask(key) for _ in range(4)]
        assert last.json["receipt"]["repeat"]
        return last

    def test_it_is_remembered_at_all(self, warm: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key = warm.key()
        last = self.warmed(warm, key)
        monkeypatch.setattr(Session, "ask", lambda *_, **__: 1 / 0)
        again = warm.ask(key)
        assert again.lasting == last.lasting

    def test_not_for_another_body_key_or_call(self, warm: Served) -> None:
        key, other = warm.key(), warm.key("ben")
        self.warmed(warm, key)
        assert warm.ask(other).json["receipt"]["charge"] != NOTHING.to_dict()
        assert digest_of(warm.ask(key, {**TOP, "k": 4})) != digest_of(warm.ask(key))
        assert warm.call("POST", "/v1/estimates", key=key, json=TOP).json["charge"]["worst"] == NOTHING.to_dict()
        assert warm.call("GET", "/v1/answers", key=key, json=TOP).status == 405
        assert warm.ask(key, headers={"idempotency-key": "a b"}).status == 400

    def test_a_revoked_key(self, warm: Served) -> None:
        key = warm.key()
        self.warmed(warm, key)
        [known] = warm.keys.list("anna")
        warm.keys.revoke(known.id, warm.clock.now)
        assert warm.ask(key).status == 401

    def test_a_key_that_another_process_revoked(self, warm: Served) -> None:
        key = warm.key()
        self.warmed(warm, key)
        config = warm.session.config
        with open_ledger(config.ledger, config.folder) as other:
            [known] = ApiKeys(other).list("anna")
            ApiKeys(other).revoke(known.id, warm.clock.now)
        assert warm.ask(key).status == 401

    def test_a_key_that_is_revoked_while_it_is_used(self, warm: Served) -> None:
        """A call after the revocation is refused, whatever calls were running."""
        stopped = threading.Event()

        def keep_asking(key: str) -> None:
            while not stopped.is_set():
                warm.ask(key)

        for _ in range(5):
            others = {known.id for known in warm.keys.list()}
            key = warm.key()
            [new] = {known.id for known in warm.keys.list()} - others
            stopped.clear()
            with ThreadPoolExecutor(3) as pool:
                for _ in range(3):
                    pool.submit(keep_asking, key)
                time.sleep(0.02)
                warm.keys.revoke(new, warm.clock.now)
                statuses = [warm.ask(key).status for _ in range(3)]
                stopped.set()
            assert statuses == [401] * 3

    @pytest.mark.parametrize("microseconds", [0, 1, 500_000, 999_999])
    def test_a_key_that_expires(self, warm: Served, microseconds: int) -> None:
        key = warm.key(expires=NOW + timedelta(seconds=90, microseconds=microseconds))
        [known] = warm.keys.list("anna")
        end = known.expires
        assert end is not None
        warm.clock.now = end - timedelta(microseconds=1)
        self.warmed(warm, key)
        warm.clock.now = end
        assert warm.ask(key).status == 401

    def test_a_charge_here(self, warm: Served) -> None:
        key = warm.key()
        before = self.warmed(warm, key).json["receipt"]["left"]
        warm.session.ask(TOTAL, analyst="anna")
        after = warm.ask(key).json["receipt"]["left"]
        assert Fraction(after["information"]) == Fraction(before["information"]) - 1

    def test_a_charge_by_another_process(self, warm: Served) -> None:
        key = warm.key()
        before = self.warmed(warm, key).json["receipt"]["left"]
        with Session(warm.world.path, clock=warm.clock) as other:
            other.ask(TOTAL, analyst="anna")
        after = warm.ask(key)
        assert Fraction(after.json["receipt"]["left"]["information"]) == Fraction(before["information"]) - 1
        assert after.headers["sfumato-left-information"] == after.json["receipt"]["left"]["information"]

    def test_a_charge_before_another_call_with_the_same_key(self, warm: Served) -> None:
        """The other call shows that the key is still valid, and not that the reply is."""
        key = warm.key()
        before = self.warmed(warm, key).json["receipt"]["left"]
        warm.session.ask(TOTAL, analyst="anna")
        assert warm.get("/v1/budget", key).status == 200
        after = warm.ask(key).json["receipt"]["left"]
        assert Fraction(after["information"]) == Fraction(before["information"]) - 1

    def test_a_grant(self, warm: Served) -> None:
        key = warm.key()
        before = self.warmed(warm, key).json["receipt"]["left"]
        config = warm.session.config
        with open_ledger(config.ledger, config.folder) as other:
            other.grant(accounts_of(config, "anna")[0], Charge(7), "more", warm.clock.now)
        after = warm.ask(key).json["receipt"]["left"]
        assert Fraction(after["information"]) == Fraction(before["information"]) + 7

    def test_a_new_data_version(self, warm: Served) -> None:
        key = warm.key()
        warm.clock.now = NOW.replace(hour=23, minute=59, second=59, microsecond=999_999)
        before = self.warmed(warm, key)
        warm.clock.advance(microseconds=1)
        after = warm.ask(key)
        assert digest_of(after) != digest_of(before)
        assert not after.json["receipt"]["repeat"]

    def test_a_new_period(self, serving: Serving) -> None:
        served = serving(resets="daily")
        key = served.key()
        served.clock.now = NOW.replace(hour=23, minute=59, second=59, microsecond=999_999)
        before = self.warmed(served, key).json["receipt"]
        served.clock.advance(microseconds=1)
        after = served.ask(key).json["receipt"]
        assert (before["resets"], after["resets"]) == ("2026-11-16", "2026-11-17")
        assert before["left"] != after["left"] == {"information": "3000", "calls": "100"}

    def test_a_clock_that_goes_back(self, warm: Served) -> None:
        key = warm.key()
        warm.clock.advance(days=1)
        tomorrow = self.warmed(warm, key)
        warm.clock.advance(days=-1)
        assert digest_of(warm.ask(key)) != digest_of(tomorrow)

    def test_a_lost_fence_and_another_ledger(self, warm: Served) -> None:
        key = warm.key()
        self.warmed(warm, key)
        kept = warm.world.fence.read_bytes()
        warm.world.fence.unlink()
        assert warm.ask(key).status == 503
        warm.world.fence.write_bytes(kept)
        assert warm.ask(key).status == 200
        shutil.copy(warm.world.folder / "ledger.db", warm.world.folder / "copy.db")
        (warm.world.folder / "copy.db").replace(warm.world.folder / "ledger.db")
        assert warm.ask(key).status == 503

    def test_a_long_reply_is_not_kept(self, warm: Served) -> None:
        key = warm.key()
        body = json.dumps(TOP).encode() + b" " * (1 << 16)
        for _ in range(3):
            assert warm.call("POST", "/v1/answers", key=key, body=body).status == 200
        assert not warm.app._shortcut.__self__._replies._replies  # type: ignore[attr-defined]
