"""`sfumato ask`: a question in SQL or as JSON, answered."""

from __future__ import annotations

import click

from sfumato.cli.options import chart_path, read_question, save_chart, with_chart, with_question
from sfumato.cli.output import print_result, with_json
from sfumato.errors import InvalidArgument


@click.command("ask")
@with_question
@with_chart()
@with_json
def ask(as_json: bool, config: str, analyst: str, sql: str | None, request: str | None, chart: str | None) -> None:
    """Ask a question and get a noisy answer.

    The answer says how large its noise is, what it cost and what is left. The same question again gives the same
    answer and costs nothing.

    \b
    Which articles do the most members read?
      sfumato ask --analyst anna "SELECT article, COUNT(DISTINCT member_id)
        FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 10"

    \b
    The same as JSON:
      echo '{"type": "top_k", "table": "engagements", "by": "article",
        "measure": "members", "k": 10}' | sfumato ask --analyst anna --request -
    """
    question = read_question(sql, request)
    picture = chart_path(chart)
    from sfumato.cli.terminal.answer import render_answer
    from sfumato.session import Session

    with Session(config) as session:
        if picture is not None and not session.estimate(question, analyst=analyst).error95:
            raise InvalidArgument("--chart", "this list has no counts to draw; ask with counts, or without --chart")
        answer = session.ask(question, analyst=analyst)
    if picture is not None:
        save_chart(answer.chart(), picture, hint="; the answer is paid for, so asking again is free")
    print_result(answer.to_dict(), lambda: render_answer(answer), as_json=as_json)
