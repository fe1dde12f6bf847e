"""Reports of a running service: every door gives the same numbers, and a restart or another worker changes none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest

import sfumato as sf
from sfumato.errors import NotFound, NotSupported, SfumatoError, Unauthorized
from tests.helpers.advertised import BY_DAY, new_ads
from tests.helpers.servers import Server, new_key, start
from tests.helpers.worlds import World, lasting

pytestmark = pytest.mark.slow

# All over before any clock of today: the service has the real one.
RANGE: dict[str, Any] = {"statistics": "clicks", "start": "2026-03-01", "end": "2026-04-01"}

QUESTIONS: list[dict[str, Any]] = [
    {"report": "ads", **RANGE, "entity": {"account": "acme"}},
    {"report": "ads", **RANGE, "entity": {"campaign": "spring"}, "granularity": "day", "options": ["tree"]},
    {"report": "ads", **RANGE, "entity": {"creative": "s1"}, "attribute": "job_title", "top": 3},
    {
        "report": "ads",
        **RANGE,
        "entity": {"campaign": "spring"},
        "start": date(2026, 2, 3),
        "end": datetime(2026, 3, 8, 3),
    },
    {"report": "clicks", **RANGE, "entity": {"account": "acme"}, "attribute": "seniority", "granularity": "month"},
]

REFUSED: list[dict[str, Any]] = [
    {},
    {"report": "ad", **RANGE},
    {"report": "ads", **RANGE, "entity": {"account": "globex"}},
    {"report": "ads", **RANGE, "entity": {"account": "initech"}},
    {"report": "ads", **RANGE, "entity": {"acount": "acme"}},
    {"report": "ads", **RANGE, "entity": {"account": "acme"}, "start": "2026-03-01T01:00"},
    {"report": "ads", **RANGE, "entity": {"account": "acme"}, "start": 7},
    {"report": "ads", **RANGE, "entity": {"account": "acme"}, "top": 3},
    {"report": "ads", **RANGE, "entity": {"account": "acme"}, "options": "smooth"},
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return new_ads(tmp_path_factory.mktemp("live") / "world")


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Server]:
    found = start(world)
    yield found
    found.kill()


@pytest.fixture(scope="module")
def key(world: World) -> str:
    return new_key(world, "tina")


@pytest.fixture
def client(server: Server, key: str) -> Iterator[sf.Client]:
    with sf.Client(server.url, key) as found:
        yield found


@pytest.fixture(scope="module")
def session(world: World) -> Iterator[sf.Session]:
    """Embedded use of the same configuration, beside the service."""
    with sf.Session(world.path, finish=False) as found:
        yield found


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_every_door_gives_the_same_report(server, key, client, session, number):
    question = QUESTIONS[number]
    name, named = question["report"], {each: value for each, value in question.items() if each != "report"}
    first = client.report(name, **named)
    assert type(first) is sf.Report
    assert first.rows

    async def alike() -> list[sf.Report]:
        async with sf.AsyncClient(server.url, key) as other:
            return await asyncio.gather(*(other.report(name, **named) for _ in range(4)))

    others = [client.report(question), session.report(question, analyst="tina"), *asyncio.run(alike())]
    assert {lasting(report) for report in others} == {lasting(first)}
    assert all(report.receipt.repeat for report in others)
    assert not client.budget().accounts[0].spent


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_every_door_refuses_alike(client, session, number):
    with pytest.raises(SfumatoError) as far:
        client.report(REFUSED[number])
    with pytest.raises(SfumatoError) as near:
        session.report(REFUSED[number], analyst="tina")
    assert type(far.value) is type(near.value)
    assert type(far.value) in (NotFound, NotSupported)
    if type(far.value) is NotSupported:
        assert str(far.value) == str(near.value)


def test_without_a_key(server):
    with sf.Client(server.url, "sfumato_" + "A" * 43) as stranger, pytest.raises(Unauthorized):
        stranger.report(QUESTIONS[0])


def test_the_same_after_a_kill(tmp_path, serve):
    world = new_ads(tmp_path / "world")
    key, question = new_key(world), {**BY_DAY, **RANGE}
    first = serve(world)
    with sf.Client(first.url, key) as client:
        before = client.report(question)
    first.kill()
    second = serve(world)
    with sf.Client(second.url, key) as client:
        after = client.report(question)
    assert lasting(after) == lasting(before)
    assert after.receipt.repeat


def test_workers_agree(tmp_path, serve, postgres_url):
    """Several processes draw at once; all are told what was stored first."""
    world = new_ads(tmp_path / "world", postgres_url)
    server, key = serve(world, "--workers", "2"), new_key(world)

    async def asked() -> list[sf.Report]:
        async with sf.AsyncClient(server.url, key) as client:
            return await asyncio.gather(*(client.report({**BY_DAY, **RANGE}) for _ in range(24)))

    assert len({lasting(report) for report in asyncio.run(asked())}) == 1
