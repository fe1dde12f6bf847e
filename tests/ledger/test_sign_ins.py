"""Sign-ins to the pages: kept as hashes, with a fixed end, and over in every process when they have ended."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sfumato.config import LedgerSettings
from sfumato.errors import LedgerFailed, LedgerSetBack
from sfumato.ledger import Ledger, open_ledger
from sfumato.ledger.api_keys import ApiKey, ApiKeys
from sfumato.ledger.sign_ins import SignIns
from tests.helpers import postgres

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
HOURS = 8


class SignInsContract:
    """`settings` and `folder` say where the ledger is."""

    settings: LedgerSettings
    folder: Path

    @pytest.fixture(autouse=True)
    def opened(self) -> Iterator[None]:
        self._opened: list[Ledger] = []
        yield
        for ledger in self._opened:
            ledger.close()

    def open(self) -> Ledger:
        """The ledger of this test, as another process would open it."""
        self._opened.append(open_ledger(self.settings, self.folder))
        return self._opened[-1]

    def key(self, ledger: Ledger, expires: datetime | None = None) -> ApiKey:
        return ApiKeys(ledger).create("anna", "analyst", expires, NOW)[1]

    def test_one_that_was_begun_is_found_by_every_process_and_nothing_like_it(self) -> None:
        here, there = self.open(), self.open()
        secret, begun = SignIns(here).begin(self.key(here), HOURS, NOW)
        assert SignIns(here).find(secret, NOW) == SignIns(there).find(secret, NOW) == begun
        assert (begun.analyst, begun.role, begun.began, begun.ends) == (
            "anna",
            "analyst",
            NOW,
            NOW + timedelta(hours=8),
        )
        for near in (secret[:-1], secret + "A", secret.swapcase(), "", "A" * 43, begun.id, f" {secret}"):
            assert SignIns(there).find(near, NOW) is None

    def test_its_secret_is_256_random_bits_of_which_a_hash_is_kept(self) -> None:
        ledger = self.open()
        made = [SignIns(ledger).begin(self.key(ledger), HOURS, NOW) for _ in range(5)]
        assert len({secret for secret, _ in made}) == len({begun.id for _, begun in made}) == 5
        with ledger.reading() as books:
            rows = books.run("SELECT * FROM sign_ins")
            journal = books.run("SELECT note FROM journal")
        held = f"{rows} {journal}"
        for secret, begun in made:
            assert len(base64.urlsafe_b64decode(secret + "=")) == 32
            assert hashlib.sha256(secret.encode()).hexdigest() in held
            assert secret not in held
            assert secret not in repr(begun)

    def test_it_ends_at_its_fixed_end_whatever_was_looked_up(self) -> None:
        ledger = self.open()
        secret, begun = SignIns(ledger).begin(self.key(ledger), HOURS, NOW)
        for minutes in range(0, 480, 60):
            assert SignIns(ledger).find(secret, NOW + timedelta(minutes=minutes)) == begun
        assert SignIns(ledger).find(secret, begun.ends - INSTANT) == begun
        assert SignIns(ledger).find(secret, begun.ends) is None
        assert SignIns(ledger).find(secret, NOW - INSTANT) is None

    def test_looking_up_writes_nothing(self) -> None:
        ledger = self.open()
        secret, _ = SignIns(ledger).begin(self.key(ledger), HOURS, NOW)
        with ledger.reading() as books:
            before = books.head
        SignIns(ledger).find(secret, NOW)
        with ledger.reading() as books:
            assert books.head == before

    def test_it_ends_in_every_process_when_it_is_ended(self) -> None:
        here, there = self.open(), self.open()
        secret, _ = SignIns(here).begin(self.key(here), HOURS, NOW)
        other, kept = SignIns(here).begin(self.key(here), HOURS, NOW)
        SignIns(there).end(secret, NOW)
        assert SignIns(here).find(secret, NOW) is SignIns(there).find(secret, NOW) is None
        assert SignIns(here).find(secret, NOW - timedelta(days=1)) is None
        assert SignIns(here).find(other, NOW) == kept
        with here.reading() as books:
            before = books.head
        SignIns(here).end(secret, NOW)
        SignIns(here).end("nonsense", NOW)
        with here.reading() as books:
            assert books.head == before

    def test_it_ends_with_its_key(self) -> None:
        ledger = self.open()
        expiring, revoked = self.key(ledger, NOW + timedelta(hours=1)), self.key(ledger)
        first, begun = SignIns(ledger).begin(expiring, HOURS, NOW)
        second, _ = SignIns(ledger).begin(revoked, HOURS, NOW)
        assert begun.ends == NOW + timedelta(hours=1)
        assert SignIns(ledger).find(first, NOW + timedelta(hours=1)) is None
        assert SignIns(ledger).find(second, NOW) is not None
        ApiKeys(self.open()).revoke(revoked.id, NOW)
        assert SignIns(ledger).find(second, NOW) is None

    def test_one_without_a_key_is_begun_once_in_all_processes(self) -> None:
        here, there = self.open(), self.open()
        begun = SignIns(here).begin_once("0123456789ab", "anna", "analyst", HOURS, NOW)
        assert begun is not None
        secret, sign_in = begun
        assert (sign_in.id, sign_in.key, sign_in.ends) == ("0123456789ab", None, NOW + timedelta(hours=8))
        assert SignIns(there).find(secret, sign_in.ends - INSTANT) == sign_in
        assert SignIns(there).find(secret, sign_in.ends) is None
        assert SignIns(there).begin_once("0123456789ab", "ben", "owner", HOURS, NOW) is None
        SignIns(there).end(secret, NOW)
        assert SignIns(here).find(secret, NOW) is None
        assert SignIns(here).begin_once("0123456789ab", "anna", "analyst", HOURS, NOW) is None
        assert here.verify() == []

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE sign_ins SET ended = NULL",
            "UPDATE sign_ins SET role = 'owner'",
            "UPDATE sign_ins SET analyst = 'ben'",
            "UPDATE sign_ins SET ends = '2999-01-01T00:00:00.000000+00:00'",
            "UPDATE sign_ins SET hash = 'ff'",
            "DELETE FROM sign_ins",
        ],
    )
    def test_a_change_behind_the_ledgers_back_is_named(self, change: str) -> None:
        ledger = self.open()
        secret, begun = SignIns(ledger).begin(self.key(ledger), HOURS, NOW)
        SignIns(ledger).end(secret, NOW)
        assert ledger.verify() == []
        with ledger.writing() as books:
            books.run(change)
        assert ledger.verify()[:1] == [f"the sign-in {begun.id} is not as it was begun or ended"]

    @pytest.mark.parametrize(
        "change", ["UPDATE sign_ins SET ended = NULL", "DELETE FROM sign_ins WHERE ended IS NOT NULL"]
    )
    def test_a_table_that_lost_an_end_is_refused_and_recovered(self, change: str) -> None:
        ledger = self.open()
        secret, _ = SignIns(ledger).begin(self.key(ledger), HOURS, NOW)
        other, _ = SignIns(ledger).begin(self.key(ledger), HOURS, NOW)
        SignIns(ledger).end(secret, NOW)
        with ledger.writing() as books:
            books.run(change)
        for call in (lambda: SignIns(ledger).find(other, NOW), lambda: SignIns(ledger).end(other, NOW), ledger.check):
            with pytest.raises(LedgerSetBack, match="sign-ins were ended"):
                call()
        assert [row.kind for row in ledger.recover([], NOW)] == ["sign-in"]
        again = SignIns(self.open())
        assert (again.find(secret, NOW), again.find(other, NOW) is None) == (None, False)
        assert ledger.verify() == []
        assert ledger.recover([], NOW) == []

    def test_names_are_data(self) -> None:
        ledger = self.open()
        name = "o'hara\"; DROP TABLE sign_ins; -- ? %s ☃"
        _, key = ApiKeys(ledger).create(name, "analyst", None, NOW)
        secret, begun = SignIns(ledger).begin(key, HOURS, NOW)
        assert SignIns(ledger).find(secret, NOW) == begun
        assert begun.analyst == name

    def test_of_a_closed_ledger_they_are_refused(self) -> None:
        ledger = self.open()
        secret, _ = SignIns(ledger).begin(self.key(ledger), HOURS, NOW)
        ledger.close()
        with pytest.raises(LedgerFailed):
            SignIns(ledger).find(secret, NOW)


class TestSignInsInSQLite(SignInsContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "ledger"
        self.folder.mkdir()
        self.settings = LedgerSettings("sqlite:books.db", tmp_path / "elsewhere" / "fence")

    def test_they_are_looked_up_through_the_books(self) -> None:
        """An old copy of these does not pass for the ledger."""
        ledger = self.open()
        secret, _ = SignIns(ledger).begin(self.key(ledger), HOURS, NOW)
        assert isinstance(self.settings.fence, Path)
        self.settings.fence.unlink()
        with pytest.raises(LedgerFailed, match="fence"):
            SignIns(ledger).find(secret, NOW)

    def test_recovering_a_restored_copy_ends_all(self, tmp_path: Path) -> None:
        """Which of them were ended since the copy was made is not known."""
        ledger = self.open()
        key = self.key(ledger)
        secret, _ = SignIns(ledger).begin(key, HOURS, NOW)
        ledger.close()
        shutil.copytree(self.folder, tmp_path / "copy")
        again = self.open()
        SignIns(again).end(secret, NOW)
        again.close()
        shutil.rmtree(self.folder)
        shutil.copytree(tmp_path / "copy", self.folder)
        restored = self.open()
        with pytest.raises(LedgerSetBack):
            SignIns(restored).find(secret, NOW)
        assert "sign-in" in {row.kind for row in restored.recover([], NOW)}
        assert SignIns(restored).find(secret, NOW) is None
        assert restored.verify() == []


@pytest.fixture(scope="module")
def shared_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


@pytest.mark.slow
class TestSignInsInPostgreSQL(SignInsContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, shared_url: str) -> None:
        import psycopg

        with psycopg.connect(shared_url) as connection:
            connection.execute("DROP SCHEMA IF EXISTS sfumato CASCADE")
        self.folder = tmp_path
        self.settings = LedgerSettings(shared_url, tmp_path / "elsewhere" / "fence")
