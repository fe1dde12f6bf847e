"""The DB-API driver: what PEP 249 asks for, parameters, names and types of columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import httpx2
import pandas
import pytest
import sqlglot

from sfumato.accounting import Charge
from sfumato.client import dbapi
from sfumato.errors import BudgetExhausted, NotSupported, RateLimited, TableNotFound, Unauthorized
from tests.helpers.fake_service import KEY, URL, Reading, Scripted, page, refused

LIST = (
    "SELECT article, COUNT(DISTINCT member_id) AS people FROM engagements GROUP BY article ORDER BY people DESC LIMIT 2"
)


@pytest.fixture
def service():
    return Reading()


@pytest.fixture
def connection(service):
    with dbapi.connect(URL, KEY, transport=httpx2.MockTransport(service)) as opened:
        yield opened


def failing(*outcomes, retries=0):
    return dbapi.connect(URL, KEY, transport=httpx2.MockTransport(Scripted(outcomes)), retries=retries).cursor()


def test_the_module_says_what_it_is():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    for name in ("Date", "Time", "Timestamp", "DateFromTicks", "TimeFromTicks", "TimestampFromTicks", "Binary"):
        assert callable(getattr(dbapi, name))
    assert dbapi.DateFromTicks(0) == date.fromtimestamp(0)
    assert dbapi.TimeFromTicks(0) == datetime.fromtimestamp(0).time()
    assert dbapi.Binary(b"x") == b"x"


def test_the_exceptions_are_a_tree_and_hang_on_connections():
    below = {
        dbapi.Error: (dbapi.InterfaceError, dbapi.DatabaseError),
        dbapi.DatabaseError: (
            *(dbapi.DataError, dbapi.OperationalError, dbapi.IntegrityError, dbapi.InternalError),
            *(dbapi.ProgrammingError, dbapi.NotSupportedError),
        ),
        Exception: (dbapi.Warning, dbapi.Error),
    }
    for above, classes in below.items():
        for each in classes:
            assert issubclass(each, above)
            assert getattr(dbapi.Connection, each.__name__) is each
    assert not issubclass(dbapi.Warning, dbapi.Error)


def test_rows_and_their_description(connection):
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.arraysize) == (None, -1, 1)
    assert cursor.execute(LIST) is cursor
    assert [each[:2] for each in cursor.description] == [("article", "text"), ("people", "integer")]
    assert all(len(each) == 7 for each in cursor.description)
    assert cursor.description[0][1] == dbapi.STRING
    assert cursor.description[1][1] == dbapi.NUMBER
    assert cursor.description[1][1] != dbapi.DATETIME
    assert cursor.rowcount == 2
    assert cursor.fetchone() == ("gdpr-guide", 900)
    assert cursor.fetchall() == [("ai-act", 700)]
    assert (cursor.fetchone(), cursor.fetchmany(), cursor.fetchall()) == (None, [], [])
    assert cursor.answer.receipt.charge == Charge(21, 1)


def test_rows_are_in_the_order_of_the_select_list(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT members m, region, day AS d, at, paid, score FROM engagements GROUP BY 2, 3, 4, 5, 6")
    assert [each[0] for each in cursor.description] == ["m", "region", "d", "at", "paid", "score"]
    assert cursor.fetchone() == (900, "emea", date(2026, 11, 1), datetime(2026, 11, 1, 8, 30), True, 0.5)
    assert cursor.description[2][1] == dbapi.DATETIME
    cursor.execute("SELECT COUNT(DISTINCT e.member_id), e.Region FROM engagements e GROUP BY Region")
    assert [each[0] for each in cursor.description] == ["members", "region"]
    assert cursor.fetchone() == (900, "emea")
    cursor.execute("SELECT COUNT(DISTINCT member_id) FROM engagements")
    assert (cursor.description[0][0], cursor.fetchall()) == ("members", [(900,)])
    cursor.execute("SELECT day d, article FROM engagements GROUP BY 1, 2 ORDER BY members DESC LIMIT 1")
    assert ([each[0] for each in cursor.description], cursor.fetchall()) == (
        ["d", "article"],
        [(date(2026, 11, 1), "gdpr-guide")],
    )


def test_fetching_in_parts_and_iterating(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT n, members FROM engagements GROUP BY n")
    assert cursor.fetchmany(2) == [(1, 900), (2, 700)]
    cursor.arraysize = 5
    assert cursor.fetchmany() == [(3, 500)]
    cursor.execute("SELECT n, members FROM engagements GROUP BY n")
    assert [*cursor] == [(1, 900), (2, 700), (3, 500)]
    cursor.setinputsizes([1])
    cursor.setoutputsize(1, 1)


def test_what_is_closed_cannot_be_used(connection):
    cursor = connection.cursor()
    with pytest.raises(dbapi.ProgrammingError, match="execute a SELECT"):
        cursor.fetchone()
    cursor.close()
    for work in (cursor.fetchone, cursor.fetchall, lambda: cursor.execute(LIST)):
        with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
            work()
    open_one = connection.cursor()
    connection.commit()
    connection.rollback()
    connection.ping()
    connection.close()
    connection.close()
    for work in (connection.cursor, connection.commit, connection.rollback, lambda: open_one.execute(LIST)):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            work()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM engagements", "count"),
        ("SELECT article FROM engagements", "cannot be listed"),
        ("DELETE FROM engagements", "DELETE cannot be asked"),
        ("SELECT 'open", "could not be read"),
        ("SELECT a, members FROM nowhere GROUP BY a", "nowhere"),
    ],
)
def test_a_refusal_is_a_programming_error_in_the_services_words(connection, sql, words):
    cursor = connection.cursor()
    cursor.execute(LIST)
    with pytest.raises(dbapi.ProgrammingError, match=words) as raised:
        cursor.execute(sql)
    assert isinstance(raised.value.__cause__, NotSupported | TableNotFound)
    assert (cursor.description, cursor.answer, cursor.rowcount) == (None, None, -1)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (refused(BudgetExhausted(Charge(1), Charge(0))), dbapi.OperationalError),
        (refused(RateLimited("slower")), dbapi.OperationalError),
        (refused(Unauthorized("who")), dbapi.OperationalError),
        (page(502), dbapi.OperationalError),
        (httpx2.ConnectError("refused"), dbapi.OperationalError),
    ],
)
def test_other_exceptions_have_their_kind_and_their_cause(outcome, kind):
    with pytest.raises(kind) as raised:
        failing(outcome).execute(LIST)
    assert str(raised.value) == str(raised.value.__cause__)
    assert KEY not in repr(raised.value)


def test_one_question_at_a_time(connection):
    with pytest.raises(dbapi.NotSupportedError):
        connection.cursor().executemany(LIST, [[1], [2]])


def test_a_connection_without_sense_is_refused():
    with pytest.raises(dbapi.ProgrammingError, match="http://"):
        dbapi.connect("ftp://x", KEY)


# -- parameters --


def test_parameters_are_bound_in_their_order(connection, service):
    cursor = connection.cursor()
    cursor.execute(
        "SELECT article, members /* ? */ FROM engagements WHERE region IN (?, ?) AND day >= ? AND at < ? AND n >-? "
        "AND score <= ? AND paid = ? AND article <> 'why?' GROUP BY article LIMIT ? -- ?",
        ["o'clock", "--", date(2026, 11, 1), datetime(2026, 11, 1, 8, tzinfo=UTC), 5, -0.5, True, 2],
    )
    assert len(cursor.fetchall()) == 2
    where = sqlglot.parse_one(service.asked[0]).args["where"].sql()
    assert where == (
        "WHERE region IN ('o''clock', '--') AND day >= CAST('2026-11-01' AS DATE) "
        "AND at < CAST('2026-11-01 08:00:00' AS TIMESTAMP) AND n > -5 AND score <= -0.5 AND paid = TRUE "
        "AND article <> 'why?'"
    )


def test_parameters_have_names(connection, service):
    cursor = connection.cursor()
    cursor.execute(
        "SELECT article AS a, members FROM engagements WHERE region = :region GROUP BY article LIMIT :limit",
        {"region": "emea", "limit": 1},
    )
    assert ([each[0] for each in cursor.description], cursor.fetchall()) == (["a", "members"], [("gdpr-guide", 900)])
    assert sqlglot.parse_one(service.asked[0]).args["where"].sql() == "WHERE region = 'emea'"


@pytest.mark.parametrize("value", [None, b"x", object(), float("nan"), Fraction(1, 3), Decimal("1e999999"), [1]])
def test_other_values_are_refused(connection, service, value):
    with pytest.raises(dbapi.ProgrammingError, match=r"\?1 (is|must be)"):
        connection.cursor().execute("SELECT members FROM engagements WHERE n = ?", [value])
    assert not service.calls


def test_places_and_parameters_are_counted(connection, service):
    for parameters in ([1], [1, 2, 3], {"a": 1}, "ab"):
        with pytest.raises(dbapi.ProgrammingError):
            connection.cursor().execute("SELECT members FROM engagements WHERE n = ? AND n < ?", parameters)
    assert not service.asked


def test_pandas_reads_from_a_connection(connection):
    with pytest.warns(UserWarning, match="pandas only supports SQLAlchemy"):
        frame = pandas.read_sql(
            "SELECT members, day AS d FROM engagements WHERE region = ? GROUP BY day", connection, params=("emea",)
        )
    assert [*frame.columns] == ["members", "d"]
    assert frame["members"].tolist() == [900, 700, 500]
    assert frame["d"][0] == date(2026, 11, 1)
