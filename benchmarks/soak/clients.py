"""The clients of the soak: what replies they accept, and what they remember of receipts and rows."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from benchmarks.soak.accidents import Calm
from benchmarks.soak.shop import ANALYSTS, TABLES
from sfumato import Histogram, TopK, Total
from sfumato.accounting import Charge
from sfumato.client import Client
from sfumato.client.exchange import Call, Lost, ServiceReply
from sfumato.errors import BudgetExhausted, SfumatoError
from sfumato.wire import Answer

KINDS = ("top", "histogram", "total")
LENGTHS = (3, 15)  # of lists: the longer one ends early, and costs less than its worst case
TIMEOUT_S, MAX_PAUSE_S, RETRIES = 12, 5, 60
CALLS_PER_CONNECTION = 20
MAX_RECENT = 6  # questions that another client may be asking at this moment
UNASKED, FIRST = 99, 103  # numbers of questions: of those that are only estimated, and of those that are asked


@dataclass(frozen=True, order=True)
class Question:
    """A question about all rows. Every number makes another one; a longer list is more of the same."""

    table: str
    number: int
    k: int

    @property
    def kind(self) -> str:
        return KINDS[self.number % len(KINDS)]

    def request(self) -> TopK | Histogram | Total:
        where = {"n": {"ne": self.number}}
        if self.kind == "top":
            return TopK(self.table, by="article", measure="members", where=where, k=self.k)
        if self.kind == "histogram":
            return Histogram(self.table, by="region", measure="members", where=where)
        return Total(self.table, measure="members", where=where)


@dataclass
class Seen:
    """What all clients have seen so far. Thread-safe."""

    calm: Calm
    counts: Counter[str] = field(default_factory=Counter)
    longest_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    charged: dict[str, Charge] = field(default_factory=lambda: defaultdict(Charge))  # by analyst
    answered: dict[str, dict[tuple[str, int], int]] = field(default_factory=lambda: defaultdict(dict))
    rows: dict[Any, list[dict[str, Any]]] = field(default_factory=dict)
    worst: dict[tuple[str, int], Charge] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST))
    recent: deque[int] = field(default_factory=lambda: deque([FIRST - 1], maxlen=MAX_RECENT))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_outcome(self, call: Call[Any], outcome: ServiceReply | Lost, seconds: float) -> None:
        """Count one exchange. What the interface does not promise is an error; so is a failure while all is well."""
        if isinstance(outcome, Lost):
            kind, is_promised, is_failure = "lost", True, True
        else:
            kind, headers = str(outcome.status), outcome.headers
            waits = headers.get("retry-after", "").isdigit()
            is_problem = headers.get("content-type") == "application/problem+json"
            is_failure = outcome.status == 503
            is_promised = outcome.status == 200 or (is_problem and (outcome.status == 403 or waits))
        with self.lock:
            self.counts[kind] += 1
            self.longest_s[kind] = max(self.longest_s[kind], seconds)
            if not is_promised or (is_failure and self.calm.is_quiet()):
                self.errors.append(f"{call.method} {call.path}: {kind} after {seconds:.1f} s: {outcome}"[:500])

    def add_answer(self, analyst: str, question: Question, answer: Answer) -> None:
        with self.lock:
            self.counts["answers"] += 1
            self.counts["repeats"] += answer.receipt.repeat
            self.charged[analyst] += answer.receipt.charge
            asked = self.answered[ANALYSTS[analyst]]
            name = question.table, question.number
            asked[name] = max(asked.get(name, 0), question.k)
        self.add_rows(name, answer.rows)

    def add_rows(self, name: Any, rows: Any) -> None:
        """A question has one answer: what is shown later is the same, or longer, or a part of it."""
        found = [dict(row) for row in rows]
        with self.lock:
            known = self.rows.get(name, [])
            shorter, longer = sorted((known, found), key=len)
            if longer[: len(shorter)] != shorter:
                self.errors.append(f"{name} has two answers")
            self.rows[name] = longer

    def spending(self) -> dict[str, Charge]:
        """What each account has spent, by the receipts.

        An analyst pays what her answers revealed. An organisation pays the worst case of each question once, and so
        does the cap for each organisation that asked.
        """
        total: dict[str, Charge] = defaultdict(Charge)
        for analyst, charge in self.charged.items():
            total[f"analyst:{analyst}"] += charge
        for payer, asked in self.answered.items():
            for (table, number), k in asked.items():
                worst = self.worst[KINDS[number % len(KINDS)], k]
                total[f"table:{table}"] += worst
                if payer.startswith("organisation:"):
                    total[payer] += worst
        return total

    def __str__(self) -> str:
        words_of = {"lost": "lost connections", "503": "503", "403": "refusals", "409": "409", "429": "429"}
        failures = ", ".join(
            f"{self.counts[kind]} {words} (longest {self.longest_s[kind]:.1f} s)"
            for kind, words in words_of.items()
            if self.counts[kind]
        )
        counts = self.counts
        return (
            f"{counts['answers']:,} answers, {counts['repeats']:,} of them repeats, {counts['reports']:,} reports, "
            f"{failures or 'no failure'}, longest answer {self.longest_s['200']:.1f} s"
        )


class WatchedClient(Client):
    """The SDK, with every exchange counted. One idempotency key per call, through all of its retries."""

    def __init__(self, url: str, key: str, seen: Seen) -> None:
        def wait(seconds: float) -> None:
            time.sleep(min(seconds, MAX_PAUSE_S))

        super().__init__(url, key, timeout_s=TIMEOUT_S, retries=RETRIES, sleep=wait)
        self._seen = seen

    def _send(self, call: Call[Any]) -> ServiceReply | Lost:
        started = time.monotonic()
        outcome = super()._send(call)
        self._seen.add_outcome(call, outcome, time.monotonic() - started)
        return outcome


def ask_until(
    stopped: threading.Event, url: str, key: str, analyst: str, seen: Seen, seed: int, pause_s: float
) -> None:
    """Be one client until `stopped`; its calls are `pause_s` apart on average."""
    dice = random.Random(seed)
    while not stopped.is_set() and not seen.errors:
        with WatchedClient(url, key, seen) as client:  # a new connection may lead to another worker
            for _ in range(CALLS_PER_CONNECTION):
                if stopped.wait(dice.expovariate(1 / pause_s)):
                    return
                try:
                    _call(client, analyst, seen, dice)
                except SfumatoError as error:
                    with seen.lock:
                        seen.errors.append(f"{analyst}: {type(error).__name__}: {error}")


def _call(client: Client, analyst: str, seen: Seen, dice: random.Random) -> None:
    roll = dice.random()
    if not ANALYSTS[analyst] or roll < 0.1:
        _report(client, seen, dice)
    elif roll < 0.15:
        client.estimate(_choose(seen, dice).request())
        client.budget()
        client.charges(rows=10)
    else:
        question = _choose(seen, dice)
        if (question.kind, question.k) not in seen.worst:
            unasked = Question(question.table, UNASKED + KINDS.index(question.kind), question.k)
            seen.worst[question.kind, question.k] = client.estimate(unasked.request()).worst
        try:
            seen.add_answer(analyst, question, client.ask(question.request()))
        except BudgetExhausted:
            if question.table != "scarce":
                raise


def _choose(seen: Seen, dice: random.Random) -> Question:
    """A new question, one that others may be asking at this moment, or any earlier one."""
    roll = dice.random()
    with seen.lock:
        if roll < 0.4:
            seen.recent.append(next(seen.numbers))
        newest = seen.recent[-1]
        number = newest if roll < 0.4 else dice.choice(seen.recent) if roll < 0.6 else dice.randint(FIRST - 1, newest)
    table = TABLES[dice.random() < 0.05]
    kind = KINDS[number % len(KINDS)]
    return Question(table, number, dice.choice(LENGTHS) if kind == "top" else 0)


def _report(client: Client, seen: Seen, dice: random.Random) -> None:
    month, day = dice.randint(1, 9), dice.randint(1, 20)
    question = {
        "report": "ads",
        "statistics": ["impressions", "clicks"],
        "entity": dice.choice([{"account": "acme"}, {"account": "globex"}, {"campaign": "spring"}]),
        "start": f"2026-{month:02}-{day:02}",
        "end": f"2026-{month:02}-{day + dice.randint(1, 7):02}",
        "granularity": "day",
    }
    rows = client.report(question).rows
    with seen.lock:
        seen.counts["reports"] += 1
    for row in rows:
        seen.add_rows((str(question["entity"]), row["start"]), [row])
