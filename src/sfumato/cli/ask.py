"""`sfumato ask`: a question in SQL or as JSON, answered."""

from __future__ import annotations

import click

from sfumato.cli.options import chart_path, read_question, save_chart, with_chart, with_question
from sfumato.cli.output import print_result, with_json
from sfumato.errors import InvalidArgument


@click.command("ask")
@with_question
@with_chart()
@click.option("--csv", "as_csv", is_flag=True, help="Print the rows as CSV, with both ends of the 95 % interval.")
@with_json
def ask(
    as_json: bool,
    as_csv: bool,
    config: str,
    analyst: str,
    sql: str | None,
    request: str | None,
    params: tuple[str, ...],
    chart: str | None,
) -> None:
    """Ask a question and get a noisy answer.

    The answer says how large its noise is, what it cost and what is left. The same question again gives the same
    answer and costs nothing.

    \b
    Which articles do the most members read?
      sfumato ask --analyst anna "SELECT article, COUNT(DISTINCT member_id)
        FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 10"

    \b
    With a value for a parameter:
      sfumato ask --analyst anna --param region=emea "SELECT article, members
        FROM engagements WHERE region = :region GROUP BY article LIMIT 10"

    \b
    The question without a filter as JSON:
      echo '{"type": "top_k", "table": "engagements", "by": "article",
        "measure": "members", "k": 10}' | sfumato ask --analyst anna --request -
    """
    if as_csv and as_json:
        raise InvalidArgument("--csv", "and --json exclude each other")
    question = read_question(sql, request, params)
    picture = chart_path(chart)
    from sfumato.cli.terminal.answer import render_answer
    from sfumato.session import Session

    with Session(config) as session:
        if picture is not None and not session.estimate(question, analyst=analyst).error95:
            raise InvalidArgument("--chart", "this list has no counts to draw; ask with counts, or without --chart")
        answer = session.ask(question, analyst=analyst)
    if picture is not None:
        save_chart(answer.chart(), picture, hint="; the answer is paid for, so asking again is free")
    if as_csv:
        click.echo(answer.to_csv().replace("\r\n", "\n"), nl=False)
        return
    print_result(answer.to_dict(), lambda: render_answer(answer), as_json=as_json)
