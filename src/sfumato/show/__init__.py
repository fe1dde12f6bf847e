"""Pictures and tables of what was released: bars with their error, lines over time, as Vega-Lite charts and as HTML.

Imports only the standard library: the light client draws with it too.
"""

from sfumato.show.figures import Figures, Panel, Sheet, count_interval
from sfumato.show.grids import TextTable, figures_text, sheet_text
from sfumato.show.html import report_html, table_html
from sfumato.show.pictures import Chart
from sfumato.show.reports import report_chart
from sfumato.show.text import cell, distinct, figure, heading, key_label, noise_within, partial_steps, visible
from sfumato.show.vega import chart, steps

__all__ = [
    "Chart",
    "Figures",
    "Panel",
    "Sheet",
    "TextTable",
    "cell",
    "chart",
    "count_interval",
    "distinct",
    "figure",
    "figures_text",
    "heading",
    "key_label",
    "noise_within",
    "partial_steps",
    "report_chart",
    "report_html",
    "sheet_text",
    "steps",
    "table_html",
    "visible",
]
