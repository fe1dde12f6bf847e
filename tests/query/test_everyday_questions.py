"""The questions of the tutorial, asked of generated rows: each is answered, or refused, as the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.errors import NotSupported
from sfumato.session import Session

PAGE = (Path(__file__).parents[2] / "docs/tutorials/everyday-questions.md").read_text(encoding="utf-8")
QUESTION = re.compile(
    r"### (\d+)\. (?P<words>[^\n]+)\n\n(?:[^`#\n]+\n\n)?```sql\n(?P<sql>.*?)```\n\n```text\n(?P<shown>.*?)```",
    re.DOTALL,
)
REFUSED = "sfumato: Not supported: "

ROWS = {
    "people": """
        SELECT i AS user_id, 17 + i % 70 AS age, ['Private', 'State-gov', '?'][1 + i % 3] AS workclass,
            ['HS-grad', 'Bachelors', 'Masters'][1 + i % 3] AS education, 'Divorced' AS marital_status,
            ['Sales', 'Tech-support'][1 + i % 4 // 3] AS occupation, ['Female', 'Male'][1 + i % 2] AS gender,
            i % 4 * 100 AS capital_gain, 20 + i % 60 AS hours_per_week,
            ['Mexico', 'Canada'][1 + i % 2] AS native_country,
            ['<=50K', '>50K'][1 + i % 2] AS income
        FROM range(12000) rows (i)
    """,
    "purchases": """
        SELECT (i % 400)::INTEGER AS user_id, (i % 17)::INTEGER AS item,
            TIMESTAMP '2017-01-01' + INTERVAL (i % 8000) HOUR AS timestamp, (i % 5)::INTEGER AS store_id,
            (1 + i % 3)::INTEGER AS quantity, (i % 900)::INTEGER AS sales_value_cents,
            (i % 7 // 6 * 50)::INTEGER AS coupon_disc_cents
        FROM range(20000) rows (i)
    """,
}


def read_questions() -> Iterator[tuple[str, re.Match[str]]]:
    """The questions of the page, each with its table."""
    people, purchases = PAGE.split("\n## Purchases\n")
    for table, text in (("people", people), ("purchases", purchases)):
        for found in QUESTION.finditer(text):
            yield table, found


QUESTIONS = [*read_questions()]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    """The configurations that `sfumato init` writes, with the sections of the page in the place of its own."""
    folder, opened = tmp_path_factory.mktemp("questions"), dict[str, Session]()
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        for (table, rows), block in zip(ROWS.items(), blocks, strict=True):
            source = folder / f"{table}.parquet"
            duckdb.execute(f"COPY ({rows}) TO '{source}'")
            arguments = ["--source", f"{source}", "--table", table, "--unit", "user_id", "--epsilon", "8"]
            made = CliRunner().invoke(main, ["init", f"{folder / table}", *arguments, "--version", "fixed"])
            assert made.exit_code == 0, made.output
            path = folder / table / "sfumato.toml"
            for section in block.strip().split("\n\n"):
                head = section.partition("\n")[0]
                path.write_text(
                    re.sub(rf"(?s){re.escape(head)}\n.*?(?=\n\[)", lambda _, s=section: s, path.read_text())
                )
            opened[table] = Session(path)
        yield opened
        for session in opened.values():
            session.close()


@pytest.mark.parametrize(("table", "found"), QUESTIONS, ids=[found["words"] for _, found in QUESTIONS])
def test_a_question_is_answered_or_refused_as_the_page_shows(
    table: str, found: re.Match[str], sessions: dict[str, Session]
) -> None:
    if found["shown"].startswith(REFUSED):
        with pytest.raises(NotSupported) as refusal:
            sessions[table].ask(found["sql"], analyst="anna")
        assert f"{REFUSED}{refusal.value}" == found["shown"].strip()
        return
    answer = sessions[table].ask(found["sql"], analyst="anna")
    head = found["shown"].splitlines()[0]
    assert all(name.replace("_", " ") in head for name in answer.columns)
    assert answer.rows


def test_the_page_counts_its_answers() -> None:
    shown = [found["shown"] for _, found in QUESTIONS]
    answered = sum(not text.startswith(REFUSED) for text in shown)
    assert len(shown) == 24
    assert f"{answered} of the 24 are answered today" in PAGE
