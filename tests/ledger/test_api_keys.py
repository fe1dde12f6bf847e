"""Keys of the service: shown once, kept as hashes, valid until they expire or are revoked, in every store."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from sfumato.config import LedgerSettings
from sfumato.errors import InvalidArgument, LedgerFailed, LedgerSetBack, NotFound
from sfumato.ledger import Ledger, open_ledger
from sfumato.ledger.api_keys import ApiKey, ApiKeys
from sfumato.wire import KeyRow
from tests.helpers import postgres

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1000)
INSTANT = timedelta(microseconds=1)


class KeysContract:
    """`settings` and `folder` say where the ledger is."""

    settings: LedgerSettings
    folder: Path

    @pytest.fixture(autouse=True)
    def opened(self) -> Iterator[None]:
        self._opened: list[Ledger] = []
        yield
        for ledger in self._opened:
            ledger.close()

    def make(self) -> ApiKeys:
        """The keys of this test's ledger, as another process would open it."""
        self._opened.append(open_ledger(self.settings, self.folder))
        return ApiKeys(self._opened[-1])

    def test_a_new_key_is_found_and_nothing_like_it(self):
        keys = self.make()
        text, key = keys.create("anna", "analyst", None, NOW)
        keys.create("ben", "owner", None, NOW)
        assert keys.find(text, NOW) == key
        assert (key.analyst, key.role, key.created, key.expires, key.revoked) == ("anna", "analyst", NOW, None, None)
        other = "A" if text[-1] != "A" else "B"
        for near in (text[:-1], text + "A", text[:-1] + other, text.swapcase(), text + "\n", f" {text}", "", key.id):
            assert keys.find(near, NOW) is None

    def test_a_key_is_256_random_bits(self):
        keys = self.make()
        made = [keys.create("anna", "analyst", None, NOW) for _ in range(20)]
        for text, key in made:
            assert re.fullmatch(r"sfumato_[A-Za-z0-9_-]{43}", text)
            assert len(base64.urlsafe_b64decode(text.removeprefix("sfumato_") + "=")) == 32
            assert re.fullmatch(r"[0-9a-f]{12}", key.id)
            assert key.prefix == text[:12]
        assert len({text for text, _ in made}) == len({key.id for _, key in made}) == 20

    def test_of_a_key_only_its_hash_is_kept(self):
        keys = self.make()
        text, key = keys.create("anna", "analyst", None, NOW)
        with self._opened[0]._store.reading() as run:
            [(found,)] = run("SELECT hash FROM keys")
            [row] = run("SELECT * FROM keys")
        assert found == hashlib.sha256(text.encode()).hexdigest()
        assert not any(text[12:] in str(column) for column in row)
        assert found not in repr(key)
        assert found not in str(KeyRow.of_key(key).to_dict())

    def test_a_key_as_a_record(self):
        _, key = self.make().create("anna", "auditor", date(2026, 12, 31), NOW)
        assert KeyRow.of_key(key).to_dict() == {
            "id": key.id,
            "prefix": key.prefix,
            "analyst": "anna",
            "role": "auditor",
            "created": "2026-11-15T12:00:00.000000+00:00",
            "expires": "2027-01-01T00:00:00.000000+00:00",
            "revoked": None,
        }

    @pytest.mark.parametrize(
        ("expires", "end"),
        [
            (date(2026, 12, 31), datetime(2027, 1, 1, tzinfo=UTC)),
            (date(2026, 11, 15), datetime(2026, 11, 16, tzinfo=UTC)),  # today, to its end
            (NOW + INSTANT, NOW + INSTANT),
            (datetime(2026, 12, 1, 3, tzinfo=timezone(timedelta(hours=2))), datetime(2026, 12, 1, 1, tzinfo=UTC)),
        ],
    )
    def test_a_key_is_valid_until_the_moment_it_expires(self, expires: date, end: datetime):
        keys = self.make()
        text, key = keys.create("anna", "analyst", expires, NOW)
        assert key.expires == end
        assert keys.find(text, end - INSTANT) == key
        assert keys.find(text, end) is None
        assert keys.find(text, end + INSTANT) is None
        assert keys.find(text, LATER) is None
        assert [key.state(moment) for moment in (end - INSTANT, end)] == ["valid", "expired"]

    def test_a_key_without_an_end_does_not_expire(self):
        keys = self.make()
        text, key = keys.create("anna", "analyst", None, NOW)
        assert keys.find(text, datetime.max.replace(tzinfo=UTC)) == key

    @pytest.mark.parametrize(
        ("expires", "words"),
        [
            (date(2026, 11, 14), "is in the past"),
            (NOW, "is in the past"),
            (NOW - INSTANT, "is in the past"),
            (datetime(2026, 12, 1), "must carry a time zone"),
            (date.max, "is too far away"),
            (datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))), "is too far away"),
        ],
    )
    def test_senseless_ends(self, expires: date, words: str):
        keys = self.make()
        with pytest.raises(InvalidArgument, match=f"expires: {words}"):
            keys.create("anna", "analyst", expires, NOW)
        assert keys.list() == ()

    def test_senseless_people(self):
        with pytest.raises(InvalidArgument, match="analyst"):
            self.make().create("", "analyst", None, NOW)
        with pytest.raises(InvalidArgument, match="role: must be one of analyst, reader, owner, auditor"):
            self.make().create("anna", "root", None, NOW)

    def test_a_revoked_key_is_refused_at_once_and_in_every_process(self):
        here, there = self.make(), self.make()
        text, key = here.create("anna", "analyst", None, NOW)
        other, kept = here.create("anna", "analyst", None, NOW)
        assert there.find(text, NOW) == key
        revoked = there.revoke(key.id, NOW)
        assert (revoked.id, revoked.revoked, revoked.state(NOW)) == (key.id, NOW, "revoked")
        assert here.find(text, NOW) is there.find(text, NOW) is None
        assert here.find(text, NOW - timedelta(days=1)) is None  # whatever the clock says
        assert here.find(other, NOW) == there.find(other, NOW) == kept

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE keys SET revoked = NULL",
            "UPDATE keys SET role = 'owner'",
            "UPDATE keys SET analyst = 'ben'",
            "UPDATE keys SET expires = NULL",
            "UPDATE keys SET hash = 'ff'",
            "DELETE FROM keys",
        ],
    )
    def test_a_change_behind_the_ledgers_back_is_named(self, change: str):
        keys = self.make()
        _, key = keys.create("anna", "analyst", NOW + timedelta(days=1), NOW)
        keys.revoke(key.id, NOW)
        [ledger] = self._opened
        assert ledger.verify() == []
        with ledger.writing() as books:
            books.run(change)
        assert ledger.verify()[:1] == [f"the API key {key.id} is not as it was created or revoked"]

    @pytest.mark.parametrize("change", ["UPDATE keys SET revoked = NULL", "DELETE FROM keys WHERE revoked IS NOT NULL"])
    def test_keys_that_lost_a_revocation_are_refused_and_recovered(self, change: str):
        keys = self.make()
        text, key = keys.create("anna", "analyst", None, NOW)
        other, _ = keys.create("ben", "analyst", None, NOW)
        keys.revoke(key.id, NOW)
        [ledger] = self._opened
        with ledger.writing() as books:
            books.run(change)
        for call in (lambda: keys.find(other, NOW), lambda: keys.revoke(key.id, NOW), ledger.check):
            with pytest.raises(LedgerSetBack, match="API keys were revoked"):
                call()
        with pytest.raises(LedgerSetBack):
            self.make().list()
        assert [row.kind for row in ledger.recover([], NOW)] == ["key"]
        again = self.make()
        assert (again.find(text, NOW), again.find(other, NOW) is None) == (None, False)
        assert ledger.verify() == []
        assert ledger.recover([], NOW) == []

    def test_revoking_again_changes_nothing(self):
        keys = self.make()
        _, key = keys.create("anna", "analyst", None, NOW)
        assert keys.revoke(key.id, NOW) == keys.revoke(key.id, LATER) == keys.list()[0]

    def test_an_unknown_id_is_refused_with_the_nearest(self):
        keys = self.make()
        text, key = keys.create("anna", "analyst", None, NOW)
        with pytest.raises(NotFound, match=rf"there is no key with the id '{key.id[:-1]}'; did you mean {key.id}\?"):
            keys.revoke(key.id[:-1], NOW)
        for spelling in (text, key.prefix):
            with pytest.raises(NotFound) as told:
                keys.revoke(spelling, NOW)
            assert "by its id" in str(told.value)
            assert spelling not in str(told.value)
        assert keys.find(text, NOW) == key

    def test_keys_are_listed_with_the_oldest_first(self):
        keys = self.make()
        moments = [NOW + timedelta(days=days) for days in (3, 1, 2)]
        made = [keys.create(f"anna{moment.day % 2}", "analyst", None, moment)[1] for moment in moments]
        assert keys.list() == tuple(sorted(made, key=lambda key: key.created))
        assert keys.list("anna0") == tuple(key for key in keys.list() if key.analyst == "anna0") != ()
        assert keys.list("nobody") == ()

    def test_names_are_data(self):
        keys = self.make()
        name = "o'hara\"; DROP TABLE keys; -- ? %s ☃"
        text, key = keys.create(name, "analyst", None, NOW)
        assert keys.find(text, NOW) == key == keys.list(name)[0]

    def test_keys_of_a_closed_ledger_are_refused(self):
        keys = self.make()
        text, _ = keys.create("anna", "analyst", None, NOW)
        self._opened[0].close()
        with pytest.raises(LedgerFailed):
            keys.find(text, NOW)


class TestKeysInSQLite(KeysContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "ledger"
        self.folder.mkdir()
        self.settings = LedgerSettings("sqlite:books.db", tmp_path / "elsewhere" / "fence")

    def test_a_key_is_nowhere_in_the_files(self):
        """Neither as text nor as bytes; its prefix, which is in all of them, shows that one could see it."""
        keys = self.make()
        made = [keys.create("anna", "analyst", None, NOW) for _ in range(5)]
        for text, key in made:
            keys.find(text, NOW)
            keys.revoke(key.id, NOW)
        held = b"".join(file.read_bytes() for file in self.folder.iterdir())
        assert {file.name for file in self.folder.iterdir()} >= {"books.db", "books.db-wal"}
        for text, key in made:
            secret = base64.urlsafe_b64decode(text.removeprefix("sfumato_") + "=")
            assert key.prefix.encode() in held
            for form in (text.encode(), text[12:].encode(), text[-12:].encode(), secret, secret.hex().encode()):
                assert form not in held

    def test_what_costs_a_look(self, monkeypatch: pytest.MonkeyPatch):
        """A call with nonsense costs none; an unknown key costs what a known, an expired or a revoked one does."""
        keys = self.make()
        looks: Counter[str] = Counter()
        real = Ledger.reading

        def counted(self: Ledger) -> object:
            looks["all"] += 1
            return real(self)

        known, expired, revoked = (keys.create("anna", "analyst", date(2026, 12, 31), NOW) for _ in range(3))
        keys.revoke(revoked[1].id, NOW)
        monkeypatch.setattr(Ledger, "reading", counted)
        unknown = "sfumato_" + 43 * "A"
        for text, moment, cost in (
            *((known[0], NOW, 1), (expired[0], LATER, 1), (revoked[0], NOW, 1), (unknown, NOW, 1)),
            *(("nonsense", NOW, 0), (known[0][:-1], NOW, 0), (known[0] + "=", NOW, 0), ("é" * 51, NOW, 0)),
        ):
            looks.clear()
            keys.find(text, moment)
            assert looks["all"] == cost, text

    def test_a_restored_copy_brings_no_revoked_key_back(self):
        """Keys are looked up through the books, which an old copy does not pass for."""
        keys = self.make()
        text, _ = keys.create("anna", "analyst", None, NOW)
        assert self.settings.fence is not None
        self.settings.fence.unlink()
        with pytest.raises(LedgerFailed, match="fence"):
            keys.find(text, NOW)


@pytest.fixture(scope="module")
def shared_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


@pytest.mark.slow
class TestKeysInPostgreSQL(KeysContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, shared_url: str) -> None:
        import psycopg

        with psycopg.connect(shared_url) as connection:
            connection.execute("DROP SCHEMA IF EXISTS sfumato CASCADE")
        self.folder = tmp_path
        self.settings = LedgerSettings(shared_url, tmp_path / "elsewhere" / "fence")


def test_states():
    key = ApiKey("id", "sfumato_abcd", "anna", "analyst", NOW, NOW + INSTANT, NOW)
    assert key.state(LATER) == "revoked"
