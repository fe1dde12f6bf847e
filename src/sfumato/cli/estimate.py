"""`sfumato estimate`: what a question would cost."""

from __future__ import annotations

import click

from sfumato.cli.options import read_question, with_question
from sfumato.cli.output import print_result, with_json


@click.command("estimate")
@with_question
@with_json
def estimate(
    as_json: bool,
    config: str,
    analyst: str,
    sql: str | None,
    request: str | None,
    params: tuple[str, ...],
) -> None:
    """Show what a question would cost and how accurate it would be. Free.

    No row is read: the estimate does not depend on the data.

    \b
      sfumato estimate --analyst anna "SELECT article, COUNT(DISTINCT member_id)
        FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 10"
    """
    question = read_question(sql, request, params)
    from sfumato.cli.terminal.answer import render_estimate
    from sfumato.session import Session

    with Session(config, finish=False) as session:
        result = session.estimate(question, analyst=analyst)
    print_result(result.to_dict(), lambda: render_estimate(result), as_json=as_json)
