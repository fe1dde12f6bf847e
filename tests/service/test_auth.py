"""Authentication: which credentials are accepted, with which role, and what a role may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from sfumato.config import RIGHTS, Config, LedgerSettings, Right, Role, read_config
from sfumato.errors import ConfigError, LedgerFailed, NotFound, Unauthorized
from sfumato.ledger import Ledger, open_ledger
from sfumato.ledger.api_keys import ApiKeys
from sfumato.service.auth import Authenticator, Principal, check_right

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MOMENT = int(NOW.timestamp())

CONFIG = """
[budgets.partner]
epsilon_per = 0.15
delta_per = 1e-10
information = 100
calls = 3
[analysts.anna]
budget = "partner"
[analysts.olga]
budget = "partner"
role = "owner"
[analysts.axel]
budget = "partner"
role = "auditor"
[analysts.rita]
budget = "partner"
role = "reader"
"""
OIDC = """
[service.oidc]
issuer = "https://login.example/"
audience = "sfumato"
jwks_url = "https://login.example/keys"
"""

PROVIDER = Ed25519PrivateKey.generate()


def fetch(url: str) -> bytes:
    published = jwt.get_algorithm_by_name("EdDSA").to_jwk(PROVIDER.public_key(), as_dict=True)
    return json.dumps({"keys": [{**published, "kid": "one"}]}).encode()


def token(sub: Any = "anna", **claims: Any) -> str:
    said = {"iss": "https://login.example/", "aud": "sfumato", "exp": MOMENT + 300, "sub": sub}
    return jwt.encode({**said, **claims}, PROVIDER, "EdDSA", {"kid": "one"})


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    folder = tmp_path_factory.mktemp("ledger")
    with open_ledger(LedgerSettings("sqlite:books.db"), folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def keys(ledger: Ledger) -> ApiKeys:
    return ApiKeys(ledger)


def config(text: str = CONFIG) -> Config:
    return read_config(text, Path(), {})


@pytest.fixture(scope="module")
def authenticator(keys: ApiKeys) -> Authenticator:
    return Authenticator(config(), keys, lambda: NOW)


@pytest.fixture(scope="module")
def both(keys: ApiKeys) -> Authenticator:
    """Authenticates keys and tokens."""
    return Authenticator(config(CONFIG + OIDC), keys, lambda: NOW, fetch=fetch)


def refusal(authenticator: Authenticator, authorization: str | None) -> str:
    """The text of a refusal. It has no other exception behind it."""
    with pytest.raises(Unauthorized) as refused:
        authenticator.authenticate(authorization)
    assert refused.value.__context__ is None
    assert refused.value.__cause__ is None
    return str(refused.value)


class TestKeys:
    @pytest.mark.parametrize("role", get_args(Role))
    @pytest.mark.parametrize("analyst", ["anna", "rita", "olga", "axel"])
    def test_a_key_may_what_its_role_and_that_of_the_file_may(
        self, authenticator: Authenticator, keys: ApiKeys, analyst: str, role: Role
    ) -> None:
        text, key = keys.create(analyst, role, None, NOW)
        found, in_file = authenticator.authenticate(f"Bearer {text}"), config().analysts[analyst].role
        assert (found.analyst, found.key_id) == (analyst, key.id)
        assert found.role in (role, in_file)
        for right, roles in RIGHTS.items():
            if {role, in_file} <= roles:
                check_right(found, right)
                continue
            with pytest.raises(NotFound, match=r"^there is no such thing, or it is not yours$"):
                check_right(found, right)

    @pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER {}", "Bearer  {}", "Bearer {} "])
    def test_spellings_of_the_header(self, authenticator: Authenticator, keys: ApiKeys, form: str) -> None:
        text, key = keys.create("anna", "analyst", None, NOW)
        assert authenticator.authenticate(form.format(text)).key_id == key.id

    @pytest.mark.parametrize(
        "form",
        [
            *("", " ", "{}", "Bearer", "Bearer ", "Bearer{}", "Basic {}", "Token {}", "Bearer\t{}", "Bearer {}\n"),
            *(
                " Bearer {}",
                "Bearer Bearer {}",
                "Bearer {0}, Bearer {0}",
                "Bearer {0} {0}",
                "Bearer '{}'",
                "Bearer {}=",
            ),
            *("Bearer {}\0", "Bearer {}é", "Bearer key={}", "Bearer sfumato_{}"),
        ],
    )
    def test_other_headers_are_refused(self, both: Authenticator, keys: ApiKeys, form: str) -> None:
        text, _ = keys.create("anna", "analyst", None, NOW)
        assert both.authenticate(f"Bearer {text}").analyst == "anna"
        assert text not in refusal(both, form.format(text))

    def test_all_that_is_not_valid_is_refused_in_the_same_words(self, both: Authenticator, keys: ApiKeys) -> None:
        good, _ = keys.create("anna", "analyst", None, NOW)
        revoked, key = keys.create("anna", "analyst", None, NOW)
        keys.revoke(key.id, NOW)
        expired, _ = keys.create("anna", "analyst", date(2026, 11, 1), NOW - timedelta(days=30))
        stranger, _ = keys.create("nobody", "owner", None, NOW)
        unknown = good[:-4] + ("AAAA" if not good.endswith("AAAA") else "BBBB")
        credentials = [revoked, expired, stranger, unknown, good[:-1], "", "x", "a.b.c", token("nobody"), token()[:-9]]
        words = {refusal(both, None), *(refusal(both, f"Bearer {credential}") for credential in credentials)}
        assert words == {"this needs a valid key: Authorization: Bearer <key>"}

    def test_a_key_ends_with_its_day(self, keys: ApiKeys) -> None:
        text, _ = keys.create("anna", "analyst", date(2026, 11, 20), NOW)
        midnight = datetime(2026, 11, 21, tzinfo=UTC)
        clock = iter([midnight - timedelta(microseconds=1), midnight])
        authenticator = Authenticator(config(), keys, lambda: next(clock))
        assert authenticator.authenticate(f"Bearer {text}").analyst == "anna"
        refusal(authenticator, f"Bearer {text}")

    def test_a_revoked_key_is_refused_at_its_next_call(self, authenticator: Authenticator, keys: ApiKeys) -> None:
        text, key = keys.create("anna", "analyst", None, NOW)
        assert authenticator.authenticate(f"Bearer {text}").key_id == key.id
        keys.revoke(key.id, NOW)
        refusal(authenticator, f"Bearer {text}")

    def test_a_ledger_that_fails_is_no_refusal(self, tmp_path: Path) -> None:
        with open_ledger(LedgerSettings("sqlite:books.db"), tmp_path) as ledger:
            keys = ApiKeys(ledger)
            text, _ = keys.create("anna", "analyst", None, NOW)
        with pytest.raises(LedgerFailed):
            Authenticator(config(), keys, lambda: NOW).authenticate(f"Bearer {text}")

    def test_keys_are_in_no_representation(self, authenticator: Authenticator, keys: ApiKeys) -> None:
        text, _ = keys.create("anna", "analyst", None, NOW)
        found = authenticator.authenticate(f"Bearer {text}")
        assert text[12:] not in repr([authenticator, found, keys, vars(authenticator), keys.list()])

    @given(st.text())
    def test_nonsense_is_refused(self, both: Authenticator, text: str) -> None:
        for authorization in (text, f"Bearer {text}", f"Bearer sfumato_{text}"):
            refusal(both, authorization)


class TestTokens:
    @pytest.mark.parametrize(("name", "role"), [("anna", "analyst"), ("olga", "owner"), ("axel", "auditor")])
    def test_a_token_has_the_role_of_the_configuration(self, both: Authenticator, name: str, role: Role) -> None:
        assert both.authenticate(f"Bearer {token(name)}") == Principal(name, role, None)
        assert both.authenticate(f"Bearer {token(name, role='owner', scope='admin')}").role == role

    @pytest.mark.parametrize("name", ["nobody", "Anna", "anna ", "", "\u0430nna", "anna\0", None, 7, ["anna"]])
    def test_a_token_for_an_unknown_analyst_is_refused(self, both: Authenticator, name: Any) -> None:
        refusal(both, f"Bearer {token(name)}")

    def test_a_token_is_checked_by_the_given_clock(self, keys: ApiKeys) -> None:
        late = Authenticator(config(CONFIG + OIDC), keys, lambda: NOW + timedelta(seconds=361), fetch=fetch)
        refusal(late, f"Bearer {token()}")

    def test_where_no_provider_is_configured_tokens_are_refused_and_nothing_is_fetched(self, keys: ApiKeys) -> None:
        def never(url: str) -> bytes:
            raise AssertionError(url)

        refusal(Authenticator(config(), keys, lambda: NOW, fetch=never), f"Bearer {token()}")

    def test_a_key_costs_no_fetch(self, keys: ApiKeys) -> None:
        def never(url: str) -> bytes:
            raise AssertionError(url)

        authenticator = Authenticator(config(CONFIG + OIDC), keys, lambda: NOW, fetch=never)
        text, _ = keys.create("anna", "analyst", None, NOW)
        assert authenticator.authenticate(f"Bearer {text}").analyst == "anna"
        refusal(authenticator, f"Bearer {text[:-1]}")

    def test_a_provider_that_is_away_is_a_refusal_like_others(self, keys: ApiKeys) -> None:
        def away(url: str) -> bytes:
            raise OSError("no route")

        assert "valid key" in refusal(
            Authenticator(config(CONFIG + OIDC), keys, lambda: NOW, fetch=away), f"Bearer {token()}"
        )

    def test_an_unsafe_url_of_keys_is_refused_at_once(self, keys: ApiKeys) -> None:
        text = OIDC.replace("https://login.example/keys", "http://localhost@attacker.example/keys")
        with pytest.raises(ConfigError, match="jwks_url"):
            Authenticator(config(CONFIG + text), keys, lambda: NOW, fetch=fetch)


class TestRights:
    @pytest.mark.parametrize(
        ("right", "roles"),
        [
            ("ask", {"analyst", "owner"}),
            ("report", {"analyst", "reader", "owner"}),
            ("estimate", {"analyst", "owner", "auditor"}),
            ("recall", {"analyst", "owner", "auditor"}),
            ("read", {"analyst", "reader", "owner", "auditor"}),
            ("oversee", {"owner", "auditor"}),
            ("govern", {"owner"}),
        ],
    )
    @pytest.mark.parametrize("role", [*get_args(Role), "root", ""])
    def test_who_may_what(self, right: Right, roles: set[Role], role: Role) -> None:
        if role in roles:
            check_right(Principal("anna", role), right)
            return
        with pytest.raises(NotFound, match=r"^there is no such thing, or it is not yours$"):
            check_right(Principal("anna", role), right)

    def test_every_right_belongs_to_a_role(self) -> None:
        assert RIGHTS.keys() == set(get_args(Right))
        assert all(RIGHTS.values())
