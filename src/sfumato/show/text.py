"""Text for readers: made safe, and always in the same words.

Released text is still data that outsiders wrote. Control characters in it are written as escapes.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from fractions import Fraction
from typing import Any

MAX_DIGITS_SHOWN = 8
NO_GROUPS = "No group stands out of the noise, so none is shown."
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
NO_COUNTS = "Small counts are not shown, and all of these are small."


def visible(text: str) -> str:
    """`text` with control, format and unassigned characters and line breaks written as escapes.

    >>> visible("green\\x1b[2J")
    'green\\\\x1b[2J'
    """
    return "".join(
        char.encode("unicode_escape").decode()
        if (category := unicodedata.category(char)).startswith("C") or category in ("Zl", "Zp")
        else char
        for char in text
    )


def key_label(key: str) -> str:
    """The label of a key; the empty text has one too.

    >>> key_label("")
    '(empty)'
    """
    return visible(key) or "(empty)"


def distinct(labels: Sequence[str]) -> list[str]:
    """The labels, with a number where one repeats: equal labels would be drawn as one.

    >>> distinct(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    names: dict[str, None] = {}
    for plain in labels:
        others = (f"{plain} ({number})" for number in itertools.count(2))
        names[next(name for name in itertools.chain([plain], others) if name not in names)] = None
    return [*names]


def day_name(day: date) -> str:
    """A day in words, the same in every locale.

    >>> day_name(date(2026, 11, 7))
    '7 November'
    """
    return f"{day.day} {month_name(day)}"


def month_name(day: date) -> str:
    return _MONTHS[day.month - 1]


def heading(name: str) -> str:
    """The name of a column, as a heading.

    >>> heading("job_title")
    'job title'
    """
    return visible(name.replace("_", " "))


def join_words(names: Sequence[str]) -> str:
    """Names as a part of a sentence.

    >>> join_words(["a"]), join_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def cell(value: object) -> str:
    """A value of a key column as text, without digits that no reader needs.

    >>> [cell(value) for value in (True, None, 0.25, 33.333333333333336)]
    ['true', '-', '0.25', '33.33']
    """
    if value is None:
        return "-"
    text = str(value)
    if isinstance(value, float) and len(text) > MAX_DIGITS_SHOWN:
        return figure(value)
    return text.lower() if isinstance(value, bool) else text


def cell_within(value: Any, error: float | None) -> str:
    """A cell, with the half-width of its error bar where it has one.

    >>> cell_within(33.333333333333336, 1.5), cell_within("emea", None)
    ('33.33 ± 1.5', 'emea')
    """
    return cell(value) if value is None or error is None else f"{figure(value)} {plus_minus(error)}"


def figure(number: float) -> str:
    """A number for readers: a whole number in full, others with four digits or rounded to a whole number.

    >>> [figure(number) for number in (1234567, 1234567.8, 12.3456, 0.00123456)]
    ['1,234,567', '1,234,568', '12.35', '0.001235']
    """
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:,.0f}" if 999.95 <= abs(number) < 1e15 else f"{number:.4g}"


def percent(share: float) -> str:
    """A share in percent. A small one is never 0%, and nearly all is never 100%.

    >>> [percent(share) for share in (0, 0.0004, 0.066, 0.25, 0.9996, 1)]
    ['0%', '<0.1%', '6.6%', '25.0%', '>99.9%', '100%']
    """
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{100 * share:.1f}%" if 0 < share < 1 else f"{share:.0%}"


def plural(amount: int | Fraction, noun: str) -> str:
    """A number with its noun: 1 unit, 3,000 units, 3/2 units."""
    if amount.denominator != 1:
        return f"{amount} {noun}s"
    return f"{int(amount):,} {noun}{'' if amount == 1 else 's'}"


def plus_minus(error: float) -> str:
    """The half-width of an error bar.

    >>> plus_minus(1200)
    '± 1,200'
    """
    return f"± {figure(error)}"


def noise_within(errors: float | Mapping[str, float]) -> str:
    """How large the noise is, in words.

    `errors` is the half-width that holds with 95 %, or one per statistic. Equal ones are said once.

    >>> noise_within(26)
    'the noise is within ± 26, 19 times in 20'
    >>> noise_within({"clicks": 12, "impressions": 30})
    'the noise of clicks is within ± 12, of impressions within ± 30, 19 times in 20'
    """
    by_name = {"": errors} if isinstance(errors, int | float) else errors
    if len({*by_name.values()}) == 1:
        return f"the noise is within {plus_minus(next(iter(by_name.values())))}, 19 times in 20"
    (first, error), *rest = by_name.items()
    parts = [f"the noise of {heading(first)} is within {plus_minus(error)}"]
    parts += [f"of {heading(name)} within {plus_minus(error)}" for name, error in rest]
    return f"{', '.join(parts)}, 19 times in 20"


def has_clock_time(moment: date) -> bool:
    """Whether it is not the start of a day."""
    return isinstance(moment, datetime) and moment.time() != time()


def moment_text(moment: date, *, with_time: bool) -> str:
    """A date, or a moment to the minute.

    >>> moment_text(datetime(2026, 10, 1, 3), with_time=True)
    '2026-10-01 03:00'
    """
    whole = moment.isoformat(" ", "minutes") if isinstance(moment, datetime) else moment.isoformat()
    return whole if with_time else whole[:10]


def at_delta(delta: float | Fraction) -> str:
    """What follows an epsilon in a sentence; nothing where there is no delta."""
    return f" at delta {float(delta):g}" if delta else ""


def describe_report_promise(promise: Mapping[str, Any]) -> str:
    """What a report promises, as its receipts have it, in a few words."""
    return f"epsilon {promise['epsilon']:,.6g}{at_delta(promise.get('delta', 0))} for one {promise['unit']}"


def partial_steps(places: Iterable[int], steps: int, level: str) -> str:
    """Which of `steps` steps are shorter than their level of time, in words; empty without `places`.

    >>> partial_steps([0], 5, "week")
    'the first step is shorter than a week'
    """
    names = ["the only" if steps == 1 else "the last" if place else "the first" for place in sorted({*places})]
    verb = "step is" if len(names) == 1 else "steps are"
    length = f"{level[:-1]} hours" if level[:1].isdigit() else f"a {level}"
    return f"{' and '.join(names)} {verb} shorter than {length}" if names else ""
