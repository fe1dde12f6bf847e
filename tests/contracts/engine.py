"""What every engine must keep. An engine's test inherits this and says how to put rows into a table."""

from __future__ import annotations

import functools
import operator
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sfumato.engines import Engine
from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import EngineFailed, InvalidArgument
from sfumato.query.counting import MAX_SUM, whole_sum
from sfumato.query.expressions.functions import LOOKUPS
from sfumato.query.plan import plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.public import read_public_rows
from sfumato.query.request import Histogram
from tests.contracts.trees import HURTFUL, WORDS, hurtful_rows, question_trees, report_trees
from tests.helpers.duckdb_tables import PAIRS, write
from tests.helpers.repeats import repeats

TABLE = "events"

KEYS = (
    *("a", "A", "b", "B", "Z", "z", "_", "ä", "é", "e\u0301", "ß", "ss", "日本", "\ue000", "\uffff", "😀"),
    *("it's", '"', "x, y", "a b", " a", "a ", "a\\", "two\nlines", "%", "'; DROP TABLE events; --", "NULL", ""),
)

NAMES = {"select": "integer", "MixedCase": "text", 'say"hi"': "text", "日": "integer", "Order By": "text"}

EVENTS: Mapping[str, str] = {
    "unit": "integer",
    "key": "text",
    "MixedCase": "text",
    "n": "integer",
    "x": "number",
    "flag": "boolean",
    "day": "date",
    "at": "timestamp",
}


def event(i: int) -> tuple[Any, ...]:
    values = (
        i % 7,
        "abAB"[i % 4],
        f"m{i % 3}",
        i - 9,
        (i - 5) / 2,
        i % 2 == 0,
        date(2024, 1, 1 + i),
        datetime(2024, 1, 1 + i, i),
    )
    # Every column has a NULL, each in another row.
    return tuple(None if i == 12 + place else value for place, value in enumerate(values))


ROWS = [event(i) for i in range(23)]

COMPARISONS = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def source(table: str = TABLE) -> exp.Table:
    return exp.table_(table, quoted=True)


def counting(*conditions: exp.Expr) -> exp.Select:
    return exp.select(exp.Count(this=exp.Star())).from_(source()).where(*conditions)


def summing(name: str) -> exp.Select:
    return exp.select(whole_sum(column(name))).from_(source())


def present(name: str) -> exp.Expr:
    return exp.Not(this=exp.Is(this=column(name), expression=exp.Null()))


def ranking(limit: int | None = None) -> exp.Select:
    """Distinct units by key, largest first, ties by key; rows without a unit or a key are left out."""
    units = exp.Count(this=exp.Distinct(expressions=[column("unit")]))
    query = exp.select(column("key"), units.as_("count", quoted=True)).from_(source()).group_by(column("key"))
    order = exp.Ordered(this=column("count"), desc=True), exp.Ordered(this=column("key"), desc=False)
    query = query.where(present("unit"), present("key")).order_by(*order)
    return query if limit is None else query.limit(limit)


def ranked(rows: Sequence[tuple[int | None, str | None]], order: Callable[[str], Any] = str) -> list[tuple[str, int]]:
    counts = Counter(key for unit, key in set(rows) if unit is not None and key is not None)
    return sorted(counts.items(), key=lambda row: (-row[1], order(row[0])))


def endless() -> exp.Select:
    """A billion billion rows, and no short cut to counting them."""
    query = exp.select(exp.Count(this=exp.Star())).from_(source().as_("t0", quoted=True))
    for i in range(1, 18):
        query = query.join(source().as_(f"t{i}", quoted=True), join_type="cross")
    units = [exp.column("unit", f"t{i}", quoted=True) * (i + 2) for i in range(18)]
    return query.where((functools.reduce(operator.add, units) % 1000003).eq(5))


class EngineContract:
    """`make` is all that an engine's test has to write; `keys` and `names` leave out what its format cannot hold.

    `order` is how it orders text, and `held` makes rows what its format holds of them. `lose` takes a table away.
    """

    keys: ClassVar[Sequence[str]] = KEYS
    order: ClassVar[Callable[[str], Any]] = str
    names: ClassVar[Sequence[str]] = tuple(NAMES)
    typed_when_empty: ClassVar[bool] = True
    casts_fail: ClassVar[bool] = True
    """Whether a cast of text that is no number fails. Elsewhere it is NULL."""
    patience_s: ClassVar[float] = 2
    """A time in which it answers a question about ten rows."""
    can_be_slow: ClassVar[bool] = True
    """Whether it runs a query that joins a table with itself, which can take for ever."""

    def make(
        self, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str], table: str = TABLE, **options: Any
    ) -> Engine:
        """An engine over one table with these rows; `columns` maps names to types, as `schema` spells them.

        `options` are the engine's own, such as `timeout_s`.
        """
        raise NotImplementedError

    def lose(self, engine: Engine) -> bool:
        """From now on, the engine cannot read its table. False where a test cannot bring that about."""
        return False

    def can_hold(self, text: str) -> bool:
        """Whether the format can hold this text."""
        return text in self.keys or self.keys is KEYS

    def held(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return rows

    def pairs(self, rows: Sequence[tuple[int | None, str | None]]) -> Engine:
        return self.make(rows, PAIRS)

    @pytest.fixture(scope="class")
    @classmethod
    def events(cls):
        with cls().make(ROWS, EVENTS) as engine:
            yield engine

    @settings(max_examples=repeats(8, 60))
    @given(st.data())
    def test_distinct_counts_are_exact_and_ordered_by_count_then_by_code_point(self, data):
        key = st.none() | st.sampled_from(self.keys)
        rows = data.draw(st.lists(st.tuples(st.none() | st.integers(0, 3), key), min_size=1, max_size=40))
        with self.pairs(rows) as engine:
            expected = ranked(rows, type(self).order)
            assert engine.run(ranking()) == expected
            assert engine.run(ranking(3 + 1)) == expected[:4]

    def test_text_is_ordered_as_python_orders_it(self):
        with self.pairs([(1, key) for key in self.keys]) as engine:
            assert [key for key, _ in engine.run(ranking())] == sorted(self.keys, key=type(self).order)

    def test_without_a_limit_every_row_comes(self):
        rows = [(i, f"k{i:05d}") for i in range(3000)]
        with self.pairs(rows) as engine:
            assert engine.run(ranking()) == ranked(rows)
            assert engine.run(ranking(1001)) == ranked(rows)[:1001]

    def test_rows_without_a_unit_or_a_key_count_only_where_the_query_lets_them(self):
        with self.pairs([(None, "a"), (1, None), (1, "a"), (None, None), (2, "a")]) as engine:
            assert engine.run(ranking()) == [("a", 2)]
            assert engine.run(counting()) == [(5,)]
            assert engine.run(counting(exp.Not(this=present("key")))) == [(2,)]

    def test_an_empty_table_has_no_groups_and_a_total_of_nothing(self):
        with self.pairs([]) as engine:
            assert engine.run(ranking()) == []
            assert engine.run(counting()) == [(0,)]
            if self.typed_when_empty:
                assert engine.run(summing("unit")) == [(0,)]

    @pytest.mark.parametrize("name", EVENTS)
    @pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda kind: kind.__name__)
    def test_comparisons_mean_what_they_mean_in_python(self, events, name, comparison):
        values = [row[list(EVENTS).index(name)] for row in ROWS]
        bound = values[4]
        expected = sum(COMPARISONS[comparison](value, bound) for value in values if value is not None)
        assert events.run(counting(comparison(this=column(name), expression=exp.convert(bound)))) == [(expected,)]

    @pytest.mark.parametrize("name", EVENTS)
    def test_sets_and_ranges_mean_what_they_mean_in_python(self, events, name):
        values = [row[list(EVENTS).index(name)] for row in ROWS]
        known = [value for value in values if value is not None]
        chosen = [values[2], values[5]]
        among = exp.In(this=column(name), expressions=[exp.convert(value) for value in chosen])
        assert events.run(counting(among)) == [(sum(value in chosen for value in known),)]
        assert events.run(counting(exp.Not(this=among.copy()))) == [(sum(value not in chosen for value in known),)]
        low, high = sorted(chosen)
        between = exp.Between(this=column(name), low=exp.convert(low), high=exp.convert(high))
        assert events.run(counting(between)) == [(sum(low <= value <= high for value in known),)]

    def test_conditions_join(self, events):
        small, even = column("n") < 0, column("flag").eq(exp.true())
        both = sum(row[3] is not None and row[3] < 0 and row[5] is True for row in ROWS)
        either = sum((row[3] is not None and row[3] < 0) or row[5] is True for row in ROWS)
        assert events.run(counting(exp.and_(small, even))) == [(both,)]
        assert events.run(counting(exp.or_(small, even))) == [(either,)]

    def test_values_come_back_as_python_has_them(self, events):
        names = list(EVENTS)
        query = exp.select(*map(column, names)).from_(source()).where(column("n").eq(-9))
        (row,) = events.run(query)
        assert row == ROWS[0]
        assert [type(value) for value in row] == [int, str, str, int, float, bool, date, datetime]

    @pytest.mark.parametrize("value", [2**63 - 1, -(2**62), 10**15])
    def test_integer_sums_are_exact_whole_numbers_and_never_overflow(self, value):
        with self.make([(value,)] * 5, {"n": "integer"}) as engine:
            [(total,)] = engine.run(summing("n"))
            assert type(total) is int
            assert total == max(min(5 * value, MAX_SUM), -MAX_SUM)

    def test_literals_stay_literals(self):
        attacks = [key for key in self.keys if key] + ["' OR '1'='1", "\\' OR 1=1 --", "/* */", "$1", "?", "{a}"]
        with self.pairs([(1, key) for key in attacks]) as engine:
            literals = [exp.Literal.string(attack) for attack in attacks]
            for literal in literals:
                assert engine.run(counting(column("key").eq(literal.copy()))) == [(1,)]
            for others in literals[1:], literals[:-1]:
                assert engine.run(counting(*(column("key").neq(other.copy()) for other in others))) == [(1,)]

    @pytest.mark.parametrize("quoted", [True, False])
    @pytest.mark.parametrize("text", ['key" FROM "events"; DROP TABLE "events"; --', "1 AS one", "COUNT(*)"])
    def test_identifiers_stay_identifiers(self, events, text, quoted):
        attack = exp.Identifier(this=text, quoted=quoted)
        with pytest.raises(EngineFailed):
            events.run(exp.select(exp.Column(this=attack)).from_(source()))
        with pytest.raises(ValueError, match="reads from events"):
            events.run(exp.select(column("key")).from_(exp.Table(this=attack.copy())))
        assert events.run(counting()) == [(len(ROWS),)]

    @pytest.mark.parametrize(
        "raw",
        [
            exp.Literal.number("1; DROP TABLE events"),
            exp.Literal.number("1 OR TRUE"),
            exp.var("a b"),
            exp.Anonymous(this="f(); --"),
        ],
        ids=repr,
    )
    def test_text_that_would_be_written_out_as_sql_is_refused(self, events, raw):
        with pytest.raises(ValueError, match=r"not (written as a number|a plain name)"):
            events.run(exp.select(raw).from_(source()))

    @pytest.mark.parametrize("other", ["SELECT 1", None, 5, exp.column("key"), exp.Drop(this=source(), kind="TABLE")])
    def test_anything_but_a_query_tree_is_the_callers_mistake(self, events, other):
        with pytest.raises(TypeError, match="query tree"):
            events.run(other)

    @pytest.mark.parametrize(
        "stranger",
        [
            exp.table_("others"),
            exp.table_("sqlite_master"),  # which several engines have
            exp.table_(TABLE, db="main"),
            exp.table_("tables", db="information_schema"),
            exp.Anonymous(this="read_text", expressions=[exp.Literal.string("/etc/hosts")]),
            exp.Table(this=exp.Anonymous(this="read_text", expressions=[exp.Literal.string("/etc/hosts")])),
        ],
        ids=lambda tree: tree.sql(),
    )
    def test_only_the_engines_tables_are_read(self, events, stranger):
        with pytest.raises(ValueError, match="reads from"):
            events.run(exp.select("*").from_(stranger))
        with pytest.raises(ValueError, match="reads from"):
            events.run(exp.select("*").from_(source()).join(stranger.copy(), join_type="cross"))

    def test_queries_may_be_nested(self, events):
        inner = ranking().subquery("inner", copy=False)
        assert events.run(exp.select(exp.Count(this=exp.Star())).from_(inner)) == [(4,)]
        outer = exp.select(exp.Count(this=exp.Star())).from_("named").with_("named", as_=ranking())
        assert events.run(outer) == [(4,)]

    def test_rows_of_a_public_table_are_looked_up_as_python_does(self):
        keys = [key for key in KEYS if self.can_hold(key)]
        wanted = [None, "missing", *keys, *keys[::2]]
        rows = [
            (place % 7, wanted[place], keys[place] if place < len(keys) else None, [None, "x", "y"][place % 3])
            for place in range(len(wanted))
        ]
        columns = {"unit": "integer", "wanted": "text", "key": "text", "label": "text"}
        with self.make(rows, columns) as engine:
            if not engine.abilities.functions >= LOOKUPS:
                pytest.skip("the engine looks up no rows")
            read = engine.run(exp.select(*map(column, columns)).from_(source()))
            public = read_public_rows(TABLE, "key", columns, read)
            people = TablePolicy(TABLE, "unit", {"wanted": Column("wanted")}, {"people": Measure("people")})
            at = Policy({TABLE: replace(people, abilities=engine.abilities, public={TABLE: public})})
            prices = Prices(Fraction(1, 2), Fraction(1, 10**6))
            asked = plan(Histogram(TABLE, f"lookup(wanted, {TABLE}.label)", "people"), at, prices)
            labels = {key: label for _, _, key, label in read if key is not None}
            found = {(unit, labels.get(each)) for unit, each, *_ in read}
            assert dict(engine.run(asked.query)) == dict(Counter(label for _, label in found if label is not None))

    def test_every_failure_has_the_same_words_and_nothing_behind_them(self, events):
        failing = [
            exp.select(column("no such column")).from_(source()),
            *([exp.select(exp.cast(column("MixedCase"), "INT")).from_(source())] if self.casts_fail else []),
            exp.select(exp.Sum(this=exp.cast(column("key"), "DATE"))).from_(source()),
            exp.select(exp.Anonymous(this="no_such_function", expressions=[column("key")])).from_(source()),
            counting(column("key").eq(exp.Literal.string("\ud800"))),
        ]
        for query in failing:
            with pytest.raises(EngineFailed) as failure:
                events.run(query)
            assert str(failure.value) == COULD_NOT_ANSWER
            assert failure.value.__cause__ is None
            assert failure.value.__context__ is None
        assert events.run(counting()) == [(len(ROWS),)]

    def test_the_schema_names_columns_and_types(self, events):
        assert events.tables() == (TABLE,)
        assert events.schema(TABLE) == EVENTS
        with pytest.raises(InvalidArgument, match=r"^table: must be one of events"):
            events.schema("others")

    def test_names_may_be_keywords_have_spaces_or_mix_case(self):
        columns = {name: kind for name, kind in NAMES.items() if name in self.names}
        with self.make([row := (1, "a", "b", 2, "c")[: len(columns)]], columns, table="Table") as engine:
            assert engine.schema("Table") == columns
            query = exp.select(*map(column, columns)).from_(source("Table")).where(column("select").eq(1))
            assert engine.run(query) == [row]

    def test_threads_do_not_mix_their_answers(self, events):
        def ask(thread: int) -> bool:
            bounds = [(thread * 20 + i) % 16 - 9 for i in range(repeats(8, 20))]
            expected = [sum(row[3] is not None and row[3] >= bound for row in ROWS) for bound in bounds]
            return [events.run(counting(column("n") >= bound))[0][0] for bound in bounds] == expected

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(ask, range(8)))

    def test_a_closed_engine_refuses(self):
        engine = self.pairs([(1, "a")])
        engine.close()
        engine.close()
        with pytest.raises(EngineFailed, match=CLOSED):
            engine.run(counting())
        with pytest.raises(EngineFailed, match=CLOSED):
            engine.schema(TABLE)

    @pytest.mark.slow
    def test_a_query_that_takes_too_long_ends_and_the_next_is_answered(self):
        if not self.can_be_slow:
            return
        with self.make([(i, "ab"[i % 2]) for i in range(10)], PAIRS, timeout_s=self.patience_s) as found:
            with pytest.raises(EngineFailed) as failure:
                found.run(endless())
            assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)
            assert found.run(counting()) == [(10,)]

    @pytest.mark.slow
    def test_closing_ends_what_is_running(self):
        if not self.can_be_slow:
            return
        engine = self.pairs([(i, "ab"[i % 2]) for i in range(10)])
        closing = threading.Timer(1, engine.close)
        closing.start()
        with pytest.raises(EngineFailed) as failure:
            engine.run(endless())
        closing.join()
        assert failure.value.__context__ is None

    def test_a_table_that_is_gone_is_a_failure_like_any_other(self):
        with self.pairs([(1, "a"), (2, "b")]) as engine:
            assert engine.run(ranking()) == [("a", 1), ("b", 1)]
            if not self.lose(engine):
                return
            for query in (ranking(), counting(), counting(column("key").eq(exp.Literal.string("b")))):
                with pytest.raises(EngineFailed) as failure:
                    engine.run(query)
                assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)

    @pytest.mark.slow
    @pytest.mark.exhaustive
    def test_a_million_rows_in_many_groups(self):
        with self.pairs([(i % 999, f"k{i % 200_000}") for i in range(1_000_000)]) as engine:
            groups = engine.run(ranking())
        assert len(groups) == 200_000
        assert {count for _, count in groups} == {5}
        assert [key for key, _ in groups] == sorted(key for key, _ in groups)

    def test_leaving_the_block_closes(self):
        with self.pairs([(1, "a")]) as engine:
            assert engine.run(counting()) == [(1,)]
        with pytest.raises(EngineFailed, match=CLOSED):
            engine.run(counting())

    @pytest.fixture(scope="class")
    @classmethod
    def hurtful(cls, tmp_path_factory):
        """The engine, and DuckDB, over the same rows."""
        contract = cls()
        rows = contract.held(hurtful_rows(tuple(word for word in WORDS if contract.can_hold(word))))
        path = write(tmp_path_factory.mktemp("same") / "events.parquet", rows, HURTFUL)
        with contract.make(rows, HURTFUL) as engine, DuckDBEngine({TABLE: str(path)}) as duckdb:
            yield engine, duckdb

    @pytest.mark.parametrize("trees", [question_trees, report_trees], ids=["questions", "reports"])
    def test_every_query_of_ours_has_the_rows_of_duckdb(self, hurtful, trees):
        engine, duckdb = hurtful
        asked = list(trees(engine.abilities))
        assert len(asked) >= 20
        others = {}
        for name, tree in asked:
            found, expected = engine.run(tree), duckdb.run(tree)
            if not tree.args.get("order"):
                found, expected = sorted(found, key=repr), sorted(expected, key=repr)
            if (found, [type(row[-1]) for row in found]) != (expected, [int] * len(expected)):
                others[name] = found[:3], expected[:3], tree.sql()
        assert others == {}
