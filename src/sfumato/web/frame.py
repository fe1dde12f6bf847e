"""A call of a page, and the frame that every page has: pages of this role, who is signed in, and what is left."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

from sfumato.config import Right
from sfumato.ledger.sign_ins import SignIn
from sfumato.query.policy import Policy
from sfumato.service.calls import Authenticated, Calls
from sfumato.service.telemetry import CallRecord
from sfumato.session import Session
from sfumato.web.asking import Fields
from sfumato.web.rendering import render
from sfumato.web.signing import Address
from sfumato.web.words import Gauge

LINKS: tuple[tuple[str, str, Right], ...] = (
    ("/tables", "Tables", "read"),
    ("/ask", "Ask", "estimate"),
    ("/history", "History", "recall"),
    ("/budget", "Budget", "read"),
    ("/reports", "Reports", "report"),
    ("/overview", "Overview", "oversee"),
    ("/dry", "Who would run dry", "oversee"),
    ("/questions", "Questions of all", "oversee"),
    ("/keys", "Keys", "oversee"),
    ("/policy", "Policy", "oversee"),
    ("/guarantee", "Guarantee", "oversee"),
    ("/ledger", "Ledger", "oversee"),
    ("/releases", "Releases", "oversee"),
)


@dataclass(frozen=True, slots=True)
class PageCall:
    """A request of someone who is signed in, and the fields of the form that was sent."""

    calls: Calls
    caller: Authenticated
    sign_in: SignIn
    request: Request
    address: Address
    fields: Fields
    record: CallRecord

    @property
    def session(self) -> Session:
        return self.calls.session

    @property
    def analyst(self) -> str:
        return self.caller.analyst

    def may(self, right: Right) -> bool:
        return right in self.caller.principal.rights

    def first(self, name: str, default: str = "") -> str:
        """The first value of a field of the form."""
        return next(iter(self.fields.get(name, ())), default)

    def page(self, template: str, title: str, status: int = 200, *, here: str, **values: Any) -> HTMLResponse:
        """A page in its frame; `here` is the link of the frame that it belongs to."""
        links = [(path, name) for path, name, right in LINKS if self.may(right)]
        return render(
            template,
            status,
            title=title,
            links=links,
            here=here,
            analyst=self.analyst,
            ends=self.sign_in.ends,
            gauge=self.gauge() if self.may("estimate") else None,
            printed=self.session.now(),
            once=secrets.token_urlsafe(18),
            **values,
        )

    def policy(self) -> Policy:
        """What may be asked in this role."""
        return self.session.policy_of(self.analyst, self.caller.principal.role)

    def gauge(self) -> Gauge:
        """What is left of the analyst's own account."""
        now = self.session.now()
        budget = self.session.budget(self.analyst, now=now)
        latest = self.session.questions(self.analyst, rows=1).rows
        paid = next((row.charge for row in latest if row.charge), None)
        return Gauge.of(budget.accounts[0], budget.mode, paid, now)
