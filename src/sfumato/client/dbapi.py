"""A DB-API 2.0 driver (PEP 249) over the service: SQL in, rows with noise out.

    from sfumato.client import dbapi

    with dbapi.connect("http://127.0.0.1:8080", key="sfumato_...") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT article, members AS people FROM engagements WHERE region = ? GROUP BY article", ["emea"])
        cursor.fetchall()
        cursor.answer.receipt       # what it cost, what is left, how accurate it is

A column is called by its alias, if it has one, and otherwise by its name in the policy. Nothing is ever written, so
`commit` and `rollback` do nothing: a charge cannot be rolled back.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, Self, TypeAlias

from sfumato.client.client import Client
from sfumato.errors import BudgetExhausted, Conflict, Failed, RateLimited, SfumatoError, Unauthorized
from sfumato.types import TYPES
from sfumato.wire import Answer, Tables

apilevel: Final = "2.0"
threadsafety: Final = 2  # threads may share connections, but not cursors
paramstyle: Final = "qmark"

DbRow: TypeAlias = tuple[Any, ...]
Described: TypeAlias = tuple[str, str, None, None, None, None, None]


class Warning(Exception):  # noqa: A001 - the names are those of PEP 249
    """Never raised here."""


class Error(Exception):
    """The root of the driver's exceptions. Its `__cause__` is the one of Sfumato, where there is one."""


class InterfaceError(Error):
    """The driver is used wrongly, such as after `close`."""


class DatabaseError(Error):
    """The service refused, or failed."""


class DataError(DatabaseError):
    """Never raised here."""


class OperationalError(DatabaseError):
    """Not the statement's fault: no valid key, a budget that is exhausted, too many calls, or no answer."""


class IntegrityError(DatabaseError):
    """Never raised here."""


class InternalError(DatabaseError):
    """Never raised here."""


class ProgrammingError(DatabaseError):
    """The question has no private form, or names what is not there."""


class NotSupportedError(DatabaseError):
    """What this driver does not do."""


class DBAPIType:
    """A type of PEP 249: equal to the type codes that belong to it."""

    def __init__(self, *codes: str) -> None:
        self._codes = frozenset(codes)

    def __eq__(self, other: object) -> bool:
        return other in self._codes if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"DBAPIType({', '.join(map(repr, sorted(self._codes)))})"


STRING, NUMBER, DATETIME = (
    DBAPIType(*(row.name for row in TYPES.values() if row.dbapi == name)) for name in ("STRING", "NUMBER", "DATETIME")
)
BINARY = DBAPIType()
ROWID = DBAPIType()

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes
DateFromTicks = datetime.date.fromtimestamp
TimestampFromTicks = datetime.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 - the names are those of PEP 249
    """The time of day at `ticks` seconds since the epoch."""
    return datetime.datetime.fromtimestamp(ticks).time()


def connect(url: str, key: str | None = None, **options: Any) -> Connection:
    """A connection to the service at `url`. The options are those of `sfumato.Client`."""
    with _pep249_errors():
        return Connection(Client(url, key, **options))


@contextmanager
def _pep249_errors() -> Iterator[None]:
    """The exceptions of Sfumato as those of PEP 249."""
    try:
        yield
    except SfumatoError as error:
        operational = isinstance(error, BudgetExhausted | RateLimited | Conflict | Unauthorized | Failed)
        raise (OperationalError if operational else ProgrammingError)(str(error)) from error


class Connection:
    """A service as a DB-API connection. Nothing is open until it is used; a context manager that closes."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError, NotSupportedError = InternalError, ProgrammingError, NotSupportedError

    def __init__(self, client: Client) -> None:
        self._client: Client | None = client

    @property
    def client(self) -> Client:
        """The client behind it: estimates, budgets and charges."""
        if self._client is None:
            raise InterfaceError("the connection is closed")
        return self._client

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.client  # noqa: B018 - raises, if closed
        return Cursor(self)

    def commit(self) -> None:
        """Nothing: nothing is ever written."""
        self.client  # noqa: B018 - raises, if closed

    def rollback(self) -> None:
        """Nothing: a charge cannot be rolled back."""
        self.client  # noqa: B018 - raises, if closed

    def tables(self) -> Tables:
        """What may be asked about."""
        with _pep249_errors():
            return self.client.tables()

    def ping(self) -> None:
        """Raise, if the service does not answer or does not know the key. Free."""
        with _pep249_errors():
            self.client.budget()

    def close(self) -> None:
        """Close the connections. It cannot be used any more."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def __enter__(self) -> Self:
        self.client  # noqa: B018 - raises, if closed
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """One statement at a time, and its rows. `answer` is the whole answer, with its receipt."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.lastrowid: None = None
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self.answer: Answer | None = None
        self.description: Sequence[Described] | None = None
        self.rowcount = -1
        self._rows: list[DbRow] | None = None
        self._next = 0

    def execute(self, operation: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Self:
        """Ask a SELECT, with a value for each `?` in it, or by name for each `:name`.

        A repeat is free and gives the same rows.
        """
        self._check()
        self._reset()
        if isinstance(parameters, str | bytes):
            raise ProgrammingError("parameters are a list, a value for each ? in their order")
        values = dict(parameters) if isinstance(parameters, Mapping) else [*parameters]
        with _pep249_errors():
            self.answer = answer = self.connection.client.ask(operation, params=values or None)
        self.description = [(name, kind, None, None, None, None, None) for name, kind in answer.columns.items()]
        self._rows = [tuple(row[name] for name in answer.columns) for row in answer.rows]
        self.rowcount = len(self._rows)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> NoReturn:
        """Not supported: each question is charged, so each is asked by itself."""
        raise NotSupportedError("a question is asked by itself: call execute for each")

    def fetchone(self) -> DbRow | None:
        """The next row, or None."""
        return next(iter(self._take(1)), None)

    def fetchmany(self, size: int | None = None) -> list[DbRow]:
        """The next `size` rows, `arraysize` if it is not given."""
        return self._take(self.arraysize if size is None else size)

    def fetchall(self) -> list[DbRow]:
        """All rows that are left."""
        return self._take(max(self.rowcount, 0))

    def _take(self, size: int) -> list[DbRow]:
        self._check()
        if self._rows is None:
            raise ProgrammingError("there are no rows: execute a SELECT first")
        rows = self._rows[self._next : self._next + size]
        self._next += len(rows)
        return rows

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self.connection.client  # noqa: B018 - raises, if closed

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing: parameters need no room."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing: columns need no room."""

    def close(self) -> None:
        """Forget the rows. It cannot be used any more."""
        self._reset()
        self._closed = True

    def __iter__(self) -> Iterator[DbRow]:
        return self

    def __next__(self) -> DbRow:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
