"""What tools ask beside their questions, through every door: free, and of the policy alone."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry

from sfumato.accounting import NOTHING
from sfumato.client import dbapi
from tests.helpers.served import Served, break_engine

registry.register("sfumato", "sfumato.client.alchemy", "SfumatoDialect")

COUNT = "SELECT region, COUNT(DISTINCT member_id) FROM engagements GROUP BY region"
FREE = (
    "SELECT 1",
    "SELECT version(), current_schema()",
    "SHOW TABLES",
    "DESCRIBE engagements",
    "SELECT * FROM engagements LIMIT 0",
    f"{COUNT} LIMIT 0",
    "SELECT table_name FROM information_schema.tables",
    "SELECT column_name, data_type, column_default FROM information_schema.columns WHERE table_name = 'engagements'",
    f"EXPLAIN {COUNT}",
)


def transport(served: Served) -> httpx2.MockTransport:
    """The service without a network."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        path = request.url.raw_path.decode()
        kept = [(name, value) for name, value in request.headers.items() if name not in ("host", "connection")]
        reply = served.call(request.method, path, body=request.content or None, headers=kept)
        return httpx2.Response(reply.status, headers=dict(reply.pairs), content=reply.body)

    return httpx2.MockTransport(handle)


@pytest.fixture
def connection(served: Served) -> Iterator[dbapi.Connection]:
    key = served.key()
    with dbapi.connect("http://127.0.0.1", key, transport=transport(served)) as opened:
        yield opened


@pytest.mark.parametrize("statement", FREE)
def test_no_row_is_read_and_nothing_is_charged(served: Served, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_engine(served, monkeypatch)
    reply = served.ask(served.key(), {"sql": statement})
    assert reply.status == 200
    assert reply.json["receipt"]["charge"] == NOTHING.to_dict()
    assert [note["code"] for note in reply.json["notes"]] == ["metadata"]
    estimate = served.call("POST", "/v1/estimates", key=served.key(), json={"sql": statement})
    assert estimate.json["charge"]["worst"] == NOTHING.to_dict()
    assert served.spent() == served.reserved() == NOTHING
    assert served.session.charges("anna").rows == []


def test_explain_gives_the_estimate_as_rows(served: Served) -> None:
    key = served.key()
    bound = {"sql": f"EXPLAIN {COUNT.replace(' GROUP', ' WHERE region = ? GROUP')}", "params": ["emea"]}
    rows = {row["name"]: row["value"] for row in served.ask(key, bound).json["rows"]}
    assert (
        rows == served.session.estimate(COUNT.replace(" GROUP", " WHERE region = 'emea' GROUP"), analyst="anna").lines()
    )
    assert rows["charge"] == "1 unit and 0 calls"
    refused = served.ask(key, {"sql": "EXPLAIN SELECT * FROM engagements"})
    assert (refused.status, refused.kind) == (422, "not-supported")


def test_a_driver_gets_names_and_types(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    cursor.execute("SELECT region AS r, members AS n FROM engagements LIMIT 0")
    assert [column[:2] for column in cursor.description or ()] == [("r", "text"), ("n", "integer")]
    assert cursor.fetchall() == []
    named = (
        "SELECT table_name AS table_type, table_type AS table_name FROM information_schema.tables WHERE table_name = ?"
    )
    cursor.execute(named, ["engagements"])
    assert [column[0] for column in cursor.description or ()] == ["table_type", "table_name"]
    assert cursor.fetchall() == [("engagements", "BASE TABLE")]


def test_sqlalchemy_connects_and_inspects(served: Served) -> None:
    address = f"sfumato://:{served.key()}@127.0.0.1/"
    engine = sa.create_engine(address, connect_args={"transport": transport(served)}, pool_pre_ping=True)
    with engine.connect() as opened:
        assert opened.scalar(sa.select(1)) == 1
        assert opened.scalar(sa.text("SELECT current_schema()")) == sa.inspect(engine).default_schema_name == "main"
        tables = opened.scalars(sa.text("SELECT table_name FROM information_schema.tables ORDER BY 1")).all()
        columns = opened.scalars(
            sa.text(
                "SELECT column_name FROM information_schema.columns WHERE table_name = :t ORDER BY ordinal_position"
            ),
            {"t": "engagements"},
        ).all()
    inspector = sa.inspect(engine)
    assert sorted(tables) == sorted(inspector.get_table_names())
    assert columns == [column["name"] for column in inspector.get_columns("engagements")]
    engine.dispose()
