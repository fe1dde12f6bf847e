"""Reports: numbers of entities by attribute and over time, which stay what they were.

    question -> calendar and entities -> cells (stored, or counted, drawn and stored now) -> consistency -> answer

A report debits no budget. Everything that ever leaves is a function of its stored cells, and these have one guarantee
(`sfumato.query.reports.policy.guarantee`), which every answer carries. So it does not matter what is asked, how often
and by which analyst.
"""

from sfumato.reports.reports import Reports

__all__ = ["Reports"]
