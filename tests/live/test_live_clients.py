"""The clients against a running service: the same rows, the same refusals and one charge, whatever the network does."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

import httpx2
import pytest

import sfumato as sf
from sfumato.accounting import NOTHING, Charge
from sfumato.client import dbapi
from sfumato.errors import BudgetExhausted, Failed, NotFound, NotSupported, SfumatoError, Unauthorized
from sfumato.query.request import Histogram, TopK, Total
from sfumato.session import Session
from tests.helpers.servers import SLEEPY, SLOW, SLOW_S, Server, new_key, one_unit, start, wait_until
from tests.helpers.worlds import World, lasting, new_world

pytestmark = pytest.mark.slow

TOP = "SELECT article, members FROM engagements WHERE region = 'emea' GROUP BY article LIMIT 5"

QUESTIONS: list[Any] = [
    TOP,
    "SELECT region, COUNT(DISTINCT member_id) FROM engagements GROUP BY region",
    "SELECT job_title, market, members FROM engagements GROUP BY job_title, market LIMIT 4",
    "SELECT visits FROM engagements WHERE day >= DATE '2026-11-03' AND n > 2",
    "SELECT DISTINCT market FROM engagements",
    TopK("engagements", "article", "shares", {"market": ["emea", "apac"]}, k=3, counts=False),
    Histogram("engagements", "region", "members", {"n": {"ge": 2}}),
    Total("engagements", "visits", {"not": {"region": "amer"}}),
    one_unit(5),
]

REFUSED: list[Any] = [
    "",
    "SELECT",
    "SELECT * FROM engagements",
    "SELECT * FROM engagements LIMIT 10",
    "SELECT member_id FROM engagements",
    "SELECT DISTINCT article FROM engagements",
    "SELECT article, members FROM engagement GROUP BY article LIMIT 5",
    "SELECT articel, members FROM engagements GROUP BY articel LIMIT 5",
    "SELECT article, AVG(n) FROM engagements GROUP BY article LIMIT 5",
    {"type": "top_k", "table": "engagements", "by": "article", "measure": "members", "k": 21},
    "SELECT article, members FROM engagements GROUP BY article ORDER BY n LIMIT 5",
    "SELECT a.article FROM engagements AS a JOIN engagements AS b ON a.n = b.n",
    "DELETE FROM engagements",
    "SELECT members FROM engagements; SELECT members FROM engagements",
    "SELECT members FROM engagements WHERE n = 'many'",
    "SELECT members FROM engagements WHERE member_id = 7",
    {"type": "top_k", "table": "engagements", "by": "article", "measure": "members", "k": 0},
    {"type": "median", "table": "engagements"},
    {"type": "total", "table": "engagements", "measure": "members", "were": {}},
    {"sql": TOP, "k": 4},
    {},
    {**one_unit(1), "by": ["region", "region"]},
    {**one_unit(1), "where": {"and": [{"n": {"lt": "x"}}]}},
    TopK("engagements", "article", "likes", k=3),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("live") / "world"
    return new_world(folder, information=100_000, calls=1000, shared=(10**6, 10**5), owner="ben")


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Server]:
    found = start(world, first=SLEEPY)
    yield found
    found.kill()


@pytest.fixture(scope="module")
def key(world: World) -> str:
    return new_key(world)


@pytest.fixture
def client(server: Server, key: str) -> Iterator[sf.Client]:
    with sf.Client(server.url, key) as found:
        yield found


@pytest.fixture(scope="module")
def session(world: World) -> Iterator[Session]:
    """Embedded use of the same configuration, beside the service."""
    with Session(world.path, finish=False) as found:
        yield found


def paid(client: sf.Client) -> Charge:
    return client.budget().accounts[0].spent


def raised(work: Callable[[], object]) -> SfumatoError:
    with pytest.raises(SfumatoError) as found:
        work()
    return found.value


# -- the same as embedded use --


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_every_door_gives_the_same_answer_for_one_charge(server, key, client, session, number):
    question = QUESTIONS[number]
    before, estimate = paid(client), client.estimate(question)
    first = client.ask(question)
    assert first.receipt.charge == paid(client) - before <= estimate.worst
    embedded = session.ask(question, analyst="anna")

    async def alike() -> list[Any]:
        async with sf.AsyncClient(server.url, key) as other:
            return await asyncio.gather(*(other.ask(question) for _ in range(4)))

    others = [client.ask(question), embedded, *asyncio.run(alike())]
    assert {lasting(answer) for answer in others} == {lasting(first)}
    assert {answer.receipt.charge for answer in others} == {NOTHING}
    assert client.estimate(question).worst == NOTHING
    assert client.budget() == session.budget("anna")


def test_an_answer_that_was_given_embedded_is_free_over_http(client, session):
    first = session.ask(one_unit(60), analyst="anna")
    again = client.ask(one_unit(60))
    assert (lasting(again), again.receipt.charge, again.receipt.repeat) == (lasting(first), NOTHING, True)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals_are_those_of_embedded_use(server, key, client, session, number):
    question, before = REFUSED[number], paid(client)
    embedded = raised(lambda: session.ask(question, analyst="anna"))

    async def asked() -> None:
        async with sf.AsyncClient(server.url, key) as other:
            await other.ask(question)

    errors = [raised(lambda: client.ask(question)), raised(lambda: asyncio.run(asked()))]
    errors.append(raised(lambda: client.estimate(question)))
    assert {(type(error), str(error)) for error in errors} == {(type(embedded), str(embedded))}
    assert paid(client) == before


def test_a_preview_is_refused_with_the_way_out(client):
    refusal = raised(lambda: client.ask("SELECT * FROM engagements LIMIT 100"))
    assert isinstance(refusal, NotSupported)
    assert "COUNT" in str(refusal) or "GROUP BY" in str(refusal)


def test_estimates_are_those_of_embedded_use(world, server, session):
    with sf.Client(server.url, new_key(world, "olga")) as client:
        for question in QUESTIONS:
            assert client.estimate(question) == session.estimate(question, analyst="olga")
        assert client.budget() == session.budget("olga")


def test_an_exhausted_budget_is_told_with_what_would_fit(tmp_path, serve):
    world = new_world(tmp_path / "world", information=12, calls=3)
    server = serve(world)
    question = TopK("engagements", "article", "members", k=10)
    with sf.Client(server.url, new_key(world)) as client, Session(world.path, finish=False) as session:
        refusals = [raised(lambda: client.ask(question)), raised(lambda: session.ask(question, analyst="anna"))]
        assert {type(refusal) for refusal in refusals} == {BudgetExhausted}
        fields = [(str(each), each.asked, each.left, each.resets, each.instead) for each in refusals]
        assert fields[0] == fields[1]
        [smaller] = refusals[0].instead
        assert client.ask(smaller).receipt.charge <= Charge(12, 3)
        with dbapi.connect(server.url, new_key(world)) as connection:
            for number in range(12):
                with suppress(dbapi.OperationalError):
                    connection.cursor().execute(
                        f"SELECT region, members FROM engagements WHERE n <> {number} GROUP BY region"
                    )
            with pytest.raises(dbapi.OperationalError) as found:
                connection.cursor().execute("SELECT region, members FROM engagements WHERE n <> 99 GROUP BY region")
            assert isinstance(found.value.__cause__, BudgetExhausted)


def test_who_is_not_known_is_told_alike(world, server, key):
    for wrong in ("sfumato_" + "A" * 43, "sfumato_short", "a.b.c", key[:-1], key.upper(), f"{key}x"):
        with sf.Client(server.url, wrong) as client:
            for call in (client.tables, client.budget, client.charges, partial(client.ask, TOP), client.usage):
                assert isinstance(raised(call), Unauthorized)
        with dbapi.connect(server.url, wrong) as connection, pytest.raises(dbapi.OperationalError) as found:
            connection.ping()
        assert isinstance(found.value.__cause__, Unauthorized)


def test_roles(world, server, client):
    client.ask(one_unit(69))
    with sf.Client(server.url, new_key(world, "ben", "auditor")) as auditor:
        assert isinstance(raised(lambda: auditor.ask(TOP)), NotFound)
        assert auditor.estimate(TOP).worst > NOTHING
        assert "anna" in {row.analyst for row in auditor.usage().rows}
    with sf.Client(server.url, new_key(world, "ben")) as analyst:
        assert isinstance(raised(analyst.usage), NotFound)


def test_charges_page_by_page(client, session):
    for number in range(70, 76):
        client.ask(one_unit(number))
    pages, cursor = [], None
    while True:
        page = client.charges(cursor, rows=3)
        pages += page.rows
        if page.next is None:
            break
        cursor = page.next
    assert pages == session.charges("anna", rows=1000).rows
    assert isinstance(raised(lambda: client.charges("-1")), ValueError)
    assert client.tables() == session.tables()


def test_an_answer_is_recalled_by_its_digest(world, server, key, client, session):
    first = client.ask(one_unit(80))
    digest = first.receipt.digest
    assert client.recall(digest) == session.recall(digest, analyst="anna") == first
    with sf.Client(server.url, new_key(world, "olga")) as other:
        assert str(raised(lambda: other.recall(digest))) == str(raised(lambda: other.recall("sha256:" + "0" * 64)))
    headers, place = {"Authorization": f"Bearer {key}"}, f"{server.url}/v1/answers/{digest}"
    whole = httpx2.get(place, headers=headers)
    assert (whole.status_code, whole.headers["etag"]) == (200, f'"{digest}"')
    for known in (f'"{digest}"', f'"x", "{digest}"', "*"):
        short = httpx2.get(place, headers={**headers, "If-None-Match": known})
        assert (short.status_code, short.content, short.headers["etag"]) == (304, b"", f'"{digest}"')
    assert httpx2.get(place, headers={**headers, "If-None-Match": '"x"'}).content == whole.content


# -- SQL for tools --


def test_the_driver_gives_the_rows_of_the_answer(server, key, client):
    answer, before = client.ask(TOP), paid(client)
    with dbapi.connect(server.url, key) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(TOP.replace("'emea'", "?"), ["emea"])
        assert [column[0] for column in cursor.description] == ["article", "members"]
        assert cursor.rowcount == len(answer.rows)
        assert cursor.fetchall() == [(row["article"], row["members"]) for row in answer.rows]
        cursor.execute("SELECT DISTINCT region FROM engagements")
        assert {region for (region,) in cursor} == {"amer", "apac", "emea"}
        with pytest.raises(dbapi.ProgrammingError) as found:
            cursor.execute("SELECT * FROM engagements")
        assert isinstance(found.value.__cause__, NotSupported)
    assert paid(client) == before


def alchemy(server: Server, key: str, **query: str) -> Any:
    from sqlalchemy import URL, create_engine

    return create_engine(URL.create("sfumato", password=key, host="127.0.0.1", port=server.port, query=query))


def test_sqlalchemy_reflects_and_asks(server, key, client):
    from sqlalchemy import MetaData, Table, func, inspect, select
    from sqlalchemy.exc import ProgrammingError

    engine = alchemy(server, key)
    assert inspect(engine).get_table_names() == ["engagements"]
    table = Table("engagements", MetaData(), autoload_with=engine)
    people = func.count(table.c.member_id.distinct())
    asked = select(table.c.region, people.label("people")).where(table.c.n != 81).group_by(table.c.region)
    with engine.connect() as connection:
        rows = connection.execute(asked).all()
        before = paid(client)
        assert connection.execute(asked).all() == rows
        assert {region for (region,) in connection.execute(select(table.c.market).distinct())} == {
            "amer",
            "apac",
            "emea",
        }
        with pytest.raises(ProgrammingError):
            connection.execute(select(table))
    answer = client.ask(one_unit(81))
    assert {(row.region, row.people) for row in rows} == {(row["region"], row["members"]) for row in answer.rows}
    assert paid(client) == before
    engine.dispose()


def test_pandas_reads(server, key, client):
    import pandas

    frame, engine = client.ask(TOP).to_pandas()[["article", "members"]], alchemy(server, key)
    before = paid(client)
    pandas.testing.assert_frame_equal(pandas.read_sql(TOP, engine), frame, check_dtype=False)
    listed = pandas.read_sql("SELECT DISTINCT region FROM engagements", engine)
    assert sorted(listed["region"]) == ["amer", "apac", "emea"]
    with dbapi.connect(server.url, key) as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas would rather have SQLAlchemy's connections
        plain = pandas.read_sql(TOP, connection)
    pandas.testing.assert_frame_equal(plain, frame, check_dtype=False)
    assert paid(client) == before
    engine.dispose()


def test_a_notebook_that_is_run_again_costs_nothing_more(server, key):
    """Cells that are run twice, out of order and in a loop that is already running."""

    async def notebook() -> tuple[set[str], Charge]:
        client, sync = sf.AsyncClient(server.url, key), sf.Client(server.url, key)
        answers = [await client.ask(one_unit(90)), sync.ask(one_unit(90)), await client.ask(one_unit(90))]
        spent = sync.budget().accounts[0].spent
        await client.close()
        sync.close()
        return set(map(lasting, answers)), spent

    first, second = asyncio.run(notebook()), asyncio.run(notebook())
    assert first == second
    assert len(first[0]) == 1


# -- what networks do --


class Proxy:
    """Lets connections through to a port, but the first ones it cuts, each in its own way."""

    def __init__(self, port: int, *cuts: str) -> None:
        self._port, self._cuts = port, list(cuts)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.seen = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                cut = self._cuts[self.seen] if self.seen < len(self._cuts) else "none"
                self.seen += 1
                threading.Thread(target=self._serve, args=(near, cut), daemon=True).start()

    def _serve(self, near: socket.socket, cut: str) -> None:
        with near, suppress(OSError):
            if cut == "before":
                near.recv(1)
                return
            with socket.create_connection(("127.0.0.1", self._port)) as far:
                threading.Thread(target=_pumped, args=(near, far), daemon=True).start()
                _answered(near, far, cut)
                near.shutdown(socket.SHUT_RDWR)  # closing alone would wait for the thread that reads

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _answered(near: socket.socket, far: socket.socket, cut: str) -> None:
    while chunk := far.recv(65536):
        if cut == "after":
            return
        if cut == "half":
            near.sendall(chunk[: len(chunk) // 2])
            return
        near.sendall(chunk)


def _pumped(near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError):
        while chunk := near.recv(65536):
            far.sendall(chunk)


@pytest.mark.parametrize("cuts", [("before",) * 3, ("after",) * 3, ("half",) * 3, ("before", "after", "half")])
def test_a_connection_that_is_cut_is_charged_once(server, key, client, cuts):
    before, number = paid(client), 100 + abs(hash(cuts)) % 1_000_000
    with closing(Proxy(server.port, *cuts)) as proxy, sf.Client(proxy.url, key, sleep=lambda _: None) as cut:
        answer = cut.ask(one_unit(number))
        assert proxy.seen == 4
    assert paid(client) - before == Charge(1)
    assert lasting(answer) == lasting(client.ask(one_unit(number)))


def test_cut_for_good_the_client_says_what_it_may_have_cost(server, key, client):
    async def cut_off(url: str) -> None:
        async with sf.AsyncClient(url, key, retries=1) as cut:
            await cut.ask(one_unit(200))

    before = paid(client)
    with closing(Proxy(server.port, "after", "half")) as proxy:
        error = raised(lambda: asyncio.run(cut_off(proxy.url)))
    assert isinstance(error, Failed)
    assert "may have been charged" in str(error)
    assert key not in str(error)
    assert paid(client) - before == Charge(1)
    assert client.ask(one_unit(200)).receipt.charge == NOTHING


def test_a_client_that_waits_less_than_the_engine_needs_pays_once(server, key, client):
    before, since = paid(client), time.monotonic()
    with sf.Client(server.url, key, timeout_s=0.4, retries=100) as hasty:
        answer = hasty.ask(one_unit(SLOW))
    assert time.monotonic() - since >= SLOW_S * 0.9
    wait_until(lambda: client.budget().accounts[0].reserved == NOTHING)  # the attempts that were left behind end, too
    assert paid(client) - before == Charge(1)
    assert lasting(client.ask(one_unit(SLOW))) == lasting(answer)
    assert client.budget().accounts[0].reserved == NOTHING


def test_without_retries_the_timeout_is_told_and_asking_again_is_free(server, key, client):
    question = {**one_unit(SLOW), "by": "market"}
    before = paid(client)
    with sf.Client(server.url, key, timeout_s=0.3, retries=0) as hasty:
        error = raised(lambda: hasty.ask(question))
    assert isinstance(error, Failed)
    assert "within 0.3 s" in str(error)
    assert "may have been charged" in str(error)
    client.ask(question)
    again = client.ask(question)
    assert again.receipt.charge == NOTHING
    cost = paid(client) - before
    assert cost == client.recall(again.receipt.digest).receipt.charge


def test_the_service_may_restart_while_a_client_tries(tmp_path, serve):
    world = new_world(tmp_path / "world")
    first, key = serve(world), new_key(world)
    with sf.Client(first.url, key, retries=100, sleep=lambda _: time.sleep(0.5)) as client:
        client.ask(one_unit(1))
        first.stop()
        later = threading.Timer(0.5, lambda: serve(world, port=first.port))
        later.start()
        answer = client.ask(one_unit(2))
        later.join()
        assert answer.receipt.charge == Charge(1)
        assert paid(client) == Charge(2)
    with sf.Client(first.url, key, retries=0) as client:
        assert client.ask(one_unit(2)).receipt.charge == NOTHING


def test_a_failed_connection_charges_nothing(key):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    with sf.Client(f"http://127.0.0.1:{port}", key, retries=1, sleep=lambda _: None) as client:
        error = raised(lambda: client.ask(TOP))
    assert isinstance(error, Failed)
    assert "nothing was charged" in str(error)


def test_the_log_is_lines_of_json_and_has_no_failure(server, client):
    """The last of this module: whatever was asked above, nothing was unexpected."""
    client.tables()
    lines = server.lines()
    assert [line for line in lines if "error" in line] == []
    assert {line.get("status") for line in lines if line["event"] == "request"} <= {
        200,
        304,
        400,
        401,
        403,
        404,
        422,
        0,
    }
    assert json.dumps(lines).count("member") == 0
