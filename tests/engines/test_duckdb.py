"""DuckDB keeps the contract, over every kind of source, and is closed in."""

from __future__ import annotations

import itertools
import math
import shutil
import stat
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import EngineFailed, InvalidArgument
from sfumato.query.counting import usable
from tests.contracts.engine import COMPARISONS, KEYS, TABLE, EngineContract, column, counting, endless, ranking, source
from tests.helpers.duckdb_tables import fill, quoted, write

# DuckDB's reasons that count as being closed in; a statement that fails for another reason proves nothing.
REFUSALS = r"disabled (by|through) configuration|configuration has been locked|read-only mode|does not exist"


def database(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


class DuckDBContract(EngineContract):
    folder: Path

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _folder(cls, tmp_path_factory):
        cls.folder = tmp_path_factory.mktemp("sources")
        cls.numbers = itertools.count()

    def path(self, name: str) -> Path:
        return self.folder / f"{next(self.numbers)}{name}"


class TestParquetFile(DuckDBContract):
    def make(self, rows, columns, table=TABLE, **options):
        self.last = write(self.path(".parquet"), rows, columns)
        return DuckDBEngine({table: str(self.last)}, **options)

    def lose(self, engine):
        self.last.unlink()
        return True

    @pytest.mark.slow
    def test_a_million_rows_in_many_groups(self):
        super().test_a_million_rows_in_many_groups()


@pytest.mark.slow
class TestParquetGlob(DuckDBContract):
    def make(self, rows, columns, table=TABLE, **options):
        folder = self.path("")
        for part in range(3):
            inner = folder / f"part {part}"
            inner.mkdir(parents=True)
            write(inner / "rows.parquet", rows[part::3], columns)
        return DuckDBEngine({table: str(folder / "**" / "*.parquet")}, **options)


@pytest.mark.slow
class TestCsv(DuckDBContract):
    """An empty field is NULL, quoted or not; the types of a file without rows are unknown."""

    keys = tuple(key for key in KEYS if key)
    typed_when_empty = False

    def make(self, rows, columns, table=TABLE, **options):
        return DuckDBEngine({table: str(write(self.path(".csv"), rows, columns))}, **options)


@pytest.mark.slow
class TestDuckDBTable(DuckDBContract):
    def make(self, rows, columns, table=TABLE, **options):
        path = self.path(".duckdb")
        with duckdb.connect(str(path)) as connection:
            fill(connection, table, rows, columns)
        return DuckDBEngine({table: table}, database=path, **options)


@pytest.mark.slow
class TestDuckDBView(DuckDBContract):
    """The view bears another name than the policy's table, and reads a table that has the policy's."""

    def make(self, rows, columns, table=TABLE, **options):
        path = self.path(".duckdb")
        with duckdb.connect(str(path)) as connection:
            name = fill(connection, table, rows, columns)
            connection.execute(f"CREATE SCHEMA office; CREATE VIEW office.seen AS SELECT * FROM main.{name}")
        return DuckDBEngine({table: "office.seen"}, database=path, **options)


@pytest.fixture
def pairs(tmp_path):
    return write(tmp_path / "pairs.parquet", [(i, "ab"[i % 2]) for i in range(10)])


class TestSources:
    @pytest.mark.parametrize(
        "name", ["it's", 'say "hi"', "a b", "日本", "x[ab]y", "st*r", "q?", "{a,b}", "back\\slash", "-- a", "a=b", "é"]
    )
    @pytest.mark.slow
    def test_any_file_name_will_do_and_means_itself(self, tmp_path, pairs, name):
        for decoy in ("xay", "stXr", "qX", "a", "b"):
            write(tmp_path / f"{decoy}.parquet", [(1, "decoy")])
        path = tmp_path / f"{name}.parquet"
        shutil.copy(pairs, path)
        with DuckDBEngine({TABLE: str(path)}) as engine:
            assert engine.run(ranking()) == [("a", 5), ("b", 5)]

    def test_a_folder_with_brackets(self, tmp_path, pairs):
        (tmp_path / "d[1]").mkdir()
        shutil.copy(pairs, tmp_path / "d[1]" / "x.parquet")
        with DuckDBEngine({TABLE: f"{tmp_path}/d[[]1]/*.parquet"}) as engine:
            assert engine.run(counting()) == [(10,)]

    def test_a_link_will_do(self, tmp_path, pairs):
        (tmp_path / "link.parquet").symlink_to(pairs)
        with DuckDBEngine({TABLE: str(tmp_path / "link.parquet")}) as engine:
            assert engine.run(counting()) == [(10,)]

    @pytest.mark.parametrize(
        ("extension", "options"),
        [(".csv.gz", "(FORMAT csv, COMPRESSION gzip)"), (".tsv", "(FORMAT csv, DELIM '\t')"), (".CSV", "(FORMAT csv)")],
    )
    def test_other_spellings_of_csv(self, tmp_path, extension, options):
        path = write(tmp_path / f"x{extension}", [(1, "a, b"), (2, "c\td")], options=options)
        with DuckDBEngine({TABLE: str(path)}) as engine:
            assert engine.run(ranking()) == [("a, b", 1), ("c\td", 1)]

    def test_several_csv_files_with_one_header_are_one_table(self, tmp_path):
        (tmp_path / "1.csv").write_text("unit,key\n1,a\n")
        (tmp_path / "2.csv").write_text("unit,key\n2,a\n2,b\n")
        with DuckDBEngine({TABLE: str(tmp_path / "*.csv")}) as engine:
            assert engine.run(ranking()) == [("a", 2), ("b", 1)]

    def test_a_file_that_lacks_a_column_has_nulls_there(self, tmp_path):
        write(tmp_path / "1.parquet", [(1,)], {"unit": "integer"})
        write(tmp_path / "2.parquet", [("a", 2)], {"key": "text", "unit": "integer"})
        with DuckDBEngine({TABLE: str(tmp_path / "*.parquet")}) as engine:
            assert engine.run(ranking()) == [("a", 1)]
            assert engine.run(counting()) == [(2,)]

    def test_new_files_are_seen_by_the_next_engine(self, tmp_path, pairs):
        files = {TABLE: str(tmp_path / "*.parquet")}
        with DuckDBEngine(files) as engine:
            write(tmp_path / "more.parquet", [(100, "c")])
            assert engine.run(counting()) == [(10,)]
        with DuckDBEngine(files) as engine:
            assert engine.run(counting()) == [(11,)]

    def test_several_tables_and_kinds_at_once(self, tmp_path, pairs):
        path = database(tmp_path / "it's [a] db.duckdb", "CREATE TABLE t AS SELECT 1 AS a")
        names = {"source": "t", "main": str(pairs), "memory": "t", "temp": str(pairs), "t": str(pairs)}
        with DuckDBEngine(names, database=path) as engine:
            assert engine.tables() == tuple(names)
            sizes = [engine.run(exp.select("*").from_(source(name))) for name in names]
            assert list(map(len, sizes)) == [1, 10, 1, 10, 10]

    def test_collations_enumerations_and_time_zones_read_as_python_reads_them(self, tmp_path):
        path = database(
            tmp_path / "x.duckdb",
            "CREATE TABLE t (unit INT, key VARCHAR COLLATE NOCASE, e ENUM('z', 'a'), seen TIMESTAMPTZ, big UHUGEINT)",
            "INSERT INTO t VALUES (1, 'b', 'z', '2024-01-01 01:00:00+01', 1), (2, 'A', 'a', NULL, 1)",
            "INSERT INTO t VALUES (3, 'a', NULL, NULL, 1), (4, 'B', NULL, NULL, 1)",
        )
        with DuckDBEngine({TABLE: "t"}, database=path) as engine:
            assert list(engine.schema(TABLE).values()) == ["integer", "text", "text", "timestamp", "other"]
            assert engine.run(ranking()) == [("A", 1), ("B", 1), ("a", 1), ("b", 1)]
            query = exp.select(column("e")).from_(source()).where("unit < 3").order_by(column("e"))
            assert engine.run(query) == [("a",), ("z",)]
            ((seen,),) = engine.run(exp.select(column("seen")).from_(source()).where("unit = 1"))
            assert (seen.isoformat(), seen.tzinfo) == ("2024-01-01T00:00:00", None)

    @pytest.mark.parametrize("kind", ["float32", "float64"])
    def test_what_parquet_says_of_a_block_hides_no_nan(self, tmp_path, kind):
        """Other rows than a person's own would decide whether the person passes a filter."""
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        bounds = {exp.GT: 0, exp.GTE: -5, exp.LT: 5, exp.LTE: 3, exp.NEQ: -1, exp.EQ: -1}
        for others in ([-1.0, -1.0], [-1.0, 3.0], []):
            values = pyarrow.array([math.nan, *others], kind)
            parquet.write_table(pyarrow.table({"x": values}), path := tmp_path / "t.parquet")
            with DuckDBEngine({TABLE: str(path)}) as found:
                assert found.run(counting(usable("x", "number"))) == [(len(others),)]
                for comparison, bound in bounds.items():
                    number = sum(COMPARISONS[comparison](value, bound) for value in (math.inf, *others))
                    asked = comparison(this=column("x"), expression=exp.convert(bound))
                    assert found.run(counting(asked)) == [(number,)]

    def test_two_engines_read_one_database(self, tmp_path):
        path = database(tmp_path / "x.duckdb", "CREATE TABLE events AS SELECT 1 AS a")
        with DuckDBEngine({TABLE: TABLE}, database=path) as one, DuckDBEngine({TABLE: TABLE}, database=path) as two:
            assert one.run(counting()) == two.run(counting()) == [(1,)]

    def test_a_database_is_only_read(self, tmp_path):
        path = database(tmp_path / "x.duckdb", "CREATE TABLE events AS SELECT 1 AS a")
        before, files = path.read_bytes(), sorted(tmp_path.iterdir())
        with DuckDBEngine({TABLE: TABLE}, database=path) as engine:
            assert engine.run(counting()) == [(1,)]
            with pytest.raises(duckdb.Error, match="read-only"):
                engine._connection.execute("INSERT INTO source.main.events VALUES (2)")
        assert path.read_bytes() == before
        assert sorted(tmp_path.iterdir()) == files


class TestOpening:
    """What is wrong with the set-up is told by name, at once."""

    @pytest.mark.parametrize("name", ["none.parquet", "none*.csv", "folder.parquet"])
    def test_no_such_file(self, tmp_path, name):
        (tmp_path / "folder.parquet").mkdir()
        with pytest.raises(EngineFailed, match=r"^table 'events': no file matches '.*"):
            DuckDBEngine({TABLE: str(tmp_path / name)})

    @pytest.mark.parametrize("name", ["none", "x.json", "main.t", "T; DROP TABLE t", "source.main.t"])
    def test_no_such_table_and_no_known_extension(self, tmp_path, name):
        path = database(tmp_path / "x.duckdb", "CREATE TABLE t AS SELECT 1 AS a")
        with pytest.raises(EngineFailed, match=r"is neither a table nor a view .* \.parquet, \.csv, \.csv\.gz, \.tsv$"):
            DuckDBEngine({TABLE: name}, database=path)
        with pytest.raises(EngineFailed, match="is neither a table nor a view"):
            DuckDBEngine({TABLE: name})

    def test_no_such_database_or_another_format(self, tmp_path):
        with pytest.raises(EngineFailed, match="does not exist"):
            DuckDBEngine({}, database=tmp_path / "none.duckdb")
        (tmp_path / "text").write_text("SECRET" * 1000)
        with pytest.raises(EngineFailed, match="cannot be opened read-only: not DuckDB's format") as failure:
            DuckDBEngine({}, database=tmp_path / "text")
        assert failure.value.__context__ is None

    def test_a_file_that_is_not_what_its_extension_says(self, tmp_path):
        (tmp_path / "x.parquet").write_text("SECRET" * 1000)
        with pytest.raises(EngineFailed, match=r"^table 'events': its source cannot be read$") as failure:
            DuckDBEngine({TABLE: str(tmp_path / "x.parquet")})
        assert failure.value.__context__ is None

    def test_a_view_that_reads_a_file_of_its_own(self, tmp_path, pairs):
        view = f"CREATE VIEW v AS SELECT * FROM read_parquet({quoted(pairs)})"
        path = database(tmp_path / "x.duckdb", view)
        with pytest.raises(EngineFailed, match=r"^table 'events': its view reads from outside the database$"):
            DuckDBEngine({TABLE: "v"}, database=path)

    def test_arguments_that_make_no_sense(self, tmp_path, pairs):
        with pytest.raises(InvalidArgument, match=r"^timeout_s: "):
            DuckDBEngine({}, timeout_s=0)
        with pytest.raises(InvalidArgument, match=r"^tables: 'T' and 't' differ by case"):
            DuckDBEngine({"T": str(pairs), "t": str(pairs)})
        for wrong in ({"memory_limit": "lots"}, {"threads": 0}):
            with pytest.raises(EngineFailed, match=r"^memory_limit must be such as '2GB', and threads"):
                DuckDBEngine({}, **wrong)
        with pytest.raises(EngineFailed, match=r"^spill: .* is not a folder"):
            DuckDBEngine({}, spill=tmp_path / "none")

    def test_nothing_is_left_behind(self, tmp_path):
        with pytest.raises(EngineFailed):
            DuckDBEngine({TABLE: "none"}, spill=tmp_path)
        assert list(tmp_path.iterdir()) == []


class TestClosedIn:
    """Asked behind the engine's back, so that the walls behind its own checks are seen to stand."""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("closed")
        (folder / "secret.csv").write_text("a\n1\n")
        write(folder / "secret.parquet", [(1, "a")])
        write(folder / "pairs.parquet", [(i, "a") for i in range(10)])
        database(folder / "other.duckdb", "CREATE TABLE t AS SELECT 1 AS a")
        database(folder / "own.duckdb", "CREATE TABLE t AS SELECT 1 AS a")
        return folder

    @pytest.fixture(scope="class")
    @classmethod
    def closed_in(cls, folder):
        names = {TABLE: str(folder / "pairs.parquet"), "t": "t"}
        with DuckDBEngine(names, database=folder / "own.duckdb") as engine:
            yield engine

    @pytest.mark.parametrize(
        "statement",
        [
            "SELECT content FROM read_text('{folder}/secret.csv')",
            "SELECT content FROM read_blob('{folder}/secret.csv')",
            "SELECT * FROM read_csv('{folder}/secret.csv')",
            "SELECT * FROM sniff_csv('{folder}/secret.csv')",
            "SELECT * FROM read_json('{folder}/secret.csv')",
            "SELECT * FROM read_parquet('{folder}/secret.parquet')",
            "SELECT * FROM read_parquet('{folder}/*.parquet')",
            "SELECT * FROM parquet_metadata('{folder}/secret.parquet')",
            "SELECT * FROM '{folder}/secret.parquet'",
            "SELECT * FROM glob('{folder}/*')",
            "SELECT * FROM query('SELECT content FROM read_text(''{folder}/secret.csv'')')",
            "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
            "SELECT * FROM python_variable",
            "SELECT getenv('HOME')",
            "COPY events TO '{folder}/out.csv'",
            "COPY events TO '{folder}/pairs.parquet'",
            "COPY source.main.t FROM '{folder}/secret.csv'",
            "EXPORT DATABASE '{folder}/out'",
            "IMPORT DATABASE '{folder}'",
            "ATTACH '{folder}/other.duckdb' AS other",
            "ATTACH '{folder}/other.duckdb' AS other (READ_ONLY)",
            "ATTACH '{folder}/new.duckdb' AS new",
            "INSTALL httpfs",
            "LOAD httpfs",
            "LOAD '{folder}/x.duckdb_extension'",
            "UPDATE EXTENSIONS",
            "CREATE TABLE source.main.new AS SELECT 1",
            "DELETE FROM source.main.t",
            "SET enable_external_access = true",
            "RESET enable_external_access",
            "SET allowed_paths = ['{folder}/secret.csv']",
            "SET allowed_directories = ['{folder}']",
            "SET lock_configuration = false",
            "RESET lock_configuration",
            "SET memory_limit = '100GB'",
            "SET temp_directory = '{folder}'",
            "SET temp_file_encryption = false",
            "SET python_enable_replacements = true",
            "SET default_collation = 'NOCASE'",
            "SET log_query_path = '{folder}/log'",
            "SET enable_logging = true",
            "PRAGMA enable_profiling",
            "PRAGMA profiling_output = '{folder}/profile'",
            "PRAGMA enable_progress_bar",
            "PRAGMA memory_limit = '100GB'",
            "CALL enable_logging()",
            "SELECT * FROM enable_profiling()",
        ],
    )
    def test_nothing_else_can_be_reached(self, closed_in, folder, statement):
        python_variable = duckdb.connect().sql("SELECT 1 AS a")
        files = {path: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(duckdb.Error, match=REFUSALS):
            closed_in._connection.cursor().execute(statement.format(folder=folder)).fetchall()
        assert {path: path.read_bytes() for path in folder.iterdir()} == files
        assert python_variable is not None
        assert closed_in.run(counting()) == [(10,)]

    @pytest.mark.parametrize(
        "statement",
        [
            "COPY (SELECT 1 AS a) TO '{folder}/pairs.parquet' (USE_TMP_FILE false)",
            "DETACH source",
            "CREATE TABLE memory.main.x AS SELECT 1",
            "EXPLAIN ANALYZE SELECT 1",
            "PRAGMA database_list",
            "SET VARIABLE x = 1",
            "SELECT 1; SELECT 2",
            "",
        ],
    )
    def test_what_duckdb_would_still_do_is_stopped_here(self, closed_in, folder, statement):
        """DuckDB lets an allowed path be written to, and a database be detached and attached again to write."""
        with pytest.raises(ValueError, match="one SELECT"):
            closed_in._run(statement.format(folder=folder))
        assert closed_in.run(counting()) == [(10,)]

    def test_settings_that_answers_and_secrets_depend_on(self, closed_in):
        wanted = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "default_collation": "",
            "default_null_order": "NULLS_LAST",
            "enable_external_access": "false",
            "enable_logging": "0",
            "enable_profiling": None,
            "enable_progress_bar": "false",
            "lock_configuration": "true",
            "log_query_path": "",
            "preserve_insertion_order": "true",
            "python_enable_replacements": "false",
            "temp_file_encryption": "true",
            "TimeZone": "UTC",
        }
        found = closed_in._connection.cursor().execute("SELECT name, value FROM duckdb_settings()").fetchall()
        assert {name: value for name, value in found if name in wanted} == wanted


class TestTime:
    def test_a_question_that_takes_too_long_is_stopped_and_the_next_is_answered(self, pairs):
        with DuckDBEngine({TABLE: str(pairs)}, timeout_s=0.5) as engine:
            with pytest.raises(EngineFailed) as failure:
                engine.run(endless())
            assert str(failure.value) == COULD_NOT_ANSWER
            assert failure.value.__context__ is None
            assert engine.run(counting()) == [(10,)]

    def test_no_watch_outlives_its_question(self, pairs):
        with DuckDBEngine({TABLE: str(pairs)}) as engine:
            before = threading.active_count()
            for _ in range(5):
                engine.run(counting())
            assert threading.active_count() == before

    def test_closing_stops_what_is_running(self, pairs, tmp_path):
        engine = DuckDBEngine({TABLE: str(pairs)}, spill=tmp_path)
        failures = []

        def ask() -> None:
            try:
                engine.run(endless())
            except EngineFailed as failure:
                failures.append(str(failure))

        asker = threading.Thread(target=ask)
        asker.start()
        while not engine._live:
            time.sleep(0.01)
        engine.close()
        asker.join()
        assert failures == [COULD_NOT_ANSWER]
        assert list(tmp_path.glob("sfumato-*")) == []


class TestSpill:
    PLANTED = "PLANTED-CELL"

    def big(self) -> exp.Select:
        """More groups than the memory holds: key x unit, crossed with itself."""
        key = "a.key || CAST(hash(a.unit * 1000 + b.unit) AS TEXT)"
        query = exp.select(f"{key} AS k", "COUNT(DISTINCT b.unit) AS n").from_(source().as_("a"))
        return query.join(source().as_("b"), join_type="cross").group_by("1").order_by("n DESC", "k").limit(3)

    def test_the_folder_is_private_and_goes(self, tmp_path, pairs):
        engine = DuckDBEngine({TABLE: str(pairs)}, spill=tmp_path)
        (folder,) = tmp_path.glob("sfumato-spill-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        engine.close()
        assert not folder.exists()

    def test_an_engine_that_is_forgotten_leaves_nothing(self, tmp_path, pairs):
        engine = DuckDBEngine({TABLE: str(pairs)}, spill=tmp_path)
        del engine
        assert list(tmp_path.glob("sfumato-spill-*")) == []

    def test_cells_that_are_spilled_cannot_be_read_off_the_disk(self, tmp_path):
        source_file = write(tmp_path / "rows.parquet", [(i, self.PLANTED) for i in range(700)])
        seen: list[bytes] = []
        spill = tmp_path / "spill"
        spill.mkdir()
        with DuckDBEngine({TABLE: str(source_file)}, spill=spill, memory_limit="40MB", threads=1) as engine:
            done = threading.Event()

            def look() -> None:
                while not done.wait(0.05):
                    for path in spill.rglob("*.tmp"):
                        try:
                            seen.append(path.read_bytes())
                        except FileNotFoundError:
                            continue

            watcher = threading.Thread(target=look)
            watcher.start()
            try:
                assert len(engine.run(self.big())) == 3
            finally:
                done.set()
                watcher.join()
        assert any(seen)
        assert not any(self.PLANTED.encode() in block for block in seen)

    def test_memory_is_bounded(self, tmp_path):
        source_file = write(tmp_path / "rows.parquet", [(i, self.PLANTED) for i in range(700)])
        with (
            DuckDBEngine({TABLE: str(source_file)}, memory_limit="4MB", threads=1) as engine,
            pytest.raises(EngineFailed) as failure,
        ):
            engine.run(self.big())
        assert str(failure.value) == COULD_NOT_ANSWER


class TestSilence:
    """DuckDB's own words would quote the cell."""

    def test_a_cell_that_is_not_of_its_columns_type(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text("unit,key\n" + "1,a\n" * 30_000 + "SECRETCELL,a\n")
        with DuckDBEngine({TABLE: str(path)}) as engine:
            assert engine.schema(TABLE)["unit"] == "integer"
            self.fails_without_a_word_of("SECRETCELL", engine, ranking())

    def test_a_row_that_is_too_long(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text("unit,key\n" + "1,a\n" * 30_000 + "1,a,SECRETCELL,b\n")
        with DuckDBEngine({TABLE: str(path)}) as engine:
            self.fails_without_a_word_of("SECRETCELL", engine, ranking())

    def test_a_cast_that_fails(self, tmp_path):
        path = write(tmp_path / "x.parquet", [(1, "SECRETCELL")])
        with DuckDBEngine({TABLE: str(path)}) as engine:
            self.fails_without_a_word_of(
                "SECRETCELL", engine, exp.select(exp.cast(column("key"), "INT")).from_(source())
            )

    @pytest.mark.parametrize("damage", ["cut", "gone", "overwritten"])
    def test_a_file_that_was_harmed_since_opening(self, tmp_path, damage):
        path = write(tmp_path / "x.parquet", [(i, f"SECRETCELL{i}") for i in range(5000)])
        with DuckDBEngine({TABLE: str(path)}) as engine:
            {
                "cut": lambda: path.write_bytes(path.read_bytes()[:2000]),
                "gone": path.unlink,
                "overwritten": lambda: path.write_bytes(b"SECRETCELL" * 900),
            }[damage]()
            self.fails_without_a_word_of("SECRETCELL", engine, ranking())

    def fails_without_a_word_of(self, cell: str, engine: DuckDBEngine, query: exp.Select) -> None:
        with pytest.raises(EngineFailed) as failure:
            engine.run(query)
        assert str(failure.value) == COULD_NOT_ANSWER
        assert failure.value.__cause__ is None
        assert failure.value.__context__ is None
        assert cell not in str(failure.getrepr(style="native"))


@pytest.mark.parametrize(
    ("lines", "newcomer"),
    [
        (["u,day", "1,01/02/2026", "2,01/02/2026", "3,03/04/2026"], "4,01/13/2026"),
        (["u,article", "1,c#", "2,c#", "3,java"], "#4,java"),
        (["u,article", "1,c#", "2,c#", "3,java"], '4,"a,b"'),
    ],
)
def test_one_row_of_a_csv_file_changes_no_other_row(tmp_path, lines, newcomer):
    """Formats and comments are pinned: guessed ones would let one person's row change what everybody's rows mean."""
    found = []
    for rows in (lines, [*lines, newcomer]):
        path = tmp_path / f"{len(rows)}.csv"
        path.write_text("\n".join(rows) + "\n")
        with DuckDBEngine({"t": str(path)}) as engine:
            column = lines[0].split(",")[1]
            found.append(engine.run(exp.select(exp.column(column)).from_("t")))
    assert found[1][: len(lines) - 1] == found[0]
    assert len(found[1]) == len(lines)


def test_csv_files_of_one_table_have_one_header(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1,2\n")
    (tmp_path / "b.csv").write_text("v,u\n1,2\n")
    with pytest.raises(EngineFailed, match="different header rows"):
        DuckDBEngine({"t": str(tmp_path / "*.csv")})


@pytest.mark.parametrize("cell", ["7", "n/a", "", "2026-11-15"])
def test_no_row_of_a_csv_file_changes_its_types(tmp_path, cell):
    """What the policy does not say is text; what it says is so, whatever the cells are."""
    (tmp_path / "x.csv").write_text(f"unit,age,n\n1,30,4\n2,{cell},5\n")
    with DuckDBEngine({"t": str(tmp_path / "x.csv")}, types={"t": {"n": "integer"}}) as engine:
        assert engine.schema("t") == {"unit": "text", "age": "text", "n": "integer"}
        assert engine.run(exp.select(exp.func("SUM", exp.column("n"))).from_("t")) == [(9,)]


MOMENTS = {
    "2026-06-06 21:40:34": datetime(2026, 6, 6, 21, 40, 34),
    "2026-06-06T21:40:34": datetime(2026, 6, 6, 21, 40, 34),
    "2026-06-06T21:40:34Z": datetime(2026, 6, 6, 21, 40, 34),
    "2026-06-06t21:40:34z": datetime(2026, 6, 6, 21, 40, 34),
    "2026-06-06T21:40:34.5Z": datetime(2026, 6, 6, 21, 40, 34, 500_000),
    "2026-06-06T21:40:34.123456789Z": datetime(2026, 6, 6, 21, 40, 34, 123_456),
    '"2026-06-06T21:40:34,25Z"': datetime(2026, 6, 6, 21, 40, 34, 250_000),
    "2026-06-06T21:40:34+02:00": datetime(2026, 6, 6, 19, 40, 34),
    "2026-06-06T21:40:34.5+0200": datetime(2026, 6, 6, 19, 40, 34, 500_000),
    "2026-06-06 21:40:34+02": datetime(2026, 6, 6, 19, 40, 34),
    "2026-06-06T21:40:34-05:30": datetime(2026, 6, 7, 3, 10, 34),
    "2026-06-06T21:40Z": datetime(2026, 6, 6, 21, 40),
    "2026-06-06": datetime(2026, 6, 6),
    "20260606T214034Z": datetime(2026, 6, 6, 21, 40, 34),
    "20260606T214034+0200": datetime(2026, 6, 6, 19, 40, 34),
    " 2026-06-06T21:40:34Z ": datetime(2026, 6, 6, 21, 40, 34),
}
NO_MOMENTS = ["", '""', "n/a", "2026-02-30", "2026-06-06T25:00:00Z", "1780782034", "21:40:34", "999999999-01-01", "'"]


def moments(path: Path, cells: Sequence[str], types: Any = None) -> DuckDBEngine:
    path.write_text("u,at\n" + "".join(f"{number},{cell}\n" for number, cell in enumerate(cells)))
    return DuckDBEngine({"t": str(path)}, types=types)


AT = exp.column("at", quoted=True)
WRITTEN = {"t": {"u": "integer", "at": "timestamp"}}


def test_moments_in_a_csv_file_have_any_form_of_iso_8601(tmp_path):
    with moments(tmp_path / "x.csv", list(MOMENTS), WRITTEN) as engine:
        assert engine.schema("t") == {"u": "integer", "at": "timestamp"}
        found = engine.run(exp.select(AT).from_("t").order_by("u"))
    assert [moment for (moment,) in found] == list(MOMENTS.values())


@pytest.mark.parametrize("cell", NO_MOMENTS)
@pytest.mark.parametrize("place", [0, 1, 5000])
def test_a_cell_that_is_no_moment_is_null_and_changes_no_other(tmp_path, cell, place):
    cells = ["2026-06-06T21:40:34Z"] * 5000
    cells.insert(place, cell)
    with moments(tmp_path / "x.csv", cells, WRITTEN) as engine:
        late = exp.GTE(this=AT, expression=exp.cast(exp.Literal.string("2026-06-06 21:00:00"), "TIMESTAMP"))
        query = exp.select(exp.Count(this=exp.Star())).from_("t")
        assert engine.run(query.where(late)) == [(5000,)]
        assert engine.run(query.where(exp.Is(this=AT.copy(), expression=exp.Null()))) == [(1,)]
        assert engine.run(query) == [(5001,)]


@pytest.mark.parametrize("cell", [cell for cell in MOMENTS if cell.startswith("2026-06-06T")])
def test_moments_that_are_guessed_are_read_as_those_that_are_written(tmp_path, cell):
    with moments(tmp_path / "x.csv", [cell, cell]) as engine:
        if engine.schema("t")["at"] == "timestamp":  # or text, for which a type can be written
            assert engine.run(exp.select(AT).from_("t")) == [(MOMENTS[cell],)] * 2


def test_a_cell_that_is_no_moment_beyond_the_sample_is_null(tmp_path):
    with moments(tmp_path / "x.csv", ["2026-06-06T21:40:34Z"] * 30_000 + ["SECRETCELL"]) as engine:
        assert engine.schema("t")["at"] == "timestamp"
        nothing = exp.Is(this=AT, expression=exp.Null())
        assert engine.run(exp.select("u").from_("t").where(nothing)) == [(30_000,)]


def test_folders_named_after_values_are_text_whatever_the_values_are(tmp_path):
    """`city=1` beside `city=berlin` would otherwise decide the type of the column."""
    for city in ("1", "2"):
        (tmp_path / f"city={city}").mkdir()
        with duckdb.connect() as writer:
            writer.execute(f"COPY (SELECT 1 AS unit) TO '{tmp_path}/city={city}/x.parquet'")
    with DuckDBEngine({"t": str(tmp_path / "*" / "*.parquet")}) as engine:
        assert engine.schema("t")["city"] == "text"
