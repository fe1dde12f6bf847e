"""The engine: a session, the tables that it may read, and queries that can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

from sqlglot import exp

from sfumato.config import EngineSettings
from sfumato.config.settings import TIMEOUT_S
from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER, ColumnType, Engine
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.spark.bounding import Frame
from sfumato.engines.spark.contributions import MAX_COLLECTED, PushedRows, SparkContributions
from sfumato.engines.spark.dialect import SparkSql
from sfumato.engines.spark.rows import check_query, public_keys, read_rows
from sfumato.engines.spark.sessions import Tags, borrow_session, open_session
from sfumato.engines.spark.types import COLUMN_TYPES, LIST_TYPES, bare, plain
from sfumato.errors import EngineFailed, InvalidArgument
from sfumato.query.abilities import Abilities

T = TypeVar("T")

PULSE_S = 0.1
_NO_SOURCE = "is neither a table that Spark knows nor a place of Parquet files that it can read"


class SparkEngine(Engine):
    """Tables of the catalog by name, and Parquet files by path: what has a / in it, or ends in .parquet.

    Every query has a deadline. Closing stops what runs. A release with more than `max_collected` keys fails.

    With `frames`, the engine reads data frames, in the session that they have, and sets this back as it was when it is
    closed. Then `tables` are Parquet files of public keys on this machine. `run` reads neither.
    """

    dialect = SparkSql
    endings = (".parquet",)
    abilities = Abilities(every_group=True, name="Spark", releases="people are bounded and counted by Spark")

    def __init__(
        self,
        url: str,
        tables: Mapping[str, str],
        *,
        timeout_s: float = TIMEOUT_S,
        max_collected: int = MAX_COLLECTED,
        frames: Mapping[str, Frame] | None = None,
    ) -> None:
        if not timeout_s > 0:
            raise InvalidArgument("timeout_s", "must be above 0")
        self._timeout_s, self._max_collected = timeout_s, max_collected
        self._changed = threading.Condition()
        self._live: set[str] = set()
        self._closed = False
        self._tables: dict[str, exp.Table] = {}
        self._kinds: dict[str, dict[str, str]] = {}
        self._views: set[str] = set()
        self._frames, self._public = frames or {}, dict(tables) if frames else {}
        self._session, self._end = borrow_session(next(iter(frames.values()))) if frames else open_session(url)
        self._tags = Tags.of(self._session)
        try:
            for name, source in tables.items():
                if not frames:
                    self._open_table(name, source)
            for name, frame in self._frames.items():
                self._kinds[name] = self._use(partial(_kinds_of, frame))
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls,
        settings: EngineSettings,
        sources: Mapping[str, str],
        *,
        folder: Path | None,
        types: Mapping[str, Mapping[str, str]],
    ) -> Self:
        start = folder or Path()
        located = {name: cls.locate(source, start) for name, source in sources.items()}
        return cls(settings.url or "", located, **settings.options)

    @classmethod
    def locate(cls, source: str, folder: Path) -> str:
        return str(folder.absolute() / source) if is_path(source) and "://" not in source else source

    @classmethod
    def places(cls, settings: EngineSettings, source: str, folder: Path) -> frozenset[str]:
        # The rows of a catalog or a file are the same rows, whichever cluster reads them.
        return frozenset({cls.locate(source, folder)})

    def _open_table(self, name: str, source: str) -> None:
        place = exp.table_(source, "parquet", quoted=True) if is_path(source) else _table_of(source)

        def look() -> tuple[dict[str, str], bool]:
            frame = self._session.sql(exp.select("*").from_(place).sql(dialect=self.dialect, identify=True))
            return _kinds_of(frame), not is_path(source) and self._session.catalog.getTable(source).tableType == "VIEW"

        try:
            self._kinds[name], is_view = self._use(look)
        except EngineFailed:
            is_view = None
        if is_view is None:
            raise EngineFailed(f"{source!r} {_NO_SOURCE}", table=name)
        self._tables[name] = place
        if is_view:
            self._views.add(name)

    def tables(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def is_view(self, table: str) -> bool:
        return table in self._views

    def schema(self, table: str) -> dict[str, ColumnType]:
        return {name: COLUMN_TYPES.get(bare(kind), "other") for name, kind in self._look_up(table).items()}

    def lists(self, table: str) -> dict[str, ColumnType]:
        return {name: LIST_TYPES[kind] for name, kind in self._look_up(table).items() if kind in LIST_TYPES}

    def _look_up(self, table: str) -> dict[str, str]:
        if self._closed:
            raise EngineFailed(CLOSED)
        if table not in self._kinds:
            raise InvalidArgument("table", f"must be one of {', '.join(self._kinds)}")
        return self._kinds[table]

    def relation(self, table: str) -> exp.Subquery:
        columns = [plain(name, kind) for name, kind in self._kinds[table].items()]
        return exp.select(*columns).from_(self._tables[table].copy()).subquery()

    def check_contributions(self, query: ContributionQuery) -> None:
        kinds = self._look_up(query.table)
        check_query(query, kinds)
        if query.public is not None:
            public_keys(self._public[query.public], query, kinds)

    def contributions(
        self, query: ContributionQuery, progress: Callable[[float], None] | None = None
    ) -> SparkContributions:
        self.check_contributions(query)
        kinds = self._kinds[query.table]
        domain = None if query.public is None else public_keys(self._public[query.public], query, kinds)
        rows = self._use(lambda: self._rows(query, kinds))
        most = self._max_collected
        return SparkContributions(rows, self._use, domain=domain, max_collected=most, progress=progress)

    def _rows(self, query: ContributionQuery, kinds: Mapping[str, str]) -> PushedRows:
        if query.table not in self._frames:
            text = self.relation(query.table).this.sql(dialect=self.dialect, identify=True)
            return read_rows(self._session.sql(text), query, kinds)
        columns = (plain(name, kind).sql(dialect=self.dialect, identify=True) for name, kind in kinds.items())
        rows = read_rows(self._frames[query.table].selectExpr(*columns), query, kinds)
        # Its plan may draw random numbers, and a release reads it more than once.
        return replace(rows, frame=rows.frame.localCheckpoint())

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        return self._use(lambda: [tuple(row) for row in self._session.sql(text).collect()], self._timeout_s)

    def _use(self, work: Callable[[], T], timeout_s: float | None = None) -> T:
        """`work` with the session. Every failure is `EngineFailed`, without Spark's own text."""
        with suppress(Exception), self._stoppable(timeout_s):
            return work()
        # Raised here and not above: even `from None` would leave Spark's text in __context__.
        raise EngineFailed(CLOSED if self._closed else COULD_NOT_ANSWER)

    @contextmanager
    def _stoppable(self, timeout_s: float | None) -> Iterator[None]:
        """What runs on Spark in this block can be stopped, and is after `timeout_s`."""
        tag = f"sfumato-{uuid4().hex}"
        with self._changed:
            if self._closed:
                raise EngineFailed(CLOSED)
            self._live.add(tag)
        timer = threading.Timer(timeout_s, self._stop, [tag]) if timeout_s is not None else None
        try:
            self._tags.add(tag)  # fails where the driver is dead
            if timer is not None:
                timer.daemon = True
                timer.start()
            yield
        except BaseException:
            with suppress(Exception):
                self._tags.stop(tag)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            with self._changed:
                self._live.discard(tag)
                self._changed.notify_all()
            with suppress(Exception):
                self._tags.remove(tag)

    def _stop(self, *tags: str) -> None:
        """Stop what has these tags. Again until it has ended: it may not have begun."""
        with self._changed:
            while running := self._live.intersection(tags):
                for tag in running:
                    with suppress(Exception):
                        self._tags.stop(tag)
                self._changed.wait(PULSE_S)

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
        self._stop(*self._live)
        with suppress(Exception):
            self._end()


def _kinds_of(frame: Frame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def is_path(source: str) -> bool:
    """Whether a source is a place of Parquet files, and no name of a table."""
    return "/" in source or source.lower().endswith(".parquet")


def _table_of(source: str) -> exp.Table:
    parts = source.split(".")
    named = dict(zip(("table", "db", "catalog"), reversed(parts), strict=False))
    return exp.table_(**named, quoted=True)
