"""Tables in HTML, for notebooks: plain tags and inline styles. The colours of the page hold, light or dark."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sfumato.show.figures import Figures, Sheet
from sfumato.show.text import NO_COUNTS, figure, heading, key_label, visible

MAX_ROWS = 200

_BELOW = "margin:.6em 0;font-size:.85em;line-height:1.5;opacity:.75"
_LABEL = "text-align:left;max-width:22em;overflow:hidden;text-overflow:ellipsis"
_BAR = "width:45%"


def table_html(figures: Figures, lines: Mapping[str, str]) -> str:
    """Rows with bars, and `lines` below them."""
    if not figures.keys:
        return _page(_paragraph(figures.nothing), lines)
    heads = [_cell("th", "text-align:left", _escape(heading(name))) for name in figures.by]
    rows = [[_key_cell(part) for part in key] for key in figures.keys]
    if figures.measure is not None:
        heads.append(_cell("th", "text-align:right", _escape(heading(figures.measure))))
        heads += [_cell("th", "text-align:left", figures.within_heading), _cell("th", _BAR, "")]
        for place, row in enumerate(rows):
            within = _cell("td", "text-align:left;opacity:.75", figures.within(place))
            row += [_number_cell(figure(figures.counts[place])), within, _bar_cell(figures, place)]
    return _page(_table([heads, *rows]), lines)


def report_html(sheet: Sheet, lines: Mapping[str, str]) -> str:
    """The numbers of a report with bars for the first statistic, and `lines` below them."""
    asked = sheet.titles[1]
    head = _paragraph(f"<b>{html.escape(asked)}</b>") if asked else ""
    if not sheet.shows:
        return _page(head + _paragraph(NO_COUNTS), lines)
    rest = len(sheet.rows) - MAX_ROWS
    more = _paragraph(f"and {rest:,} more rows; see to_pandas()") if rest > 0 else ""
    return _page(head + _sheet_table(sheet) + more, lines)


def _sheet_table(sheet: Sheet) -> str:
    heads = [_cell("th", "text-align:left", _escape(heading(name))) for name in sheet.columns]
    for name in sheet.measures:
        within = f' <span style="font-weight:normal;opacity:.75">{sheet.within(name)}</span>'
        heads.append(_cell("th", "text-align:right", _escape(heading(name)) + within))
    heads.append(_cell("th", _BAR, ""))
    some = replace(sheet, rows=sheet.rows[:MAX_ROWS])
    figures = some.figures(sheet.measures[0])
    bars = iter([_bar_cell(figures, row) for row in range(len(figures.counts))])
    rows = []
    for step, key, counts in some.rows:
        cells = [_key_cell(part) for part in some.row_key(step, key)]
        cells += [_number_cell("-" if count is None else figure(count)) for count in counts]
        cells.append(_cell("td", _BAR, "") if counts[0] is None else next(bars))
        rows.append(cells)
    return _table([heads, *rows])


def _page(body: str, lines: Mapping[str, str]) -> str:
    *receipt, last = (f"<b>{_escape(label)}</b> {_escape(text)}" for label, text in lines.items())
    below = f"{' · '.join(receipt)}<br>{last}"
    return f'<div style="max-width:56em">{body}<div style="{_BELOW}">{below}</div></div>'


def _paragraph(content: str) -> str:
    return f'<p style="margin:.3em 0">{content}</p>'


def _table(rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<table style="width:100%;border-collapse:collapse;background:none">{body}</table>'


def _escape(text: str) -> str:
    return html.escape(visible(text))


def _cell(tag: str, style: str, content: str) -> str:
    return f'<{tag} style="padding:.15em .7em .15em 0;white-space:nowrap;background:none;{style}">{content}</{tag}>'


def _key_cell(key: str) -> str:
    label = html.escape(key_label(key))
    return _cell("td", _LABEL, f'<span title="{label}">{label}</span>')


def _number_cell(number: str) -> str:
    return _cell("td", "text-align:right;font-variant-numeric:tabular-nums", number)


def _bar_cell(figures: Figures, row: int) -> str:
    """A bar from 0 with a whisker across the interval."""
    start, end = figures.span()
    count, (low, high) = figures.counts[row], figures.interval(row)

    def across(left: float, right: float) -> str:
        shares = (left - start) / (end - start), (right - left) / (end - start)
        return "position:absolute;left:{:.2%};width:{:.2%}".format(*shares)

    bar = f'<div style="{across(min(0, count), max(0, count))};top:15%;bottom:15%;background:#5b85b0"></div>'
    whisker = (
        f'<div style="{across(low, high)};top:30%;bottom:30%;box-sizing:border-box;'
        'border:solid currentColor;border-width:0 1px"></div>'
        f'<div style="{across(low, high)};top:50%;border-top:1px solid currentColor"></div>'
    )
    content = bar + (whisker if figures.bounded else "")
    return _cell("td", _BAR, f'<div style="position:relative;height:1.3em">{content}</div>')
