"""The demo: a data set that never changes, and answers in which no exact count can be found."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from rich.console import Console

from sfumato import demo
from sfumato.accounting import NOTHING, Charge, Filter
from sfumato.errors import BudgetExhausted, InvalidArgument
from sfumato.mechanisms import Rng, context

MEMBERS = 5000
Connection = duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def data() -> Iterator[Connection]:
    with duckdb.connect() as connection:
        demo.generate(connection, MEMBERS)
        yield connection


@pytest.fixture(scope="module")
def finished() -> demo.Demo:
    return demo.run(MEMBERS, rng=keyed())


def keyed() -> Rng:
    return Rng.keyed(b"tests of the demo", context(purpose="noise"))


def one(connection: Connection, sql: str) -> Any:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def fingerprint(**arguments: int) -> str:
    with duckdb.connect() as connection:
        demo.generate(connection, **arguments)
        rows = connection.execute("SELECT * FROM engagements ORDER BY ALL").fetchall()
    return hashlib.sha256("\n".join(map(str, rows)).encode()).hexdigest()


class TestTheDataSet:
    def test_it_has_the_stated_sizes(self, data: Connection) -> None:
        events, members, titles, regions, days = one(
            data,
            "SELECT COUNT(*), COUNT(DISTINCT member_id), COUNT(DISTINCT job_title), COUNT(DISTINCT region), "
            "COUNT(DISTINCT day) FROM engagements",
        )
        assert (members, titles, regions, days) == (MEMBERS, 40, 3, 30)
        assert 8 * MEMBERS < events < 12 * MEMBERS  # 200,000 members have about two million
        assert one(data, "SELECT COUNT(DISTINCT article) FROM engagements") > 2000

    def test_its_columns_are_the_ones_the_questions_use(self, data: Connection) -> None:
        columns = {name: kind for name, kind, *_ in data.execute("DESCRIBE engagements").fetchall()}
        text = dict.fromkeys(("article", "job_title", "region"), "VARCHAR")
        assert columns == {"member_id": "BIGINT", **text, "day": "DATE"}
        assert one(data, "SELECT COUNT(*) FROM engagements WHERE COLUMNS(*) IS NULL") == 0

    def test_names_are_readable_and_distinct(self) -> None:
        slugs = demo._slugs()
        assert len(set(slugs)) == len(slugs) == 3000
        assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*-\d+", slug) for slug in slugs)
        assert len(set(demo.JOB_TITLES)) == 40

    def test_a_member_has_one_title_and_one_region(self, data: Connection) -> None:
        """max_groups = 1 in the questions rests on this."""
        most = one(
            data,
            "SELECT MAX(titles), MAX(regions) FROM (SELECT COUNT(DISTINCT job_title) AS titles, "
            "COUNT(DISTINCT region) AS regions FROM engagements GROUP BY member_id)",
        )
        assert most == (1, 1)

    @pytest.mark.parametrize("column", ["member_id", "article"])
    def test_the_top_hundredth_takes_ten_times_its_share(self, data: Connection, column: str) -> None:
        sizes = [n for (n,) in data.execute(f"SELECT COUNT(*) FROM engagements GROUP BY {column}").fetchall()]
        top = sorted(sizes, reverse=True)[: len(sizes) // 100]
        assert sum(top) > sum(sizes) / 10

    def test_titles_have_uneven_shares(self, data: Connection) -> None:
        shares = data.execute(
            "SELECT COUNT(DISTINCT member_id) FROM engagements GROUP BY job_title ORDER BY 1"
        ).fetchall()
        assert shares[-1][0] > 5 * shares[0][0]

    def test_it_is_the_same_everywhere(self) -> None:
        assert fingerprint(members=100, seed=1) == "e1eeac076148b277729bf168863001e4020ad4a44d18c8ef411e2a313803663c"

    def test_another_seed_is_another_data_set(self) -> None:
        assert fingerprint(members=100, seed=1) != fingerprint(members=100, seed=2)

    @pytest.mark.parametrize("members", [0, -1, demo.MAX_MEMBERS + 1, 2.5])
    def test_a_senseless_size_is_refused(self, members: Any) -> None:
        with duckdb.connect() as connection, pytest.raises(InvalidArgument, match="members"):
            demo.generate(connection, members)


class TestAsking:
    def test_answers_are_the_mechanisms_output_for_the_exact_rows(self, data: Connection, finished: demo.Demo) -> None:
        for question, answer in zip(demo.questions(), finished.answers, strict=True):
            assert answer.released == question.release(demo._read(data, question), keyed())

    def test_counts_are_noisy_but_near(self, data: Connection, finished: demo.Demo) -> None:
        """sigma is 13.3: a row is exact by chance once in 33 times, four of them once in a million."""
        errors = [
            count - dict(demo._read(data, answer.question))[key]
            for answer in finished.answers
            for key, count in answer.released.rows
            if count is not None
        ]
        assert len(errors) >= 4
        assert any(errors)
        assert all(abs(error) < 8 * 13.4 for error in errors)

    def test_noise_is_fresh_in_every_run(self) -> None:
        """Three counts with sigma = 13.3 agree in two runs once in 100,000 times."""
        first, second = (demo.run(100).answers[2].released.rows for _ in range(2))
        assert first != second

    def test_only_as_many_rows_are_read_as_the_mechanism_may_see(self, data: Connection) -> None:
        assert len(demo._read(data, demo.questions()[0])) == 1001

    def test_a_region_without_anybody_is_still_in_the_answer(self, finished: demo.Demo) -> None:
        released = demo.questions()[2].release([("emea", 900)], keyed())
        assert {region for region, _ in released.rows} == set(demo.REGIONS)

    @pytest.mark.parametrize("cap", [Charge(20, 30), Charge(3000, 0)])
    def test_the_worst_case_must_fit_before_anything_is_read(self, cap: Charge) -> None:
        """The list would have cost 4 units here; only the reserve of 21 may decide, or the refusal would tell."""
        with duckdb.connect() as empty, pytest.raises(BudgetExhausted):
            demo.ask(empty, demo.questions()[0], Filter(cap), keyed())  # reading would fail: there is no table

    def test_what_is_spent_adds_up_to_what_is_left(self, finished: demo.Demo) -> None:
        spent = NOTHING
        for answer in finished.answers:
            spent += answer.released.charge
            assert answer.left == demo.CAP - spent
        assert finished.budget.spent == spent
        assert finished.budget.left == finished.answers[-1].left


class TestTheObject:
    def test_it_has_the_shape_of_an_answer(self, finished: demo.Demo) -> None:
        answer = finished.to_dict()["answers"][0]
        assert set(answer) == {"question", "rows", "stopped", "receipt", "notes"}
        assert set(answer["receipt"]) == {"mechanism", "unit", "charge", "left", "error95"}
        assert answer["receipt"]["charge"] == finished.answers[0].released.charge.to_dict()
        assert answer["receipt"]["error95"] == {"members": 26}
        assert answer["rows"][0].keys() == {"article", "members"}
        assert answer["notes"] == ["groups below a noisy threshold are absent"]

    def test_its_guarantee_is_that_of_the_cap_and_rounded_up(self, finished: demo.Demo) -> None:
        bound = Filter(demo.CAP).guarantee(0.15, 1e-10, 7e-9)
        shown = finished.to_dict()["budget"]["guarantee"]
        assert bound <= shown["epsilon"] < bound + 0.01
        assert shown["delta"] == 7e-9


def page(finished: demo.Demo, width: int, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, newline="\n") as file:
        demo.show(finished, Console(file=file, width=width, highlight=False))
        file.flush()
        return raw.getvalue().decode(encoding)


class TestThePage:
    @pytest.mark.parametrize("width", [80, 120])
    def test_it_fits_and_holds_every_row_and_no_control_character(self, finished: demo.Demo, width: int) -> None:
        text = page(finished, width)
        assert max(map(len, text.splitlines())) <= width
        assert not re.search(r"[^\n -~±█▉▊▋▌▍▎▏░]", text)
        for answer in finished.answers:
            assert answer.question.words in text
            for key, count in answer.released.rows:
                assert re.search(rf"^  {key} +{count:,}  ± 26", text, re.MULTILINE)

    def test_it_can_be_told_in_ascii(self, finished: demo.Demo) -> None:
        text = page(finished, 80, "ascii")
        assert "+/- 26" in text
        assert "##" in text

    def test_it_says_what_the_budget_promises(self, finished: demo.Demo) -> None:
        words = " ".join(page(finished, 80).split())
        assert "moves any conclusion by at most epsilon = 32.87, delta = 7e-09" in words
        assert "groups below a noisy threshold are absent" in words

    def test_its_counts_are_the_released_ones_and_not_the_exact_ones(
        self, data: Connection, finished: demo.Demo
    ) -> None:
        shown = re.findall(r" (-?[\d,]+)  ±", page(finished, 80))
        rows = [(answer.question, key, count) for answer in finished.answers for key, count in answer.released.rows]
        assert shown == [f"{count:,}" for _, _, count in rows]
        assert shown != [f"{dict(demo._read(data, question))[key]:,}" for question, key, _ in rows]

    def test_an_empty_list_is_explained(self) -> None:
        assert "No group stands out of the noise" in page(demo.run(100), 80)

    def test_bars_are_in_proportion(self) -> None:
        console = Console(file=io.StringIO(), width=40)
        lengths = []
        for count in (0, 100, 200):
            with console.capture() as capture:
                console.print(demo.Bar(count, 0, 200))
            lengths.append(len(capture.get().strip()))
        assert lengths == [0, 20, 40]

    def test_a_bar_is_shaded_across_its_error(self) -> None:
        console = Console(file=io.StringIO(), width=40)
        with console.capture() as capture:
            console.print(demo.Bar(100, 50, 200))
        assert capture.get().strip() == "█" * 10 + "░" * 20
