"""What analysts have asked, and the answers that they can get again. Free; no row of a table is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import partial

from sfumato.accounting.numbers import whole
from sfumato.answer import filter_text
from sfumato.catalog import Catalog
from sfumato.config import RIGHTS, Config, Role, sort_roles
from sfumato.errors import InvalidArgument, NotFound
from sfumato.ledger import Account, Ledger, accounts_of
from sfumato.ledger.questions import Sight, list_questions
from sfumato.ledger.types import KeptRequest, Movements, moment_text
from sfumato.wire import Answer, Questions, StoredAnswer

NO_ANSWER = (
    "there is no such answer; ask again, which is free where it was answered before. Of a statement with several "
    "questions, each is recalled by its own digest, which is in receipt.parts"
)
_DIGEST = re.compile("sha256:[0-9a-f]{64}")


class Recalls:
    """The questions and stored answers of a ledger, for those who may see them now."""

    def __init__(self, config: Config, catalog: Catalog, ledger: Ledger) -> None:
        self._config, self._catalog, self._ledger = config, catalog, ledger

    def recall(
        self,
        digest: str,
        analyst: str,
        now: datetime,
        *,
        finish: Callable[[StoredAnswer], StoredAnswer] | None = None,
    ) -> Answer:
        """An answer as it first left to this analyst; `NotFound` if she may not get it any more.

        `finish` makes what is shown of the stored rows.
        """
        settled = None
        if _DIGEST.fullmatch(digest):  # a store may not take any text
            allowed = partial(self._may_see, analyst, now)
            paying = partial(self._paying, analyst)
            settled = self._ledger.recall(self._own(analyst), digest, paying, now, allowed=allowed)
        if settled is None:
            raise NotFound(NO_ANSWER)
        stored = StoredAnswer.from_json(settled.body)
        return (stored if finish is None else finish(stored)).complete(settled)

    def questions(
        self, which: Movements, now: datetime, *, cursor: str | None, rows: int, role: Role | None = None
    ) -> Questions:
        """A page of questions. `role` is that of the one analyst whose they are, where it is narrower than her own."""
        before, most = read_cursor(cursor), whole("rows", rows, at_least=1, at_most=10_000)
        page = list_questions(self._ledger, which, partial(self._sight, now, role), before=before, rows=most)
        return Questions.from_attributes(page)

    def question(self, digest: str, analyst: str) -> KeptRequest:
        """The request behind an answer of an analyst. One that an earlier schema stored has neither form."""
        with self._ledger.reading() as books:
            return books.question(self._own(analyst), digest)

    def _sight(self, now: datetime, role: Role | None, analyst: str) -> Sight | None:
        """What `recall` would give this analyst."""
        if analyst not in self._config.analysts:
            return None
        own = self._config.analysts[analyst].role
        if sort_roles(role or own, own)[0] not in RIGHTS["recall"]:
            return None
        return Sight(partial(self._paying, analyst), partial(self._may_see, analyst, now))

    def _own(self, analyst: str) -> str:
        """The name of an analyst's own account."""
        return accounts_of(self._config, analyst)[0].name

    def _paying(self, analyst: str, table: str) -> tuple[Account, ...]:
        """The accounts that pay for requests about a table, which may not be in the configuration any more."""
        return accounts_of(self._config, analyst, table if table in self._config.tables else None)

    def _may_see(self, analyst: str, now: datetime, table: str, row_filter: str) -> bool:
        """Whether an analyst may still ask for what a stored answer of hers counts: its table, and these rows of it."""
        tables = self._config.tables_of(analyst)
        if tables is not None and table not in tables:
            return False
        if self._config.analyst(analyst).where is None:
            return True
        asked = self._catalog.policy_of(analyst, now).tables.get(table)
        return asked is not None and filter_text(asked) == row_filter


def read_cursor(text: str | None) -> int | None:
    """The number in the `next` of a page."""
    if text is None:
        return None
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidArgument("cursor", "must be the `next` of the page before")
    return int(text)


def movements_of(analyst: str | None, first: date, last: date) -> Movements:
    """The movements of one analyst, or of all, from the first to the last day (UTC), both included."""
    if analyst is not None and not (
        isinstance(analyst, str) and analyst.isprintable()
    ):  # a store may not take any text
        raise InvalidArgument("analyst", "must be the name of an analyst")
    since, until = (moment_text(datetime.combine(day, time.min, UTC)) for day in (first, last + timedelta(days=1)))
    return Movements(analyst, since=since, until=until)
