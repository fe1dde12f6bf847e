"""Signing in with an identity provider of another site, in a real browser and under the policy of the pages."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, expect

from sfumato.service.server import bind, url_of
from tests.browser.page_list import TOP
from tests.helpers.listening import listening
from tests.helpers.provider_server import ProviderServer, serve_provider
from tests.helpers.screens import Screen, screen
from tests.helpers.served import new_served
from tests.helpers.staged import Stage

pytestmark = pytest.mark.slow

BUTTON = "Sign in with your organisation"


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    with serve_provider() as served:
        served.issuer = served.issuer.replace("127.0.0.1", "localhost")  # another site than the service
        yield served


@pytest.fixture(scope="module")
def stage(
    portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory, provider: ProviderServer
) -> Iterator[Stage]:
    listener = bind("127.0.0.1", 0)
    service = {"rate_per_minute": 0, "origin": json.dumps(url_of(listener))}
    folder = tmp_path_factory.mktemp("provider") / "world"
    served = new_served(folder, portal, console=True, service=service, more=provider.config())
    with listening(served.app, listener) as url:
        yield Stage(served, url)


@pytest.fixture
def stranger(browser: Browser, stage: Stage, provider: ProviderServer) -> Iterator[Screen]:
    """A person who is not signed in. Of the provider only its page is asked for, by going there."""
    with screen(browser, stage.url) as found:
        yield found
        places = [request for request in found.requests if request.url.startswith(provider.issuer)]
        assert all(request.is_navigation_request() for request in places)
        visits = {f"request: {request.url}" for request in places}
        found.problems = [problem for problem in found.problems if problem not in visits]


def names(stranger: Screen) -> set[str]:
    return {cookie["name"] for cookie in stranger.page.context.cookies()}


def test_the_whole_way(stranger: Screen) -> None:
    stranger.open("/budget")
    stranger.sees("Sign in")
    assert stranger.accessibility() == []
    stranger.page.get_by_role("link", name=BUTTON).click()
    stranger.sees("Budget")
    expect(stranger.page.get_by_text("Signed in as anna")).to_be_visible()
    assert names(stranger) == {"sfumato"}
    stranger.button("Sign out").click()
    stranger.sees("Sign in")
    assert names(stranger) == set()


def test_what_was_typed_is_still_there(stranger: Screen) -> None:
    stranger.open("/sign-in?next=%2Fask%3Fway%3Dsql")
    stranger.page.get_by_role("link", name=BUTTON).click()
    stranger.page.get_by_label("Your question in SQL").fill(TOP)
    stranger.page.context.clear_cookies()
    stranger.button("Ask").click()
    stranger.sees("Sign in")
    assert stranger.accessibility() == []
    with stranger.page.context.expect_page() as opened:
        stranger.page.get_by_role("link", name=BUTTON).click()
    expect(opened.value.get_by_text("Signed in as anna")).to_be_visible()
    stranger.button("I am signed in: go on").click()
    stranger.sees("Ask")
    expect(stranger.page.get_by_label("Your question in SQL")).to_have_value(TOP)


def test_one_who_did_not_begin_is_not_signed_in(stranger: Screen, stage: Stage, provider: ProviderServer) -> None:
    """A page of another site leads to the way back, with the sign-in of another person."""
    stranger.page.goto(f"{provider.issuer}/keys")
    stranger.page.goto(f"{stage.url}/sign-in/return?code=a&state=b", referer=provider.issuer)
    expect(stranger.page.get_by_role("alert")).to_contain_text("Your organisation did not sign you in here")
    assert stranger.accessibility() == []
    assert names(stranger) == set()
