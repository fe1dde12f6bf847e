"""A changed `sfumato.toml` is taken while the service runs; one that makes no sense changes nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sfumato.accounting import NOTHING
from sfumato.config import load_config
from sfumato.errors import ConfigError, NeedsRestart, NotFound
from sfumato.ledger.policy_trail import policy_changes
from sfumato.service.app import create_app
from sfumato.service.reload import PolicyWatch
from sfumato.session import Session
from tests.helpers.served import TOP, Served
from tests.helpers.worlds import NOW, new_world

OWN_FIELDS = {"at", "level", "logger", "event"}
ZOE = '\n[analysts.zoe]\nbudget = "partner"\n'


class Watched:
    """A service whose file is watched by hand."""

    def __init__(self, served: Served) -> None:
        self.served, self.path = served, served.world.path
        self.text = self.path.read_text()
        app = create_app(served.session, str(self.path), load_config(self.path))
        served.app, self.taken = app, list[Session]()
        self.watch: PolicyWatch = next(
            cell.cell_contents
            for cell in app._app.router.lifespan_context.__wrapped__.__closure__  # type: ignore[attr-defined]
            if isinstance(cell.cell_contents, PolicyWatch)
        )

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.watch.reload()


@pytest.fixture
def watched(serving: Callable[..., Served]) -> Watched:
    return Watched(serving())


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    caplog.set_level(logging.INFO, "sfumato.service")
    return lambda: [{"event": each.getMessage(), **getattr(each, "fields", {})} for each in caplog.records]


def test_a_new_analyst_is_known_and_an_old_one_can_go(watched: Watched) -> None:
    served = watched.served
    key = served.keys.create("zoe", "analyst", None, served.clock.now)[0]
    assert served.ask(key).status == 401
    watched.write(watched.text + ZOE)
    assert served.ask(key).status == 200
    assert served.ask(key).json["receipt"]["repeat"]
    watched.write(watched.text)
    assert served.ask(key).status == 401


def test_the_change_is_in_the_trail(watched: Watched) -> None:
    before = len(policy_changes(watched.served.session.ledger))
    watched.write(watched.text + ZOE)
    latest, *earlier = policy_changes(watched.served.session.ledger)
    assert len(earlier) == before
    assert {"analysts.zoe.budget"} <= {change.setting for change in latest.changes}
    watched.watch.reload()
    assert len(policy_changes(watched.served.session.ledger)) == before + 1


def test_fewer_rights_hold_at_once(watched: Watched) -> None:
    """Also for replies that were cached a moment before."""
    served = watched.served
    key = served.key()
    for _ in range(4):
        assert served.ask(key).status == 200
    assert "tables" not in watched.text.partition("[analysts.anna]")[2].partition("[")[0]
    watched.write(watched.text.replace("[analysts.anna]", "[analysts.anna]\nwhere = \"region = 'emea'\""))
    assert served.ask(key).json["receipt"]["charge"] != NOTHING.to_dict()
    watched.write(watched.text.replace("[analysts.anna]", "[analysts.anna]\ntables = []"))
    assert served.ask(key).status == 404


def test_no_cached_reply_outlives_its_policy(watched: Watched) -> None:
    """Also where the change is none that the trail records, and the ledger does not change with it."""
    served = watched.served
    key, changes = served.key(), policy_changes(served.session.ledger)
    assert [served.ask(key).json["receipt"]["mechanism"] for _ in range(4)] == ["unknown_gumbel"] * 4
    watched.write(watched.text.replace('article = { domain = "unknown" }', 'article = { domain = ["article-1"] }'))
    assert policy_changes(served.session.ledger) == changes
    assert served.ask(key).json["receipt"]["mechanism"].startswith("known_")


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (lambda text: text + "\n[analysts.zoe]\nbudget = 'hunter2'\n", "analysts.zoe.budget"),
        (lambda text: text + "\n[analysts.zoe\n", "sfumato.toml"),
        (
            lambda text: text + "\n[analysts.zoe]\nbudget = 'partner'\nwhere = \"secret = 'hunter2'\"\n",
            "analysts.zoe.where",
        ),
        (
            lambda text: text.replace("[tables.engagements.columns]", "[tables.engagements.columns]\nnope = {}"),
            "tables",
        ),
        (lambda text: "", ""),
    ],
    ids=["name", "toml", "where", "schema", "empty"],
)
def test_a_bad_file_keeps_the_policy_and_the_log_says_which_setting(
    watched: Watched, log: Callable[[], list[dict[str, Any]]], change: Callable[[str], str], setting: str
) -> None:
    key, before = watched.served.key(), policy_changes(watched.served.session.ledger)
    watched.write(change(watched.text))
    assert watched.served.ask(key).status == 200
    assert policy_changes(watched.served.session.ledger) == before
    [entry] = [each for each in log() if "not taken" in each["event"]]
    assert entry["setting"].startswith(setting)
    last_line = len(watched.path.read_text().splitlines())
    where = {"sfumato.toml": (last_line, len("[analysts.zoe") + 1)}
    assert (entry.get("line"), entry.get("column")) == where.get(setting, (None, None))
    assert entry.keys() & OWN_FIELDS == {"event"}, "the log line has these already"
    assert "hunter2" not in str(log())
    watched.write(watched.text + ZOE)
    assert log()[-1]["event"] == "policy taken"


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (lambda text: text.replace("[service]", "[service]\nport = 9999"), "service"),
        (lambda text: text.replace("sqlite:ledger.db", "sqlite:other.db"), "ledger"),
        (lambda text: text + '\n[engines.other]\ntype = "duckdb"\ndatabase = "rows.duckdb"\n', "engines"),
        (lambda text: text.replace('source = "engagements"', 'source = "other"'), "tables.engagements"),
    ],
    ids=["service", "ledger", "engines", "source"],
)
def test_what_needs_a_restart_is_not_taken(
    watched: Watched, log: Callable[[], list[dict[str, Any]]], change: Callable[[str], str], setting: str
) -> None:
    text = change(watched.text)
    assert text != watched.text
    watched.write(text + ZOE)
    [entry] = [each for each in log() if "not taken" in each["event"]]
    assert (entry["setting"], "restart it" in entry["hint"]) == (setting, True)
    with pytest.raises(NotFound):
        watched.watch._session.config.analyst("zoe")


def test_a_call_ends_under_the_policy_it_began_with(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    session, begun, may_end = watched.served.session, threading.Event(), threading.Event()
    engine = session._catalog.engine("engagements")
    run = type(engine).run

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert may_end.wait(30)
        return run(*arguments, **options)

    monkeypatch.setattr(type(engine), "run", slow)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(watched.served.ask(key)))
    key = watched.served.key("ben")
    thread.start()
    assert begun.wait(30)
    watched.write(watched.text.replace("[analysts.ben]", "[analysts.ben]\ntables = []"))
    may_end.set()
    thread.join(30)
    assert answers[0].status == 200
    assert watched.served.ask(key).status == 404


def test_only_a_file_at_rest_is_read(watched: Watched, log: Callable[[], list[dict[str, Any]]]) -> None:
    watch = watched.watch
    watch.look()
    watch.look()
    assert log() == []
    watched.path.write_text(watched.text + "\n[analysts.zoe]")
    watch.look()
    watched.path.write_text(watched.text + ZOE)
    watch.look()
    assert log() == []
    watch.look()
    assert [each["event"] for each in log()] == ["policy taken"]
    watch.look()
    watched.path.touch()
    watch.look()
    watch.look()
    assert len(log()) == 1
    watch.hurry()
    watch.look()
    assert len(log()) == 2


def test_a_file_that_is_gone_keeps_the_policy(watched: Watched, log: Callable[[], list[dict[str, Any]]]) -> None:
    watched.path.unlink()
    watched.watch.look()
    watched.watch.look()
    assert watched.served.ask(watched.served.key()).status == 200


def test_a_new_tenant_brings_padding(serving: Callable[..., Served]) -> None:
    served = serving(service={"pad_ms": 0, "rate_per_minute": 0})
    served.world.path.write_text(served.world.path.read_text().replace("pad_ms = 0\n", ""))
    config = load_config(served.world.path)
    app = create_app(served.session)
    app.take(config)
    assert app._pad_ms == config.pad_ms > 0


class TestSession:
    @pytest.fixture
    def session(self, tmp_path: Any) -> Iterator[Session]:
        with new_world(tmp_path / "world").open() as opened:
            yield opened

    def test_both_ask_over_one_ledger(self, session: Session) -> None:
        path = session.config.folder / "sfumato.toml"
        path.write_text(path.read_text() + ZOE)
        other = session.under(load_config(path))
        first = other.ask(TOP, analyst="zoe")
        assert session.ask(TOP, analyst="anna").rows == first.rows
        assert other.budget("zoe").accounts[0].spent == first.receipt.charge
        with pytest.raises(NotFound):
            session.ask(TOP, analyst="zoe")

    def test_another_table_needs_a_restart(self, session: Session) -> None:
        path = session.config.folder / "sfumato.toml"
        table = path.read_text().partition("[tables.engagements]")[2].partition("\n[budgets")[0]
        path.write_text(path.read_text() + "\n[tables.more]" + table.replace("tables.engagements", "tables.more"))
        with pytest.raises(NeedsRestart, match=r"tables\.more"):
            session.under(load_config(path))
        assert session.ask(TOP, analyst="anna").rows

    def test_a_policy_that_does_not_fit_is_refused_and_the_engines_stay_open(self, session: Session) -> None:
        path = session.config.folder / "sfumato.toml"
        path.write_text(
            path.read_text().replace("[tables.engagements.columns]", "[tables.engagements.columns]\nx = {}")
        )
        before = policy_changes(session.ledger)
        with pytest.raises(ConfigError):
            session.under(load_config(path))
        assert policy_changes(session.ledger) == before
        assert session.ask(TOP, analyst="anna").receipt.data_version
        assert session.now() >= NOW
