"""Answers and reports as CSV and as Arrow streams: `Accept` chooses, and the receipt stays in headers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pyarrow
import pytest

from sfumato.accounting import NOTHING
from sfumato.service import media
from sfumato.service.media import ARROW, CSV, NotAcceptable, negotiate
from sfumato.service.reply import JSON
from tests.helpers.served import REGIONS, TOP, Served, break_engine, digest_of

NEGOTIATED = {
    None: JSON,
    "": JSON,
    "*/*": JSON,
    "application/json": JSON,
    "APPLICATION/JSON; charset=utf-8": JSON,
    "text/html, */*;q=0.8": JSON,
    "application/*": JSON,
    CSV: CSV,
    "text/*": CSV,
    "text/csv;header=present": CSV,
    "text/csv, application/json;q=0.9": CSV,
    "text/csv;q=0.5, application/json;q=0.9": JSON,
    "text/csv, application/json": JSON,
    "*/*, application/json;q=0": CSV,
    "application/json;q=0.000, text/csv;q=0.001": CSV,
    "application/json;q=nonsense, text/csv;q=0.1": CSV,
    "application/json;q=nan, text/csv;q=0.1": CSV,
    ARROW: ARROW,
    f"{ARROW}, text/csv;q=0.9": ARROW,
    f"text/csv, {ARROW};q=0.2, */*;q=0.1": CSV,
}
REFUSED = ("text/html", "image/*", "*/*;q=0", "csv", "application/json;q=0", "text/csv;q=2", ",")


@pytest.mark.parametrize(("accept", "chosen"), NEGOTIATED.items())
def test_accept_chooses(accept: str | None, chosen: str) -> None:
    assert negotiate(accept) == chosen


@pytest.mark.parametrize("accept", REFUSED)
def test_nothing_else_is_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="application/json or text/csv"):
        negotiate(accept)


def test_without_pyarrow_there_is_no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    negotiate.cache_clear()
    monkeypatch.setattr(media, "find_spec", lambda _: None)
    assert negotiate(f"{ARROW}, {CSV};q=0.1") == CSV
    with pytest.raises(NotAcceptable, match=r"pip install 'sfumato\[arrow\]'"):
        negotiate(ARROW)
    negotiate.cache_clear()


def rows_of(body: bytes) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(body.decode(), newline=""))]


def test_an_answer_as_csv_and_as_arrow(served: Served) -> None:
    key = served.key()
    plain = served.ask(key)
    text = served.ask(key, headers={"accept": CSV})
    assert text.headers["content-type"] == "text/csv; charset=utf-8"
    error, rows = plain.json["receipt"]["error95"]["members"], plain.json["rows"]
    assert rows_of(text.body) == [
        {
            "article": row["article"],
            "members": str(row["members"]),
            "members_low": str(max(row["members"] - error, 0)),
            "members_high": str(max(row["members"] + error, 0)),
        }
        for row in rows
    ]
    stream = served.ask(key, headers={"accept": ARROW})
    assert stream.headers["content-type"] == ARROW
    table = pyarrow.ipc.open_stream(stream.body).read_all()
    assert table.column_names == ["article", "members", "members_low", "members_high"]
    assert table.to_pylist() == served.session.ask(TOP, analyst="anna").to_arrow().to_pylist()
    assert table.schema.field("members").type == pyarrow.int64()


@pytest.mark.parametrize("accept", [JSON, CSV, ARROW])
def test_the_receipt_is_in_headers(served: Served, accept: str) -> None:
    key = served.key()
    reply = served.ask(key, headers={"accept": accept})
    receipt, spent = served.ask(key).json["receipt"], served.spent()
    assert reply.headers["sfumato-digest"] == receipt["digest"]
    assert reply.headers["sfumato-left-information"] == receipt["left"]["information"]
    assert reply.headers["sfumato-charge-information"] == str(spent.information) != "0"
    assert reply.headers["sfumato-charge-calls"] == str(spent.calls)
    assert reply.headers["vary"] == "Accept"


def test_another_type_is_no_other_question(served: Served) -> None:
    key = served.key()
    served.ask(key, headers={"accept": CSV})
    spent = served.spent()
    served.ask(key, headers={"accept": ARROW})
    served.ask(key)
    assert served.spent() == spent


def test_cached_replies_of_types_are_not_mixed(serving: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    served = serving(version='"daily"')
    key = served.key()
    types = (JSON, CSV, ARROW)
    warm = {each: [served.ask(key, headers={"accept": each}) for _ in range(4)][-1] for each in types}
    monkeypatch.setattr(type(served.session), "ask", lambda *_, **__: 1 / 0)
    for each in types:
        assert served.ask(key, headers={"accept": each}).lasting == warm[each].lasting
    assert served.ask(key).lasting == warm[JSON].lasting
    both = served.ask(key, headers=[("accept", "image/png"), ("accept", CSV)])
    assert both.lasting == warm[CSV].lasting
    assert served.ask(key, headers={"accept": "image/png"}).status == 406


@pytest.mark.parametrize("path", ["answers", "reports"])
def test_what_is_not_acceptable_is_not_asked(
    serving: Callable[..., Served], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serving(ads=True)
    break_engine(served, monkeypatch)
    reply = served.call("POST", f"/v1/{path}", key=served.key(), json=TOP, headers={"accept": "text/html"})
    assert (reply.status, reply.kind) == (406, "not-acceptable")
    assert served.spent() == served.reserved() == NOTHING


def test_a_stored_answer_as_csv(served: Served) -> None:
    key = served.key()
    path = f"/v1/answers/{digest_of(served.ask(key))}"
    plain, text, stream = (served.get(path, key, accept=each) for each in (JSON, CSV, ARROW))
    assert rows_of(text.body)[0]["article"] == plain.json["rows"][0]["article"]
    tags = [reply.headers["etag"] for reply in (plain, text, stream)]
    assert len({*tags}) == 3
    assert served.get(path, key, accept=CSV, if_none_match=tags[1]).status == 304
    assert served.get(path, key, accept=CSV, if_none_match=tags[0]).status == 200
    assert served.get(path, key, accept="image/png").status == 406


def test_a_report_as_csv_and_as_arrow(serving: Callable[..., Served]) -> None:
    served = serving(ads=True)
    key = served.key()
    plain = served.report(key)
    rows = rows_of(served.report(key, headers={"accept": CSV}).body)
    statistic = next(iter(plain.json["receipt"]["error95"]))
    assert [row[statistic] for row in rows] == [str(row[statistic]) for row in plain.json["rows"]]
    assert {f"{statistic}_low", f"{statistic}_high"} <= rows[0].keys()
    table = pyarrow.ipc.open_stream(served.report(key, headers={"accept": ARROW}).body).read_all()
    assert table.column_names == [*rows[0]]


def test_what_a_spreadsheet_would_run_is_text(served: Served) -> None:
    asked = {"sql": "SELECT '=1+1' AS a, '+x' AS b, '''@y' AS c, 'plain' AS d, -5 AS \"=n\""}
    [row] = rows_of(served.ask(served.key(), asked, headers={"accept": CSV}).body)
    assert row == {"a": "'=1+1", "b": "'+x", "c": "''@y", "d": "plain", "'=n": "-5"}


def test_every_group_of_a_domain_has_its_row(served: Served) -> None:
    assert len(rows_of(served.ask(served.key(), REGIONS, headers={"accept": CSV}).body)) == 3
