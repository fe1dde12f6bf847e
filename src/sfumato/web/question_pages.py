"""The pages of a question: choosing, SQL, its price, and what happens when it is asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse, RedirectResponse, Response

from sfumato.accounting import Charge
from sfumato.errors import (
    BudgetExhausted,
    Conflict,
    EngineFailed,
    Failed,
    InvalidArgument,
    LedgerFailed,
    NotFound,
    NotSupported,
    Refused,
    SfumatoError,
    TableNotFound,
)
from sfumato.problems import problem
from sfumato.query.policy import Policy
from sfumato.query.serial import read_question
from sfumato.query.sql.write import write_sql
from sfumato.show import visible
from sfumato.web import asking, words
from sfumato.web.answer_pages import SHA, recall, show_new_answer
from sfumato.web.asking import Question
from sfumato.web.frame import PageCall
from sfumato.web.proposals import Proposal, describe_sql
from sfumato.web.rendering import HEADERS
from sfumato.wire import Answer, Estimate


def show_ask(call: PageCall) -> Response:
    """The page of questions, about the table of the link. Filters are never in an address."""
    question = Question(table=call.request.query_params.get("table", ""), sql="")
    way = call.request.query_params.get("way")
    policy = call.policy()
    question = asking.complete(question, policy)
    if way == "sql":
        question = replace(question, way="sql", sql=_sql_or_nothing(question, policy))
    return _ask_page(call, question)


def change_question(call: PageCall) -> Response:
    """The page of questions again, with what was chosen or typed, and what was asked of it: a price, another way."""
    question, policy, action = asking.read_fields(call.fields), call.policy(), call.first("action")
    said = ""
    if action == "sql":
        try:
            question = replace(question, way="sql", sql=asking.to_sql(question, policy))
        except (Refused, InvalidArgument) as error:
            return _refused_page(call, question, error)
    elif action == "form":
        found = asking.to_form(question.sql, policy)
        if found is None and question.sql.strip():
            said = "The form cannot say this question, such as OR or arithmetic, so it stays in SQL."
        else:
            question = found or replace(asking.complete(question, policy), way="form")
    if question.way == "form":
        question = asking.complete(question, policy)
    if action == "price":
        try:
            return _ask_page(
                call, question, estimate=call.session.estimate(question.request(policy), analyst=call.analyst)
            )
        except (Refused, InvalidArgument) as error:
            return _refused_page(call, question, error)
    return _ask_page(call, question, said=said)


def show_price(call: PageCall) -> Response:
    """The price of what is typed at this moment, as text for the script."""
    question, policy = asking.read_fields(call.fields), call.policy()
    try:
        sql = asking.to_sql(question, policy)
        estimate = call.session.estimate(question.request(policy), analyst=call.analyst)
    except (Refused, InvalidArgument) as error:
        return _json({"refused": visible(str(error)), "at": list(getattr(error, "at", None) or [])})
    return _json({"lines": _shown(words.describe_estimate(estimate)), "fits": words.fits(estimate), "sql": sql})


def list_words(call: PageCall) -> Response:
    """What completion offers: tables, columns, measures and the values of public domains."""
    tables = call.session.tables(call.analyst, role=call.caller.principal.role).rows
    listed = [
        {
            "name": table.table,
            "columns": [
                {"name": each["name"], "type": each["type"], "values": _values(each["domain"])}
                for each in table.columns
            ],
            "measures": [each["name"] for each in table.measures],
        }
        for table in tables
    ]
    return _json({"tables": listed})


def _values(domain: Any) -> list[Any]:
    return [] if domain == "unknown" else list(domain)


def ask(call: PageCall) -> Response:
    """Answer the question of a form, and show the answer under its own address.

    The form's key is bound to the question: the same form sent twice is one call, and another question is another.
    """
    question, policy = asking.read_fields(call.fields), call.policy()
    try:
        request = question.request(policy)
        body = json.dumps(request, sort_keys=True).encode()
        key = hashlib.sha256(call.first("once").encode() + body).hexdigest() if call.first("once") else None
        answer = call.calls.answer(call.caller, request, key, body)
    except (NotSupported, TableNotFound, BudgetExhausted, InvalidArgument, Conflict) as error:
        return _refused_page(call, question, error)
    except (EngineFailed, LedgerFailed, Failed) as error:
        call.record.problem = "failed"
        return _ask_page(call, question, status=503, failed=_failure(error))
    digest = answer.receipt.digest
    if _is_stored(call, answer):
        return RedirectResponse(f"/answers/{digest.removeprefix(SHA)}", 303, HEADERS)
    return show_new_answer(call, answer, question.sql if question.way == "sql" else "")


def _is_stored(call: PageCall, answer: Answer) -> bool:
    """Whether the address of the answer shows these rows: what SQL computes after the core is not stored.

    In the order of the draw, in which a form gets them, or in that of the counts, which SQL asks for.
    """
    digest = answer.receipt.digest
    try:
        drawn, (ordered, _) = call.session.recall(digest, analyst=call.analyst), recall(call, digest)
    except NotFound:
        return False
    return drawn.columns == answer.columns and answer.rows in (drawn.rows, ordered.rows)


def _failure(error: SfumatoError) -> str:
    return problem(error).detail


def _refused_page(call: PageCall, question: Question, error: SfumatoError) -> Response:
    """What was refused, why, and what can be asked instead. Nothing was read and nothing was charged."""
    found = problem(error)
    call.record.problem = found.type.rpartition("/")[2]
    ways = list(_ways_out(call, getattr(error, "instead", ())))
    exhausted = error if isinstance(error, BudgetExhausted) else None
    asked, left = (getattr(exhausted, name, None) for name in ("asked", "left"))
    refusal = {
        "title": "Not enough is left" if exhausted else "This cannot be answered",
        "words": found.detail,
        "asked": words.price(asked) if isinstance(asked, Charge) else "",
        "left": words.price(left) if isinstance(left, Charge) else "",
        "resets": None if exhausted is None else exhausted.resets,
        "at": getattr(error, "at", None),
        "ways": ways,
    }
    return _ask_page(call, question, status=found.status if found.status >= 400 else 422, refusal=refusal)


def _ways_out(call: PageCall, instead: Sequence[Mapping[str, Any]]) -> Iterator[Proposal]:
    policy = call.policy()
    for request in instead:
        try:
            statement = read_question(request, policy)
            sql = str(request["sql"]) if "sql" in request else write_sql(statement.core, policy)
            estimate = call.session.estimate(dict(request), analyst=call.analyst)
        except (Refused, InvalidArgument):
            continue
        yield Proposal(sql, describe_sql(sql, policy), words.describe_estimate(estimate)["price"])


def _ask_page(
    call: PageCall,
    question: Question,
    *,
    status: int = 200,
    estimate: Estimate | None = None,
    refusal: Mapping[str, Any] | None = None,
    failed: str = "",
    said: str = "",
) -> Response:
    policy = call.policy()
    tables = call.session.tables(call.analyst, role=call.caller.principal.role).rows
    table = next((each for each in tables if each.table == question.table), None)
    heading = "Refused" if refusal else "Not answered" if failed else "Ask"
    return call.page(
        "ask.html",
        heading,
        status,
        here="/ask",
        question=question,
        tables=tables,
        table=table,
        most=policy.tables[question.table].max_k if question.table in policy.tables else 0,
        shapes=asking.SHAPES,
        comparisons=asking.COMPARISONS,
        estimate=None if estimate is None else words.describe_estimate(estimate),
        fits=estimate is None or words.fits(estimate),
        refusal=refusal,
        failed=failed,
        said=said,
        can_ask=call.may("ask"),
        sql=_sql_or_nothing(question, policy),
        request_id=call.record.request_id,
    )


def _sql_or_nothing(question: Question, policy: Policy) -> str:
    try:
        return asking.to_sql(question, policy)
    except (Refused, InvalidArgument):
        return ""


def _shown(lines: Mapping[str, str]) -> dict[str, str]:
    return {name: visible(text) for name, text in lines.items()}


def _json(value: Any) -> Response:
    return JSONResponse(value, headers=HEADERS)
