"""A key is not sent readable over a network, unless the caller says that it may."""

from __future__ import annotations

import httpx2
import pytest
import sqlalchemy as sa

import sfumato as sf
from sfumato.client import dbapi
from tests.helpers.fake_service import KEY

FAR = [
    *("http://answers.example.com", "http://192.168.1.7:8080", "http://10.0.0.1", "http://[fe80::1]:8080"),
    *("http://localhost.example.com", "http://127.0.0.1.example.com", "HTTP://example.com", "http://0.0.0.0:8080"),
]
NEAR = [
    *("http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080", "http://127.9.9.9"),
    *("https://answers.example.com", "https://192.168.1.7:8080/under/path"),
]


def unsent(_: httpx2.Request) -> httpx2.Response:
    raise AssertionError("the key was sent")


@pytest.mark.parametrize("url", FAR)
def test_it_is_refused(url: str) -> None:
    transport = httpx2.MockTransport(unsent)
    for client in (sf.Client, sf.AsyncClient):
        with pytest.raises(sf.InvalidArgument, match="allow_plain_http=True") as refused:
            client(url, KEY, transport=transport)
        assert KEY not in str(refused.value)
    with pytest.raises(dbapi.ProgrammingError, match="allow_plain_http"):
        dbapi.connect(url, KEY, transport=transport)


def test_by_sqlalchemy_too() -> None:
    with pytest.raises(sa.exc.ProgrammingError, match="allow_plain_http"):
        sa.create_engine(f"sfumato://:{KEY}@answers.example.com:8080/").connect()


@pytest.mark.parametrize("url", NEAR)
def test_tls_and_this_machine_are_fine(url: str) -> None:
    sf.Client(url, KEY).close()


@pytest.mark.parametrize("url", FAR)
def test_it_may_be_allowed(url: str) -> None:
    sf.Client(url, KEY, allow_plain_http=True).close()
    dbapi.connect(url, KEY, allow_plain_http=True).close()


@pytest.mark.parametrize("word", ["yes", 1, "False", None])
def test_only_true_allows_it(word: object) -> None:
    with pytest.raises(sf.InvalidArgument, match="allow_plain_http"):
        sf.Client(FAR[0], KEY, allow_plain_http=word)  # type: ignore[arg-type]
