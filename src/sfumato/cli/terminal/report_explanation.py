"""Page of `sfumato report explain`: what a report promises."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from sfumato.cli.terminal.tables import plain_table
from sfumato.cli.terminal.text import Words, bullets, indent, paragraphs, stack
from sfumato.query.reports.policy import ReportPolicy
from sfumato.reports.accuracy import compare_noise, usual_errors
from sfumato.reports.explain import (
    ReportExplanation,
    amount,
    cell_parameter,
    cell_parameters,
    joint_statistics,
    meaning,
    not_covered,
)
from sfumato.show.text import at_delta

ERRORS = (
    "These are errors of one entity, on a typical day of a year to the worst: of sums of the fewest cells; with the "
    "option calendar, on the day that the range ends; and later, when the longer ranges around it are complete."
)


def render_report_explanation(explained: ReportExplanation, standing: str) -> RenderableType:
    """The sum, its factors, what it means, and what it does not cover.

    `standing` says why it is not known how much is sealed, if it is not known.
    """
    policy, promise = explained.policy, explained.promise
    levels, statistics = policy.calendar.levels, policy.statistics
    factors = plain_table("factor", "", "why", numbers=(0,))
    for factor in explained.factors:
        factors.add_row(*(Words(text, cropped=False) for text in (factor.number_text, factor.words, factor.why)))
    attributes = plain_table("attribute", "values", "of one event", numbers=(1,))
    for each in policy.attributes.values():
        attributes.add_row(*map(Words, (each.name, f"{len(each.domain):,}", f"at most {each.max_values:,}")))
    cells = plain_table(f"{cell_parameter(policy)} of a cell", *levels, numbers=range(1, len(levels) + 1))
    for name in statistics:
        cells.add_row(*map(Words, (name, *(amount(cell_parameters(policy, name)[level]) for level in levels))))
    whole = "over all that is ever asked under this policy"
    size = f"epsilon {amount(promise.epsilon)}{at_delta(promise.delta)}"
    head = f"{policy.name}: {size} for one {promise.unit}, {whole}"
    return stack(
        [
            Words(head, "bold", cropped=False),
            indent(Words(explained.formula, cropped=False)),
            indent(factors),
            paragraphs(" ".join(joint_statistics(policy))),
            *([indent(attributes)] if policy.attributes else []),
            indent(cells),
            indent(_errors_table(policy)),
            paragraphs(f"{ERRORS} {compare_noise(policy, promise)}"),
            indent(_versions_table(explained)),
            paragraphs(standing or _describe_seals(explained)),
            Group(paragraphs("What it means:"), "", bullets(meaning(explained))),
            Group(paragraphs("What it does not cover:"), "", bullets(not_covered(explained))),
        ]
    )


def _errors_table(policy: ReportPolicy) -> Table:
    """How far noise moves the usual ranges, 19 times in 20: on a typical day, and at most."""
    errors = usual_errors(policy)
    several = len({each.statistics for each in errors}) > 1
    grid = plain_table("noise of a range, 19 times in 20", "sums", "calendar", "later", numbers=(1, 2, 3))
    for each in errors:
        words = f"{each.range}, {', '.join(each.statistics)}" if several else each.range
        pairs = (each.sums, each.calendar, each.final)
        grid.add_row(Words(words), *(Words(_within(*pair)) for pair in pairs))
    return grid


def _within(typical: int, largest: int) -> str:
    return f"± {typical:,}" if typical == largest else f"± {typical:,} to {largest:,}"


def _versions_table(explained: ReportExplanation) -> Table:
    """The epsilon after each version."""
    promise = explained.promise
    most = promise.versions
    grid = plain_table("versions", f"epsilon of one {promise.unit}{at_delta(promise.delta)}", "", numbers=(0, 1))
    reached = explained.sealed[1] if explained.sealed else 0
    for count in explained.versions:
        marks = [*(["reached"] if count == reached else []), *(["max_versions"] if count == most else [])]
        grid.add_row(Words(f"{count:,}"), Words(amount(promise.after(count))), Words(", ".join(marks), "dim"))
    return grid


def _describe_seals(explained: ReportExplanation) -> str:
    places, highest = explained.sealed or (0, 0)
    if not places:
        return "Nothing is sealed yet."
    return f"{places:,} place{' is' if places == 1 else 's are'} sealed, the highest in version {highest}."
