"""Which core a statement has, what it costs, and what may be done with its released rows."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from sqlglot import exp

from sfumato.errors import NotSupported, TableNotFound
from sfumato.postprocess import find_shape
from sfumato.query.plan import plan
from sfumato.query.request import Histogram, TopK, Total
from sfumato.query.serial import read_question
from sfumato.query.sql import Arrangement, ReleasedQuery, read_sql, read_statement
from sfumato.query.sql.parse import parse_query
from sfumato.query.sql.released import PARTS, check_released

LIST = "SELECT article, COUNT(DISTINCT member_id) AS people FROM engagements GROUP BY article"
ALL = Histogram("engagements", "article", "members")
TEN = TopK("engagements", "article", "members", k=10)

CORES = {
    # the measure in its order: as long as LIMIT says
    f"{LIST} ORDER BY people DESC LIMIT 10": TEN,
    f"{LIST} ORDER BY 2 DESC, article DESC LIMIT 10": TEN,
    f"{LIST} LIMIT 10": TEN,
    f"{LIST} ORDER BY members DESC FETCH FIRST 10 ROWS ONLY": TEN,
    f"{LIST} LIMIT 10 OFFSET 0": ALL,
    f"SELECT * FROM ({LIST} ORDER BY people DESC LIMIT 10) t WHERE people > 7": TEN,
    f"WITH t AS ({LIST} LIMIT 10) SELECT SUM(people) FROM t": TEN,
    # a SELECT around it that only names its columns
    f"SELECT * FROM ({LIST}) t LIMIT 10": TEN,
    f"SELECT article AS title, t.people * 2 AS x FROM ({LIST}) t ORDER BY t.people DESC, article LIMIT 10": TEN,
    f"SELECT * FROM (SELECT * FROM ({LIST}) t) u LIMIT 10": TEN,
    f"SELECT * FROM (SELECT article, people FROM ({LIST}) t) u ORDER BY people DESC LIMIT 10": TEN,
    "SELECT article, members * 2 AS double FROM engagements GROUP BY 1 ORDER BY members DESC LIMIT 10": TEN,
    "SELECT members FROM engagements GROUP BY article LIMIT 10": TEN,
    # anything else: all that the policy allows
    f"{LIST} ORDER BY article LIMIT 10": ALL,
    f"{LIST} ORDER BY people LIMIT 10": ALL,
    f"{LIST} ORDER BY people + 1 DESC LIMIT 10": ALL,
    f"{LIST} HAVING people > 7 ORDER BY people DESC LIMIT 10": ALL,
    f"{LIST} HAVING article <> 'x' LIMIT 10": ALL,
    f"{LIST} ORDER BY people DESC LIMIT 10 OFFSET 5": ALL,
    f"SELECT * FROM ({LIST}) t WHERE people > 7 ORDER BY people DESC LIMIT 10": ALL,
    f"SELECT * FROM ({LIST}) t ORDER BY people DESC LIMIT 10 OFFSET 1": ALL,
    f"SELECT * FROM ({LIST}) t ORDER BY people + 1 DESC LIMIT 10": ALL,
    f"SELECT * FROM ({LIST}) t ORDER BY article LIMIT 10": ALL,
    f"SELECT article AS people, people AS article FROM ({LIST}) t ORDER BY people DESC LIMIT 10": ALL,
    f"SELECT RANK() OVER (ORDER BY people) FROM ({LIST}) t LIMIT 10": ALL,
    f"SELECT SUM(people) FROM ({LIST}) t LIMIT 10": ALL,
    f"SELECT DISTINCT people FROM ({LIST}) t LIMIT 10": ALL,
    f"SELECT * FROM ({LIST}) t (a, b) ORDER BY b DESC LIMIT 10": ALL,
    f"SELECT * FROM ({LIST} HAVING people > 5) t ORDER BY people DESC LIMIT 10": ALL,
    f"SELECT AVG(people) FROM ({LIST}) t": ALL,
    f"WITH t AS ({LIST}) SELECT article FROM t WHERE people > (SELECT AVG(people) FROM t)": ALL,
    "SELECT article, RANK() OVER (ORDER BY members DESC) AS place FROM engagements GROUP BY 1 LIMIT 10": ALL,
    "SELECT DISTINCT article, members FROM engagements GROUP BY article LIMIT 10": ALL,
    f"{LIST} UNION ALL SELECT 'all', SUM(people) FROM ({LIST}) t": ALL,
    # LIMIT above what is allowed, and of a total
    f"{LIST} LIMIT 5000": TopK("engagements", "article", "members", k=100),
    "SELECT COUNT(*) AS number FROM engagements LIMIT 5": Total("engagements", "shares"),
    "SELECT COUNT(*) / 7 FROM engagements": Total("engagements", "shares"),
    # without counts
    "SELECT article FROM engagements GROUP BY 1 ORDER BY members DESC LIMIT 10": TopK(
        "engagements", "article", "members", k=10, counts=False
    ),
    "SELECT upper(article) FROM engagements GROUP BY article ORDER BY members DESC": TopK(
        "engagements", "article", "members", counts=False
    ),
    "SELECT article FROM engagements GROUP BY 1 ORDER BY members LIMIT 10": ALL,
    "SELECT article FROM engagements GROUP BY 1 HAVING members > 5 ORDER BY members DESC LIMIT 10": ALL,
}


@pytest.mark.parametrize(("sql", "core"), CORES.items(), ids=list(CORES))
def test_the_core_follows_from_the_statement(sql, core, policy, prices):
    assert plan(read_statement(sql, policy).core, policy, prices) == plan(core, policy, prices)
    assert read_question({"sql": sql}, policy) == read_statement(sql, policy)


@pytest.mark.parametrize("sql", CORES, ids=list(CORES))
def test_what_comes_after_a_core_changes_no_digest(sql, policy, prices):
    core = read_statement(sql, policy).core
    if not isinstance(core, Histogram):
        return
    full = plan(read_sql(LIST, policy), policy, prices)
    assert (plan(core, policy, prices).digest, plan(core, policy, prices).reserve) == (full.digest, full.reserve)


def test_a_plain_core_is_arranged_and_anything_else_is_a_query(policy):
    assert isinstance(read_statement(f"{LIST} ORDER BY article DESC LIMIT 3 OFFSET 1", policy).rest, Arrangement)
    assert read_statement(f"{LIST} ORDER BY 2 DESC, 1 LIMIT 3", policy).rest == Arrangement(
        ("article", "members"), (("members", True), ("article", False)), 0, 3
    )
    assert isinstance(read_statement(f"{LIST} HAVING people > 7", policy).rest, ReleasedQuery)


def test_a_request_is_read_of_a_core_alone(policy):
    assert read_sql(f"{LIST} ORDER BY 1", policy).table == "engagements"
    for more in (f"{LIST} HAVING people > 7", f"{LIST} LIMIT 3 OFFSET 2", f"SELECT COUNT(*) FROM ({LIST}) t"):
        with pytest.raises(NotSupported, match="more than one request"):
            read_sql(more, policy)


def test_outputs_are_called_as_the_statement_says(policy):
    def names(items: str) -> list[str]:
        sql = f"SELECT {items} FROM engagements GROUP BY article, region"
        return [output.name for output in read_statement(sql, policy).outputs]

    assert names("Region, ARTICLE, count(*)") == ["region", "article", "shares"]
    assert names('region AS "the place", COUNT(*) number') == ["the place", "number"]
    assert names("COUNT(*) + 1, round( COUNT(*)/2.0,1 )") == ["COUNT(*) + 1", "ROUND(COUNT(*) / 2.0, 1)"]


INTERVALS = {
    "members": Fraction(1),
    "2 * members + 5": Fraction(2),
    "members / 4": Fraction(1, 4),
    "-(members - 100) * 3": Fraction(-3),
    "members + members": Fraction(2),
    "CAST(members AS DOUBLE) / 1e3": Fraction(1, 1000),
    "members + length(article)": Fraction(1),
    "members - members": Fraction(0),
    "upper(article)": Fraction(0),
    "CASE WHEN article = 'x' THEN 1 END": Fraction(0),
    "members * members": None,
    "1 / members": None,
    "members / 0": None,
    "members * length(article)": None,
    "ROUND(members, 1)": None,
    "abs(members)": None,
    "members / SUM(members) OVER ()": None,
    "RANK() OVER (ORDER BY article)": None,
    "CASE WHEN members > 5 THEN 1 END": None,
    "members > 5": None,
    "greatest(members, 0)": None,
}


@pytest.mark.parametrize(("item", "factor"), INTERVALS.items(), ids=list(INTERVALS))
def test_an_interval_travels_through_what_is_linear(item, factor, policy):
    core = f"SELECT {item} AS x, members AS y FROM engagements GROUP BY article"
    for sql in (core, f"SELECT x, y FROM ({core}) t WHERE x IS NOT NULL"):
        output, _ = read_statement(sql, policy).outputs
        factors = output.linear.factors
        assert (None if factors is None else sum(by for _, by in factors)) == factor
        assert output.linear.half_width(26) == (None if not factor else pytest.approx(abs(factor) * 26))


def test_numbers_that_may_be_negative_have_their_whole_interval(policy):
    def signed(item: str) -> bool:
        sql = f"SELECT {item} AS x FROM engagements GROUP BY article"
        return read_statement(sql, policy).outputs[0].linear.may_be_negative

    assert [*map(signed, ("members", "members + 1", "2 * members"))] == [False] * 3
    assert [*map(signed, ("members - 1", "-members", "members + length(article)"))] == [True] * 3


def test_rows_of_a_join_are_not_one_row(policy):
    """In a join of released rows with themselves, two columns of one measure may be those of two rows."""
    items = "a.people AS one, a.people - b.people AS two"
    sql = f"WITH t AS ({LIST}) SELECT {items} FROM t a {{}} JOIN t b ON a.article = b.article"
    for side in ("", "LEFT"):
        one, two = (output.linear for output in read_statement(sql.format(side), policy).outputs)
        assert (one.of, two.of, len(two.factors or ())) == ("", "", 2)


TOTAL = "(SELECT members FROM engagements)"
CHOSEN = {
    f"SELECT article, people, {TOTAL} AS n FROM ({LIST}) t": False,
    f"SELECT article, people, {TOTAL} AS n FROM ({LIST}) t WHERE article <> 'x' ORDER BY people": False,
    f"SELECT article, people, {TOTAL} AS n FROM ({LIST}) t WHERE people > 5": True,
    f"SELECT article, people FROM ({LIST}) t WHERE {TOTAL} > 5": True,
    f"{LIST} HAVING people > {TOTAL}": True,
    f"SELECT article, people, {TOTAL} AS n FROM ({LIST} LIMIT 5) t": False,
    f"SELECT article, people, {TOTAL} AS n FROM ({LIST} ORDER BY people LIMIT 5) t": True,
    f"SELECT article, people, {TOTAL} AS n FROM (SELECT * FROM ({LIST}) t WHERE people > 0 LIMIT 5) u": True,
    f"SELECT DISTINCT people, {TOTAL} AS n FROM ({LIST}) t": True,
    f"SELECT people, {TOTAL} AS n FROM ({LIST}) t GROUP BY people": True,
    f"SELECT article, people, {TOTAL} AS n FROM ({LIST}) t ORDER BY article OFFSET 2": True,
    f"WITH r AS (SELECT article, people, RANK() OVER (ORDER BY people) AS place FROM ({LIST}) t) "
    f"SELECT article, people, {TOTAL} AS n FROM r WHERE place < 3": True,
    f"SELECT a.article, a.people - b.n AS d FROM ({LIST}) a JOIN (SELECT region, members AS n FROM engagements "
    "GROUP BY region) b ON a.people < b.n": True,
    f"{LIST} UNION ALL SELECT region, members FROM engagements GROUP BY region": False,
    f"{LIST} UNION SELECT region, members FROM engagements GROUP BY region": True,
}


@pytest.mark.parametrize(("sql", "chosen"), CHOSEN.items(), ids=list(CHOSEN))
def test_a_statement_knows_where_noise_decides_which_rows_are_there(sql, chosen, policy):
    statement = read_statement(sql, policy)
    assert len(statement.cores) == 2
    assert (statement.chosen, statement.cut) == (chosen, None)


T = f"WITH t AS ({LIST}) "
REFUSED = {
    # names that the engine would know
    T + "SELECT current_user FROM t": "current_user",
    T + 'SELECT "current_user" FROM t': "no column 'current_user'",
    T + "SELECT rowid FROM t": "no column 'rowid'",
    T + "SELECT t FROM t": "no column 't'",
    T + "SELECT t.t FROM t": "no column 't'",
    T + "SELECT x.people FROM t": "no column 'people'",
    T + "SELECT peple FROM t": "did you mean people",
    T + "SELECT sfumato_core.n FROM t": "no column 'n'",
    T + "SELECT n FROM t": "no column 'n'",
    T + "SELECT people FROM sfumato_core": "there is no table",
    T + "SELECT people FROM t, duckdb_settings": "JOIN has no private form",
    T + "SELECT people FROM t, duckdb_settings()": "JOIN has no private form",
    T + "SELECT people FROM t JOIN engagements e ON e.article = t.article": "JOIN has no private form",
    T + "SELECT people FROM t, sqlite_master": "JOIN has no private form",
    T + "SELECT people FROM t, range(9)": "JOIN has no private form",
    T + "SELECT people FROM t, 'rows.parquet'": "",
    T + "SELECT people FROM main.t": "no table 't'",
    T + 'SELECT people FROM t UNION ALL SELECT people FROM t ORDER BY "current_user"': "ordered by its own columns",
    T + "SELECT people FROM t UNION ALL SELECT people FROM t ORDER BY (SELECT 1)": "ordered by its own columns",
    T + "SELECT people FROM t UNION ALL SELECT people FROM t ORDER BY t.people": "ordered by its own columns",
    T + 'SELECT people FROM t GROUP BY "current_user"': "no column 'current_user'",
    T + 'SELECT people FROM t ORDER BY "current_user"': "no column 'current_user'",
    T + 'SELECT SUM(people) OVER (PARTITION BY "current_user") AS x FROM t': "no column 'current_user'",
    T + 'SELECT a.people FROM t a JOIN t b ON "current_user" = a.article': "no column 'current_user'",
    T + "SELECT a.people FROM t a JOIN t b USING (rowid)": "no column 'rowid'",
    f'{LIST} ORDER BY "current_user"': "no column 'current_user'",
    T + "SELECT people FROM information_schema.tables": "no schema",
    "SELECT * FROM duckdb_settings()": "one table by its name",
    "SELECT * FROM '/etc/passwd'": "",
    "SELECT * FROM read_csv('/etc/passwd')": "one table by its name",
    # functions and constructs that are on no list
    **{
        T + f"SELECT {item} AS x FROM t": ""
        for item in (
            *("getenv('HOME')", "current_setting('threads')", "read_text('/etc/passwd')", "version()", "random()"),
            *(
                "list_transform([people], x -> x)",
                "[people]",
                "{'a': people}",
                "t.people.x",
                "people[1]",
                "COLUMNS('.*')",
            ),
            *("repeat('x', 1000000000)", "string_agg(article, ',')", "list(people)", "struct_pack(a := people)"),
            *(
                "nextval('s')",
                "uuid()",
                "now()",
                "CURRENT_DATE",
                "pg_sleep(9)",
                "replace(article, 'a', 'aa')",
                "my_macro(people)",
                "error('x')",
            ),
            *(
                "CAST(people AS BLOB)",
                "CAST(article AS JSON)",
                "people::STRUCT(a INT)",
                "#1",
                "$1",
                "@people",
                "~people",
            ),
            *("EXTRACT(EPOCH FROM article)", "date_part('year', article)", "DATE '2026-01-01' + INTERVAL 1 DAY"),
            *("EXISTS (SELECT 1 FROM t)", "ARRAY(SELECT 1)", "people IN (SELECT 1)", "(SELECT 1)", "?", ":name"),
            *("FIRST(people)", "arg_max(article, people)", "quantile_cont(people, 0.5)", "* EXCLUDE (people)"),
        )
    },
    T + "SELECT * EXCLUDE (people) FROM t": "",
    T + "SELECT people FROM t TABLESAMPLE 5": "",
    T + "SELECT people FROM t QUALIFY RANK() OVER (ORDER BY people) = 1": "QUALIFY is not supported yet",
    T + "SELECT people FROM t WINDOW w AS (ORDER BY people)": "",
    T + "SELECT people FROM t GROUP BY ROLLUP (people)": "",
    T + "SELECT people FROM t ORDER BY ALL": "",
    T + "SELECT people FROM t LIMIT 10 PERCENT": "",
    T + "SELECT people FROM t LIMIT (SELECT 5)": "whole number",
    T + "SELECT people FROM t LIMIT 0": "at least 1",
    T + "SELECT people FROM t NATURAL JOIN t u": "",
    T + "SELECT people FROM t ASOF JOIN t u USING (people)": "",
    T + "SELECT people FROM t, LATERAL (SELECT 1) u": "",
    T + "SELECT people FROM t PIVOT (SUM(people) FOR article IN ('a'))": "",
    T + "SELECT people INTO x FROM t": "",
    T + "SELECT people FROM t FOR UPDATE": "",
    T + "INSERT INTO x SELECT people FROM t": "",
    T + "SELECT people FROM t; COPY t TO 'x'": "one SELECT",
    T + "DELETE FROM t": "",
    "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT 1 FROM t) SELECT 1 FROM t": "RECURSIVE is not supported yet",
    f"WITH t AS MATERIALIZED ({LIST}) SELECT people FROM t USING SAMPLE 5": "",
    "FROM engagements": "",
    "COPY (SELECT 1) TO 'x'": "",
    "ATTACH 'x.db'": "",
    "PRAGMA database_list": "",
    "CREATE MACRO f(x) AS x": "",
    "VALUES (1)": "",
    # names
    "SELECT article, members AS article FROM engagements GROUP BY article": "choose another alias",
    "SELECT article AS a, members AS A FROM engagements GROUP BY 1": "two columns are called",
    "SELECT members AS sfumato_x FROM engagements": "does not begin with sfumato_",
    f"WITH sfumato_core AS ({LIST}) SELECT people FROM sfumato_core": "does not begin with sfumato_",
    f"SELECT people FROM ({LIST}) sfumato_core": "does not begin with sfumato_",
    f"SELECT * FROM ({LIST}) AS t (a)": "2 columns, and 1 names",
    T + "SELECT * FROM t a JOIN t b USING (article)": "name the columns instead of *",
    # exact rows
    "SELECT article, SUM(n) OVER () FROM engagements": "rows cannot be listed, only counted",
    "SELECT article, n, members FROM engagements GROUP BY article": "GROUP BY article, n",
    "SELECT article, members FROM engagements GROUP BY article HAVING n > 5": "GROUP BY article, n",
    "SELECT article, members FROM engagements GROUP BY article ORDER BY n": "GROUP BY article, n",
    "SELECT article, COUNT(*) FROM (SELECT article FROM engagements LIMIT 5) t GROUP BY 1": "no preview",
    "SELECT members FROM engagements WHERE article IN (SELECT article FROM engagements)": "a SELECT inside a SELECT",
    T + "SELECT members FROM engagements WHERE article IN (SELECT article FROM t)": "a SELECT inside a SELECT",
    # several questions
    " UNION ALL ".join(f"SELECT members FROM engagements WHERE n = {n}" for n in range(17)): "at most 16 questions",
    T + "SELECT members FROM t JOIN engagements USING (article)": "JOIN has no private form",
    f"{LIST} UNION ALL SELECT members FROM engagements": "as many columns",
    # size
    T + "SELECT " + "+".join(["people"] * 400) + " AS x FROM t": "nested too deep",
    T + "SELECT " + "+".join(["people"] * 2400) + " AS x FROM t": "nested too deep",
    "SELECT " + "+".join(["members"] * 2400) + " AS x FROM engagements": "an expression is too long",
    T + "SELECT " + "+".join(["people"] * 90) + " FROM t": "give one with AS",
    T + "SELECT people FROM t " + "JOIN t USING (people) " * 9: "at most 6 JOIN",
    "WITH t0 AS ("
    + LIST
    + ")"
    + "".join(f", t{i} AS (SELECT * FROM t{i - 1} UNION ALL SELECT * FROM t{i - 1})" for i in range(1, 9))
    + " SELECT people FROM t8": "more than 64 SELECTs",
    "SELECT article, "
    + ", ".join(f"{f'x{i - 1} + x{i - 1}' if i else 'members'} AS x{i}" for i in range(20))
    + " FROM engagements GROUP BY article": "too long",
    T + "SELECT sqrt(SUM(people)) FROM t": "give the aggregate a name in WITH",
}


@pytest.mark.parametrize(("sql", "words"), REFUSED.items(), ids=[sql[-90:] for sql in REFUSED])
def test_what_is_on_no_list_is_refused(sql, words, policy):
    with pytest.raises((NotSupported, TableNotFound)) as refusal:
        read_statement(sql, policy)
    message = str(refusal.value)
    assert words in message
    assert 20 < len(message) < 450
    assert "sqlglot" not in message


def test_no_node_that_is_not_listed_gets_through(policy):
    """Every kind of node of the parser, in the place of an expression and of a relation."""
    kinds = [kind for kind in vars(exp).values() if isinstance(kind, type) and issubclass(kind, exp.Expression)]
    others = [kind for kind in kinds if kind not in PARTS]
    assert len(others) > 500
    for kind in others:
        for place in ("expressions", "from_"):
            select = exp.select("1").from_("t")
            node = kind(this=exp.column("x")) if "this" in kind.arg_types else kind()
            select.set(place, [node] if place == "expressions" else exp.From(this=node))
            with pytest.raises(NotSupported):
                check_released(select)


@pytest.mark.parametrize("kind", sorted(PARTS, key=lambda kind: kind.__name__))
def test_no_part_that_is_not_listed_gets_through(kind):
    for part in kind.arg_types.keys() - {*PARTS[kind]}:
        tree = exp.Select(expressions=[kind(**{part: exp.column("x")})])
        with pytest.raises(NotSupported):
            check_released(tree)


def test_the_parser_gives_up_after_so_many_steps():
    for text in ("SELECT " + "JOIN 'x' " * 6 * 3, "SELECT " + "( UNION " * 19, "SELECT " + "+ NOT IF " * 19):
        with pytest.raises(NotSupported):
            parse_query(text)
    assert isinstance(parse_query(LIST), exp.Select)


def test_the_parser_writes_nothing_to_the_log(policy, caplog):
    for text in (f"WITH t AS ({LIST}) FETCH secret", f"WITH t AS ({LIST}) REPLACE secret", f"({LIST}) FETCH secret"):
        with pytest.raises(NotSupported):
            read_statement(text, policy)
    assert caplog.records == []


def test_spellings_of_one_statement_have_one_digest(policy, prices):
    coin = random.Random(7)
    counted = ("COUNT(DISTINCT member_id)", "members", "count(distinct e.member_id)")
    digests = set()
    for _ in range(60):
        count, alias = coin.choice(counted), coin.choice(["c", "people", '"Number of people"'])
        core = f"SELECT article AS a, {count} AS {alias} FROM engagements e WHERE region IN ('emea') GROUP BY a"
        if coin.random() < 0.5:
            core = core.replace("region IN ('emea')", "NOT region <> 'emea'")
        sql = coin.choice(
            [
                f"{core} ORDER BY a",
                f"{core} HAVING {count} > {coin.randint(1, 99)}",
                f"{core} ORDER BY {alias} LIMIT {coin.randint(1, 9)} OFFSET {coin.randint(1, 9)}",
                f"WITH t AS ({core}) SELECT a FROM t WHERE {alias} > 10 ORDER BY {alias} DESC LIMIT 3",
                f"SELECT t.*, RANK() OVER (ORDER BY {alias}) AS place FROM ({core}) AS t",
                f"SELECT COUNT(*), MAX({alias}) FROM ({core}) t",
            ]
        )
        digests.add(plan(read_statement(sql, policy).core, policy, prices).digest)
    assert len(digests) == 1


DAYS = "SELECT day, COUNT(*) AS shares FROM engagements GROUP BY day"
SEVERAL = {
    f"{LIST} UNION ALL SELECT region, members FROM engagements GROUP BY 1": ["article", "region"],
    f"{LIST} HAVING people > (SELECT AVG(shares) FROM ({DAYS}) d)": ["day", "article"],
    f"WITH t AS ({LIST}), d AS ({DAYS}) SELECT article, day FROM t JOIN d ON people < shares": ["article", "day"],
    f"SELECT * FROM ({LIST}) a UNION ALL SELECT * FROM ({LIST}) b": ["article"],
    f"WITH t AS ({LIST}), d AS ({DAYS}) SELECT day FROM d": ["day"],  # what is not read is not asked
    f"WITH t AS ({LIST}), u AS (SELECT * FROM t) {DAYS}": ["day"],
    f"{LIST} ORDER BY 2 DESC LIMIT 3": ["article"],
}


@pytest.mark.parametrize(("sql", "keys"), SEVERAL.items(), ids=SEVERAL)
def test_a_statement_has_each_of_its_cores_once(sql, keys, policy):
    statement = read_statement(sql, policy)
    assert ["".join(each.core.by) for each in statement.cores] == keys
    assert (find_shape(statement) is None) <= (len(keys) == 1)
