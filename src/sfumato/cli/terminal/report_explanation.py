"""What a report promises, as a page for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from sfumato.cli.output import items, paragraphs
from sfumato.cli.terminal import Words, indented
from sfumato.cli.terminal.reports import listing
from sfumato.reports.explain import ReportExplanation, amount, joint_statistics, meaning, not_covered


def explanation(explained: ReportExplanation, standing: str) -> RenderableType:
    """The sum, its factors, what it means, and what it does not cover."""
    policy, promise = explained.policy, explained.promise
    whole = "over all that is ever asked under this policy"
    head = f"{policy.name}: epsilon {amount(promise.epsilon)} for one {promise.unit}, {whole}"
    parts: list[RenderableType] = [
        *(Words(head, "bold", cropped=False), ""),
        *(indented(Words(explained.formula, cropped=False)), ""),
        *(indented(_factors(explained)), ""),
        *(paragraphs(" ".join(joint_statistics(policy))), ""),
    ]
    if policy.attributes:
        parts += [indented(_attributes(explained)), ""]
    parts += [indented(_epsilons(explained)), ""]
    parts += [indented(_versions(explained)), "", paragraphs(_sealed(explained, standing)), ""]
    parts += [paragraphs("What it means:"), "", items(meaning(explained)), ""]
    return Group(*parts, paragraphs("What it does not cover:"), "", items(not_covered(explained)))


def _factors(explained: ReportExplanation) -> Table:
    grid = listing("factor", "", "why", numbers=(0,))
    for factor in explained.factors:
        cells = amount(factor.number), _bare(factor.words), factor.why
        grid.add_row(*(Words(cell, cropped=False) for cell in cells))
    return grid


def _bare(words: str) -> str:
    """A sum without its brackets, which it needs only in a product."""
    return words[1:-1] if words.startswith("(") else words


def _attributes(explained: ReportExplanation) -> Table:
    grid = listing("attribute", "values", "of one event", numbers=(1,))
    for each in explained.policy.attributes.values():
        cells = each.name, f"{len(each.domain):,}", f"at most {each.max_values:,}"
        grid.add_row(*map(Words, cells))
    return grid


def _epsilons(explained: ReportExplanation) -> Table:
    policy = explained.policy
    levels = policy.calendar.levels
    grid = listing("epsilon of a cell", *levels, numbers=range(1, len(levels) + 1))
    for name in policy.statistics:
        grid.add_row(Words(name), *(Words(amount(policy.epsilon(name, level))) for level in levels))
    return grid


def _versions(explained: ReportExplanation) -> Table:
    """What each further seal comes to."""
    unit, most = explained.promise.unit, explained.promise.versions
    grid = listing("versions", f"epsilon of one {unit}", "", numbers=(0, 1))
    reached = explained.sealed[1] if explained.sealed else 0
    for count in explained.versions:
        told = [*(["reached"] if count == reached else []), *(["max_versions"] if count == most else [])]
        grid.add_row(Words(f"{count:,}"), Words(amount(explained.after(count))), Words(", ".join(told), "dim"))
    return grid


def _sealed(explained: ReportExplanation, standing: str) -> str:
    if explained.sealed is None:
        return standing
    places, highest = explained.sealed
    if not places:
        return "Nothing is sealed yet."
    return f"{places:,} place{' is' if places == 1 else 's are'} sealed, the highest in version {highest}."
