"""The page of an answer, and what can be saved of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replace_fields
from starlette.responses import Response

from sfumato.errors import InvalidArgument, NotFound, Refused
from sfumato.ledger.types import KeptRequest
from sfumato.service.media import CSV
from sfumato.show import Figures, chart, count_interval
from sfumato.web import asking, words
from sfumato.web.frame import PageCall
from sfumato.web.proposals import Proposal, describe_sql
from sfumato.web.rendering import NARROW, WIDE, download, picture
from sfumato.wire import Answer

SHA = "sha256:"
MAX_BARS = 40


def recall(call: PageCall, digest: str) -> tuple[Answer, KeptRequest]:
    """A stored answer and its question. The largest groups come in the order of their counts, as its SQL says."""
    answer = call.session.recall(digest, analyst=call.analyst)
    kept = call.session.question(digest, analyst=call.analyst)
    measure = answer.measure
    if measure is not None and (kept.request or {}).get("type") == "top_k":
        answer = replace_fields(answer, rows=sorted(answer.rows, key=lambda row: row[measure], reverse=True))
    return answer, kept


def show_answer(call: PageCall) -> Response:
    answer, kept = recall(call, f"{SHA}{call.request.path_params['digest']}")
    return show_new_answer(call, answer, kept.sql or "", kept.request)


def show_new_answer(call: PageCall, answer: Answer, sql: str, request: Mapping[str, Any] | None = None) -> Response:
    """The page of an answer. Without the `request` that is stored with it, it has no address of its own."""
    policy, figures = call.policy(), answer.figures()
    drawn = _draw(answer, figures)
    now = call.session.now()
    version = answer.receipt.data_version
    return call.page(
        "answer.html",
        "Answer",
        here="/history",
        answer=answer,
        asked=words.describe_request(request, sql) if request else describe_sql(sql, policy) if sql else "",
        sql=sql,
        figures=figures,
        rows=[_row(answer, row) for row in answer.rows],
        columns=list(answer.columns),
        bounded=[name for name in answer.columns if answer.errors.get(name) is not None],
        pictures=drawn,
        drawn=min(len(figures.keys), MAX_BARS),
        digest=answer.receipt.digest.removeprefix(SHA),
        is_stored=request is not None,
        charge=words.price(answer.receipt.charge),
        version=version,
        again=_again(call, sql) if sql else None,
        more=[*_more(call, sql)] if request is not None else [],
        snippets=_snippets(call, sql) if sql else {},
        can_ask=call.may("ask"),
        now=now,
    )


def _draw(answer: Answer, figures: Figures) -> list[Any]:
    """The largest rows as bars, for wide paper and for narrow."""
    if figures.measure is None or not figures.keys:
        return []
    order = sorted(range(len(figures.keys)), key=lambda row: -figures.counts[row])[:MAX_BARS]
    some = replace(
        figures,
        keys=tuple(figures.keys[row] for row in order),
        counts=tuple(figures.counts[row] for row in order),
        intervals=tuple(figures.intervals[row] for row in order) if figures.intervals else (),
    )
    drawn = chart(some, title="")
    wide, narrow = ((WIDE, "wide"), (NARROW, "narrow"))
    return [picture(drawn.to_page_svg(width=width, classes=(name,))) for width, name in (wide, narrow)]


def _row(answer: Answer, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells of a row, each with both ends of its interval where they are known."""
    cells: list[dict[str, Any]] = []
    for name in answer.columns:
        value, error = row[name], answer.errors.get(name)
        ends = None
        if error is not None and value is not None:
            ends = count_interval(value, error, signed=name in answer.receipt.signed)
        cells.append(
            {"value": value, "is_number": isinstance(value, int | float) and not isinstance(value, bool), "ends": ends}
        )
    return cells


def _again(call: PageCall, sql: str) -> str | None:
    """The price of the same question where its answer is of an earlier version of the data; None where it is not."""
    if not call.may("ask"):
        return None
    try:
        estimate = call.session.estimate({"sql": sql}, analyst=call.analyst)
    except (Refused, InvalidArgument):
        return None
    return words.price_range(estimate.least, estimate.worst) if estimate.worst else None


def _more(call: PageCall, sql: str) -> Iterator[Proposal]:
    """Questions that follow from this one, each with its price: ten more, and names without counts or with them."""
    policy = call.policy()
    form = asking.to_form(sql, policy)
    if form is None or form.shape != "top_k" or not call.may("ask"):
        return
    longest = policy.tables[form.table].max_k
    k = min(int(form.k) + 10, longest)
    others = [(f"{k - int(form.k)} more", replace(form, k=str(k)))] if k > int(form.k) else []
    others.append(
        ("the names without counts", replace(form, counts=False))
        if form.counts
        else ("with counts", replace(form, counts=True))
    )
    for name, other in others:
        try:
            written = asking.to_sql(other, policy)
            estimate = call.session.estimate({"sql": written}, analyst=call.analyst)
        except (Refused, InvalidArgument):
            continue
        yield Proposal(written, name, words.describe_estimate(estimate)["price"])


def _snippets(call: PageCall, sql: str) -> dict[str, str]:
    """The question as SQL, in Python and for a shell."""
    origin = call.address.origin
    body = json.dumps({"sql": sql})
    quoted = "'" + body.replace("'", "'\\''") + "'"
    return {
        "SQL": sql,
        "Python": f"import sfumato\n\nclient = sfumato.Client({origin!r})  # the key is in SFUMATO_KEY\n"
        f"answer = client.ask({sql!r})",
        "curl": f'curl {origin}/v1/answers -H "Authorization: Bearer $SFUMATO_KEY" \\\n'
        f"  -H 'Content-Type: application/json' -d {quoted}",
    }


def save_answer(call: PageCall) -> Response:
    """The rows as CSV, the picture as SVG, or all of it as JSON."""
    digest, file = call.request.path_params["digest"], call.request.path_params["file"]
    answer, _ = recall(call, f"{SHA}{digest}")
    if file == "rows.csv":
        return download(answer.to_csv(), f"answer-{digest[:12]}.csv", CSV)
    if file == "answer.json":
        return download(answer.to_json(), f"answer-{digest[:12]}.json", "application/json")
    if file == "picture.svg" and answer.measure is not None:
        return download(answer.chart().to_svg(), f"answer-{digest[:12]}.svg", "image/svg+xml")
    raise NotFound("")
