"""What owners and auditors see: accounts with their pace, the ledger, releases."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

import sfumato as sf
from sfumato.accounting import Charge
from sfumato.catalog import Catalog
from sfumato.config import load_config
from sfumato.errors import EngineFailed
from sfumato.ledger import Ledger, Standing, verification
from sfumato.ledger.policy_trail import settings_in_force
from sfumato.ledger.types import Actor
from sfumato.ledger.usage import find_dry_day
from sfumato.ledger.verification import Verifications
from sfumato.policy_check import check_policy
from sfumato.wire import AccountStanding
from tests.helpers.served import TOP, Served

Serving = Callable[..., Served]
TODAY = date(2026, 11, 15)


def standing(spent: Charge, resets: date | None = None, reserved: int = 0) -> Standing:
    return Standing("analyst:anna", Charge(100, 10), Charge(), spent, Charge(reserved), resets)


def as_standing(own: AccountStanding) -> Standing:
    return Standing(own.account, own.limit, own.granted, own.spent, own.reserved, own.resets)


class TestPace:
    @pytest.mark.parametrize(
        ("spent", "since", "resets", "dry"),
        [
            (Charge(), date(2026, 11, 1), None, None),
            (Charge(75, 0), date(2026, 11, 1), None, date(2026, 11, 20)),  # 5 a day, 25 left
            (Charge(75, 0), date(2026, 11, 1), date(2026, 12, 1), date(2026, 11, 20)),
            (Charge(75, 0), date(2026, 11, 1), date(2026, 11, 20), None),
            (Charge(10, 9), date(2026, 11, 15), None, date(2026, 11, 16)),  # the calls run dry first
            (Charge(1, 0), date(2026, 11, 1), date(2026, 12, 1), None),
            (Charge(100, 0), date(2026, 11, 1), date(2026, 12, 1), TODAY),
            (Charge(120, 0), date(2026, 11, 15), date(2026, 11, 16), TODAY),  # a budget that is tracked
            (Charge(1, 0), date(1, 1, 1), None, None),  # after the last day that there is
        ],
    )
    def test_a_day(self, spent: Charge, since: date, resets: date | None, dry: date | None) -> None:
        assert find_dry_day(standing(spent, resets), since, TODAY) == dry

    def test_what_is_reserved_counts(self) -> None:
        assert find_dry_day(standing(Charge(30, 0), reserved=30), TODAY, TODAY) == TODAY + timedelta(days=1)


class TestAccounts:
    def test_every_account(self, served: Served) -> None:
        served.ask(served.key("anna"))
        accounts = {row["account"]: row for row in served.get("/v1/admin/accounts", served.key("axel")).json["rows"]}
        for analyst in served.session.config.analysts:
            for own in served.session.budget(analyst).to_dict()["accounts"]:
                assert {name: accounts[own["account"]][name] for name in own} == own
        assert {row["mode"] for row in accounts.values()} == {"enforce"}
        own = served.session.budget("anna").accounts[0]
        dry = find_dry_day(as_standing(own), served.clock.now.date().replace(day=1), served.clock.now.date())
        assert accounts["analyst:anna"]["dry"] == (None if dry is None else dry.isoformat())
        assert accounts["analyst:omar"]["dry"] is None

    def test_one_that_never_resets_counts_from_its_first_charge(self, serving: Serving) -> None:
        served = serving(resets="never")
        key = served.key("anna")
        served.ask(key)
        began = served.clock.now.date()
        served.clock.advance(days=9)
        [row] = [
            row
            for row in served.get("/v1/admin/accounts", served.key("omar")).json["rows"]
            if row["account"] == "analyst:anna"
        ]
        own = served.session.budget("anna").accounts[0]
        today = served.clock.now.date()
        assert row["resets"] is None
        assert (
            row["dry"]
            == find_dry_day(
                Standing(own.account, own.limit, own.granted, own.spent, own.reserved), began, today
            ).isoformat()
        )


class TestLedger:
    def test_its_state(self, served: Served) -> None:
        key = served.key("omar")
        served.ask(key)
        state = served.get("/v1/admin/ledger", key).json
        tables = served.world.tables()
        assert state["rows"] == len(tables["journal"])
        assert (state["reservations"], state["oldest"]) == (0, None)
        assert state["fence"]["kind"] == "file"
        assert 0 < state["fence"]["rows"] <= state["rows"]
        assert str(served.world.path.parent) not in repr(state)

    def test_open_reservations(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        from tests.helpers.served import break_engine

        key = served.key("omar")
        break_engine(served, monkeypatch)
        moment = served.clock.now
        assert served.ask(key, TOP).status == 503
        served.clock.advance(hours=1)
        state = served.get("/v1/admin/ledger", key).json
        assert (state["reservations"], state["oldest"]) == (1, moment.isoformat(timespec="microseconds"))


def wait_for_verifications() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("verification"):
            thread.join(60)


class TestVerification:
    def test_it_is_a_job(self, served: Served) -> None:
        key = served.key("omar")
        served.ask(key)
        assert served.get("/v1/admin/ledger", key).json["verification"] is None
        begun = served.call("POST", "/v1/admin/ledger/verify", key=key)
        assert (begun.status, begun.json["state"], begun.json["problems"]) == (202, "running", [])
        wait_for_verifications()
        state = served.get("/v1/admin/ledger", served.key("axel")).json
        ended = state["verification"]
        assert (ended["state"], ended["problems"]) == ("ended", [])
        assert ended["done"] == ended["of"] > 0
        [own] = served.keys.list("omar")
        assert ended["by"] == {"analyst": "omar", "key": own.id}

    def test_every_problem_in_words(self, served: Served) -> None:
        key = served.key("omar")
        served.ask(key)
        with closing(sqlite3.connect(served.world.folder / served.world.ledger.removeprefix("sqlite:"))) as connection:
            connection.execute("UPDATE answers SET body = body || ' '")
            connection.execute("UPDATE questions SET sql = sql || ' '")
            connection.commit()
        expected = served.session.ledger.verify()
        assert len(expected) == 2
        served.call("POST", "/v1/admin/ledger/verify", key=key)
        wait_for_verifications()
        found = served.get("/v1/admin/ledger", key).json["verification"]
        assert (found["state"], found["problems"]) == ("ended", expected)

    def test_one_at_a_time_and_not_for_ever(self, served: Served) -> None:
        jobs = Verifications(served.session.ledger, served.clock)
        first, is_new = jobs.begin(Actor(user="root"))
        assert is_new
        assert jobs.begin(Actor()) == (first, False)
        assert served.session.verify_ledger().to_dict()["by"] == {"user": "root"}
        served.clock.advance(minutes=11)
        state = served.session.ledger_state().verification
        assert state is not None
        assert state.state == "lost"
        second, is_new = jobs.begin(Actor())
        assert (second.number, is_new) == (first.number + 1, True)
        jobs.run(second)
        latest = jobs.latest()
        assert latest is not None
        assert (latest.number, latest.state(served.clock.now)) == (2, "ended")
        assert served.session.ledger.verify() == []

    def test_it_says_how_far_it_is(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        served.ask(served.key("omar"))
        monkeypatch.setattr(verification, "SIGN_S", 0.0)
        jobs, seen = Verifications(served.session.ledger, served.clock), []
        job, _ = jobs.begin(Actor())
        verify = Ledger.verify

        def watched(ledger: Ledger, progress: Callable[[int, int], None]) -> list[str]:
            def both(done: int, total: int) -> None:
                progress(done, total)
                latest = jobs.latest()
                seen.append(None if latest is None else (latest.done, latest.total))

            return verify(ledger, both)

        monkeypatch.setattr(Ledger, "verify", watched)
        jobs.run(job)
        assert seen
        assert {each for each in seen if each is not None} == {(job.total, job.total)}


class TestPolicy:
    def test_it_is_that_in_force(self, serving: Serving) -> None:
        served = serving(ads=True)
        reply = served.get("/v1/admin/policy", served.key("axel"))
        assert reply.status == 200
        policy = reply.json
        force = settings_in_force(served.session.config)
        hidden = {name for name in force if name.endswith(".source")}
        assert hidden
        assert policy["settings"] == {name: text for name, text in force.items() if name not in hidden}
        assert policy["file"] == served.session.config.digest
        assert {each["setting"] for each in policy["changed"]["changes"]} == force.keys() - hidden

    def test_it_has_no_place_and_no_secret(self, serving: Serving) -> None:
        served = serving(ads=True)
        text = served.get("/v1/admin/policy", served.key("omar")).body.decode()
        config = served.session.config
        for secret in (
            config.key_file.read_bytes().hex(),
            str(config.key_file),
            str(served.world.path.parent),
            config.ledger.url,
        ):
            assert secret not in text

    def test_it_says_what_the_check_says(self, serving: Serving) -> None:
        served = serving(ads=True)
        path = served.world.path
        path.write_text(path.read_text() + '[analysts.wanda]\nbudget = "partner"\nwhere = "n = 3"\n')
        session = served.session.under(load_config(path))
        found = check_policy(session.config, Catalog(session.config), served.clock.now)
        assert found.problems == []
        assert [each.setting for each in found.warnings] == ["analysts.wanda.where"]
        listed = [(each["setting"], each["verdict"], each["text"]) for each in session.policy().to_dict()["checks"]]
        assert listed == [(each.setting, "doubtful", each.problem) for each in found.warnings]

    def test_a_public_table_that_has_changed_is_wrong_now(self, serving: Serving) -> None:
        served = serving(ads=True)
        assert all(each["verdict"] == "doubtful" for each in served.session.policy().to_dict()["checks"])
        engine = served.session._catalog.engine("ads")
        with patch.object(type(engine), "run", side_effect=EngineFailed("away")):
            checks = served.get("/v1/admin/policy", served.key("omar")).json["checks"]
        assert [each["verdict"] for each in checks] == ["wrong"]
        assert "titles could not be read" in checks[0]["text"]


class TestReleases:
    def test_with_their_statements(self, served: Served, tmp_path: Path) -> None:
        config = served.world.path
        rows = tmp_path / "rows.csv"
        rows.write_text("person,item\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(400)))
        given = {"unit": "person", "key": "item", "method": "pcr", "rho": 1, "delta": 1e-6}
        key = served.key("axel")
        assert served.get("/v1/admin/releases", key).json == {"rows": [], "next": None}
        made = [sf.release_counts(rows, **given, config=config, budget="partner", job=f"job-{n}") for n in range(2)]
        page = served.get("/v1/admin/releases?rows=1", key).json
        rest = served.get(f"/v1/admin/releases?rows=1&cursor={page['next']}", key).json
        [latest], [first] = page["rows"], rest["rows"]
        assert (latest["job"], first["job"], rest["next"]) == ("job-1", "job-0", None)
        whole = served.get(f"/v1/admin/releases/{first['digest']}", key).json
        assert whole["statement"] == made[0].statement
        assert {name: whole[name] for name in first} == first
        assert (first["budget"], first["unit"], first["method"]) == ("partner", "person", "pcr")
        spent = {row["account"]: row["spent"] for row in served.get("/v1/admin/accounts", key).json["rows"]}
        both = [sf.Charge.from_dict(each["charges"]["release:partner"]) for each in (latest, first)]
        assert (both[0] + both[1]).to_dict() == spent["release:partner"]

    def test_an_unknown_one_is_not_found(self, shared: Served) -> None:
        key = shared.key("omar")
        assert shared.get("/v1/admin/releases/sha256:0", key).lasting == shared.get("/nope", key).lasting
