"""What a notebook shows of a refusal: the caller's own code, the message and the way out."""

from __future__ import annotations

import pytest

from sfumato.errors import ConfigError, NotSupported, SfumatoError
from tests.helpers.fake_service import KEY, Reading
from tests.helpers.worlds import new_world

interactive = pytest.importorskip("IPython.core.interactiveshell")


@pytest.fixture
def shell():
    opened = interactive.InteractiveShell()
    opened.run_line_magic("colors", "nocolor")
    yield opened
    interactive.InteractiveShell.clear_instance()


@pytest.fixture
def policy_session(tmp_path):
    with new_world(tmp_path / "world").open() as session:
        yield session


def shown(shell, capsys, code, **names) -> str:
    shell.push(names)
    shell.run_cell(code)
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_a_refusal_is_its_message_and_not_our_files(shell, capsys, policy_session):
    page = shown(shell, capsys, "session.ask('SELECT * FROM engagements', analyst='anna')", session=policy_session)
    assert page.rstrip().splitlines()[-1].startswith("NotSupported: SELECT * would list people")
    assert "session.ask('SELECT * FROM engagements'" in page
    assert "/sfumato/" not in page
    assert "IPython" not in page
    assert len(page.splitlines()) <= 4


def test_the_callers_own_code_stays(shell, capsys, policy_session):
    code = "def mine(question):\n    return session.ask(question, analyst='anna')\n\nmine('SELECT * FROM engagements')"
    page = shown(shell, capsys, code, session=policy_session)
    assert "mine('SELECT * FROM engagements')" in page
    assert "in mine" in page
    assert "/sfumato/" not in page


def test_the_client_shows_the_same(shell, capsys):
    import httpx2

    from sfumato.client import Client

    with Client("https://sfumato.test:8080", KEY, transport=httpx2.MockTransport(Reading())) as client:
        page = shown(shell, capsys, "client.ask('SELECT * FROM engagements')", client=client)
    assert page.rstrip().splitlines()[-1].startswith("NotSupported: SELECT * would list people")
    assert "/sfumato/" not in page
    assert "httpx" not in page


def test_other_errors_are_shown_as_ever(shell, capsys):
    assert "ZeroDivisionError" in shown(shell, capsys, "1 / 0")


def test_every_error_of_ours_has_its_message():
    for error in (NotSupported("leave it out", "k"), ConfigError("tables.x", "is missing"), SfumatoError("words")):
        assert error._render_traceback_() == [f"{type(error).__name__}: {error}"]
