"""What is promised, in sentences that say no more than the numbers do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sfumato.show.text import at_delta, describe_report_promise, join_words
from sfumato.wire.guarantee import (
    AccountPromise,
    Asked,
    GroupBound,
    PersonBound,
    SourceTotal,
    Unbounded,
    Window,
)

if TYPE_CHECKING:
    from sfumato.explain import PolicyExplanation

ASKED: dict[Asked, str] = {
    "total": "one total",
    "histogram": "histogram (max_groups = 1)",
    "top_ten": "one list of ten",
    "tenth": "a tenth of the budget",
    "period": "all of it",
    "year": "a year of it",
}
PERIODS = {"daily": "per day", "weekly": "per week", "monthly": "per month", "never": "in all"}
WINDOWS: dict[Window, str] = {"day": "per day", "week": "per week", "month": "per month", "all": "in all"}
WHY_UNBOUNDED: dict[Unbounded, str] = {
    "tracked": "a budget only tracks and refuses nothing",
    "calls": "there are so many calls that their deltas add up to 1",
    "events": "a report has no cap on the events of a person (max_events_per_unit)",
    "exact-totals": "a report has exact totals",
    "units": "the tables hide different units, and what is promised to one says nothing of the other",
    "unknown": "a report's tables cannot be opened",
}
WEAK = 3  # from this epsilon on, a bet at 50:50 can be won 19 times in 20


def percent(chance: float) -> str:
    return f"{100 * chance:.2f} %"


def is_nothing(promise: AccountPromise) -> bool:
    """Whether no question is ever answered."""
    return promise.mode == "enforce" and not promise.limit


def describe_promise(promise: AccountPromise) -> str:
    """What an account promises, in a few sentences."""
    kind, _, name = promise.account.partition(":")
    who = {
        "analyst": name,
        "organisation": f"The organisation {name}, all of its analysts together,",
        "table": f"The table {name}: all who ask about it, and all releases of it, together,",
    }[kind]
    amount = f"{promise.limit} {PERIODS[promise.resets]}"
    whole = promise.bound("period")
    if whole is None:
        return (
            f"{who} has no bound at all: this budget is tracked and never refuses. The limit of {amount} is only "
            "compared with. One question alone still has its bound, but nothing limits how many are asked."
        )
    if is_nothing(promise):
        return f"{who} may spend nothing: no question is answered, and only reports tell anything."
    if whole.epsilon is None:
        return f"{who} may spend {amount}: so many calls that their deltas add up to no bound at all."
    promised = (
        f"{who} may spend {amount}. Whatever is asked with all of it, the answers are (epsilon, delta)-differentially "
        f"private for one person, with epsilon {whole.epsilon:.2f} and delta {whole.delta:.0e}. "
        "A bet at 50:50 on whether one person is in the data"
    )
    wins = percent(whole.wins)
    if whole.epsilon < WEAK:
        return f"{promised} is won with at most {wins}, whatever else is known; without any answer, with 50 %."
    return (
        f"{promised} may be won with up to {wins}. So this worst case, the whole budget used against one "
        "person by an analyst who knows all others, promises little by itself; a few answers promise much more:"
    )


def describe_groups(groups: Sequence[GroupBound]) -> str:
    """What is promised to several people together; empty if there is nothing to say."""
    if not groups:
        return ""
    return f"Several people together, over one period: {'; '.join(map(_group, groups))}."


def _group(group: GroupBound) -> str:
    if group.epsilon is None:
        return f"{group.people} people have no bound"
    bound = f"{group.people} people have epsilon {group.epsilon:,.2f} at delta {group.delta:.0e}"
    return bound if group.same_delta is not None else f"{bound}, and at the delta of one person there is none"


def describe_bound(bound: PersonBound) -> str:
    if bound.epsilon is None:
        return "no bound"
    return f"epsilon {bound.epsilon:,.2f}" + (f" at delta {bound.delta:.0e}" if bound.delta else "")


def describe_source(source: SourceTotal) -> str:
    """The total of a source, in a sentence or two."""
    tables = join_words(source.tables)
    names = f"{tables} are {len(source.tables)} names for one source. " if len(source.tables) > 1 else ""
    kinds = "questions and reports" if source.releases is None else "questions, releases and reports"
    if source.unbounded:
        why = join_words([WHY_UNBOUNDED[each] for each in source.unbounded])
        return f"{names}There is no bound for one person on all results about the rows of {tables}: {why}."
    window, total = WINDOWS[source.window], source.total
    year = "" if source.window == "all" else f", and {describe_bound(total.year)} in a year"
    return (
        f"{names}All results about the rows of {tables}, of {kinds} together: {describe_bound(total.period)} "
        f"{window}{year}, for one {source.unit or 'person'}."
    )


def describe_source_parts(source: SourceTotal) -> Iterator[str]:
    """What the numbers of a source leave open."""
    if source.reports.names and source.event_epsilon is not None:
        size = f"epsilon {source.event_epsilon:,.6g}{at_delta(source.event_delta)}"
        yield f"For one event, its reports promise {size}, over all that is ever asked."
    if source.groups:
        counted = "questions and reports" if source.reports.names else "questions"
        yield describe_groups(source.groups).replace(
            "Several people together", f"Several people together, by {counted}"
        )
    if source.views:
        them = join_words(source.views)
        verb = "is a view" if len(source.views) == 1 else "are views"
        yield f"{them} {verb}: results about the tables beneath a view are not added here, nor these to theirs."
    if source.uncapped and source.releases is not None:
        yield f"No cap bounds what is asked about {join_words(source.uncapped)} by all together."


def describe_reports(explained: PolicyExplanation) -> Iterator[str]:
    """What reports promise, beside the budgets."""
    for name, promise in explained.guarantee.reports.items():
        size = "" if promise is None else f": {describe_report_promise(promise)}"
        yield (
            f"The report {name} has its own guarantee, however often and by however many it is asked{size}. It debits "
            f"no budget; see: sfumato report explain --report {name}"
        )
    if explained.readers:
        yield f"May read every entity of the reports, as no `entities` limit them: {', '.join(explained.readers)}."


def describe_rights(explained: PolicyExplanation) -> Iterator[str]:
    """What each analyst may ask about."""
    for name, each in explained.rights.items():
        rows = "" if each.where is None else f", of rows where {each.where}"
        entities = ", of some entities" if each.some_entities else ""
        questions = f"questions about {', '.join(each.tables)}{rows}" if each.tables else "no questions"
        reports = f"the reports {', '.join(each.reports)}{entities}" if each.reports else "no reports"
        yield f"{name} ({each.role}): {questions}; {reports}."


def exclusions(explained: PolicyExplanation) -> Iterator[str]:
    """What the numbers do not cover, in a sentence or two each."""
    guarantee = explained.guarantee
    if any(each.resets != "never" and not is_nothing(each) for each in guarantee.accounts):
        yield "Periods add up. Every reset is a new budget about the same people; see the year."
    if guarantee.analyst is not None:
        yield "What others learn, and what is published, adds to it if it is shared; the owner sees the total."
    if len(guarantee.sources) > 1:
        yield "Sources add up where they are about the same people. A copy of a file is another source."
    yield "Grants add to a budget for one period and are not in this file; see: sfumato budget show."
    yield "What is released without a budget is not known here: only its own statement covers it."
    yield "Nor is it known whose rows a data frame has: its release is counted where it names their table (table=...)."
    yield (
        "The policy itself is public: the lists of values, the bounds, the versions and the names in the file. "
        "What was copied into it from the rows is not protected."
    )
    if explained.guaranteed:
        yield f"Bounds that the file calls guaranteed are not enforced: {', '.join(explained.guaranteed)}."
