"""What every fence keeps, wherever it is."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from sfumato.accounting import Charge
from sfumato.errors import LedgerFailed, LedgerSetBack
from sfumato.ledger.fence import Fence, Mark, SpentTotal
from sfumato.ledger.store import LIMITS, Limits

NOVEMBER = "2026-11-01"


def mark(sequence: int, /, ledger: str = "ledger", **spent: int | Charge) -> Mark:
    charges = {name: amount if isinstance(amount, Charge) else Charge(amount) for name, amount in spent.items()}
    totals = {name: SpentTotal(NOVEMBER, charge) for name, charge in charges.items()}
    return Mark(ledger, sequence, f"head {sequence}", totals)


class FenceContract:
    """`make` opens the fence in this test's place, as another process would; `lose` removes it."""

    def make(self) -> Fence:
        raise NotImplementedError

    def lose(self) -> None:
        raise NotImplementedError

    @pytest.fixture
    def begun(self) -> Fence:
        fence = self.make()
        fence.restart(mark(0))
        return fence

    def test_where_there_is_none_there_is_no_mark(self):
        assert self.make().mark() is None

    def test_marks_count_together_in_any_order(self, begun):
        begun.advance(mark(3, anna=Charge(Fraction(1, 3), 2), acme=9))
        self.make().advance(mark(2, anna=4, bob=1))
        whole = mark(3, anna=Charge(4, 2), acme=9, bob=1)
        assert self.make().mark() == begun.mark() == whole

    def test_a_mark_that_has_not_changed_is_the_same_object(self, begun):
        begun.advance(mark(3, anna=5))
        assert begun.mark() is begun.mark()

    def test_a_first_mark_takes_nothing_back(self, begun):
        begun.advance(mark(3, anna=5))
        self.make().start(mark(0))
        assert begun.mark() == mark(3, anna=5)

    def test_a_fence_that_is_begun_again_forgets(self, begun):
        begun.advance(mark(3, anna=5))
        self.make().restart(mark(1, bob=1))
        assert begun.mark() == mark(1, bob=1)
        begun.advance(mark(2, anna=1))
        assert self.make().mark() == mark(2, anna=1, bob=1)

    def test_another_ledgers_mark_is_refused(self, begun):
        with pytest.raises(LedgerFailed, match="sfumato budget join"):
            begun.advance(mark(9, ledger="another"))
        assert begun.mark() == mark(0)

    def test_one_that_is_gone_is_not_made_again(self, begun):
        begun.advance(mark(3, anna=5))
        self.lose()
        for call in (lambda: begun.advance(mark(3, anna=5)), lambda: begun.advance(mark(4)), begun.check):
            with pytest.raises(LedgerFailed, match="sfumato budget join"):
                call()
        assert self.make().mark() is None

    def test_a_check_changes_no_mark(self, begun):
        begun.advance(mark(3, anna=5))
        for _ in range(3):
            begun.check()
        assert self.make().mark() == mark(3, anna=5)
        begun.advance(mark(4, anna=6))
        assert self.make().mark() == mark(4, anna=6)

    def test_all_that_use_it_see_one_identity(self, begun):
        assert begun.identity() == self.make().identity()
        before = begun.identity()
        begun.advance(mark(3, anna=5))
        begun.restart(mark(4))
        assert self.make().identity() == before

    def test_what_others_wrote_is_checked_before_anything_is_added_to_it(self, begun):
        """Of two copies of a ledger, the second to come writes nothing, even if its journal is longer."""
        asked: list[Mark] = []

        def refuse(found: Mark) -> None:
            asked.append(found)
            raise LedgerSetBack("another copy")

        late = self.make()
        late.advance(mark(1))
        begun.advance(mark(2, anna=5))
        late.check_followed = refuse
        for own in (mark(1), mark(2, anna=5), mark(9, anna=9)):
            with pytest.raises(LedgerSetBack):
                late.advance(own)
        assert asked == [mark(2, anna=5)] * 3
        assert begun.mark() == mark(2, anna=5)

    def test_what_it_wrote_itself_is_not_checked(self, begun):
        begun.advance(mark(1))
        begun.check_followed = pytest.fail
        for sequence in range(2, 5):
            begun.advance(mark(sequence, anna=sequence))
            assert begun.mark() == mark(sequence, anna=sequence)

    def test_many_threads_and_fences_lose_nothing(self, begun):
        fences = [begun, self.make(), self.make()]

        def live(me: int) -> None:
            for turn in range(1, 8):
                fences[me % 3].advance(mark(7 * turn + me, **{f"analyst{me}": turn}))

        with ThreadPoolExecutor(9) as pool:
            list(pool.map(live, range(9)))
        found = self.make().mark()
        assert found.sequence == 57
        assert found.totals == mark(0, **{f"analyst{me}": 7 for me in range(9)}).totals

    @pytest.mark.parametrize("name", ["turn", "_writing", "_mutex"])
    def test_no_wait_for_another_thread_is_endless(self, begun, name, monkeypatch):
        monkeypatch.setitem(LIMITS, "fence", Limits(0.2, 0.2, 0.2))
        lock: threading.Lock = begun._batch.turn if name == "turn" else getattr(begun, name)
        with lock:
            before = time.monotonic()
            with pytest.raises(LedgerFailed, match="in use for too long"):
                begun.advance(mark(1, anna=1))
            assert time.monotonic() - before >= 0.2
        begun.advance(mark(2, anna=2))
        assert self.make().mark() == mark(2, anna=2)
