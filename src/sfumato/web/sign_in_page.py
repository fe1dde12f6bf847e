"""The page on which people sign in."""

from __future__ import annotations

from typing import Literal, TypeAlias
from urllib.parse import quote

from starlette.responses import Response

from sfumato.config import ServiceSettings
from sfumato.web.asking import Fields
from sfumato.web.rendering import render
from sfumato.web.signing import Address

Wrong: TypeAlias = Literal["", "key", "provider", "away"]
"""What went wrong: the key is none that is valid, the provider did not sign one in, or it cannot be reached."""

_STATUS: dict[Wrong, int] = {"": 200, "key": 401, "provider": 401, "away": 503}


def show_sign_in(
    settings: ServiceSettings, address: Address, then: str, *, typed: Fields | None = None, wrong: Wrong = ""
) -> Response:
    """The page, which leads to `then`. What was `typed` into a question comes along."""
    return render(
        "sign_in.html",
        _STATUS[wrong],
        title="Sign in",
        is_safe=address.is_safe,
        then=then,
        typed=[(name, value) for name, values in (typed or {}).items() for value in values],
        wrong=wrong,
        provider=f"/sign-in/provider?next={quote(then, safe='')}" if settings.has_provider else None,
    )


def local_path(text: str | None) -> str:
    """A path of ours, or that of the first page: never another site."""
    is_local = text is not None and text.startswith("/") and not text.startswith("//")
    if text is None or not is_local or "\\" in text or not (text.isascii() and text.isprintable()):
        return "/"
    return text
