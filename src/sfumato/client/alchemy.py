"""A SQLAlchemy dialect over the service.

    from sqlalchemy import create_engine

    engine = create_engine("sfumato://:KEY@127.0.0.1:8080/")          # the key may also be in SFUMATO_KEY
    pandas.read_sql("SELECT article, members FROM engagements GROUP BY article LIMIT 10", engine)

`sfumato+https://`, or `?tls=true`, is for services behind TLS; `timeout_s`, `retries` and `allow_plain_http` can be set
there too.

A table has the columns of its policy, then its privacy unit, which can only be counted (`COUNT(DISTINCT unit)`), and
then its measures, which stand for their counts (`SELECT article, members ... GROUP BY article`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from sqlalchemy import exc, types
from sqlalchemy.engine import URL, Connection, default
from sqlalchemy.engine.interfaces import ConnectArgsType, ReflectedColumn
from sqlalchemy.sql.compiler import IdentifierPreparer

from sfumato.client import dbapi
from sfumato.query.request import SCHEMA
from sfumato.types import TYPES
from sfumato.wire import TableRow, Tables

_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "tls": lambda text: _TRUTHS[text.lower()],
    "timeout_s": float,
    "retries": int,
    "allow_plain_http": lambda text: _TRUTHS[text.lower()],
}


class SfumatoPreparer(IdentifierPreparer):
    """Quotes every name, because any word may be the name of a column. Writes no schema, because there is only one."""

    schema_for_object = staticmethod(lambda _: "")

    def quote(self, ident: str, force: Any = None) -> str:
        return self.quote_identifier(ident)


class SfumatoDialect(default.DefaultDialect):
    """`sfumato://`: questions to a service over HTTP."""

    name = "sfumato"
    driver = "http"
    scheme = "http"
    preparer = SfumatoPreparer
    default_paramstyle = "qmark"
    default_schema_name = SCHEMA
    max_identifier_length = 255
    supports_alter = False
    supports_comments = True
    supports_default_values = False
    supports_native_boolean = True
    supports_sane_rowcount = False
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dbapi

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """The arguments of `dbapi.connect`: the address, the key and the options of a client."""
        if url.username and not url.password:
            raise exc.ArgumentError("the key stands after a colon, as a password does: sfumato://:KEY@host:8080/")
        options: dict[str, Any] = {"tls": self.scheme == "https"}
        for name, value in url.query.items():
            text = value if isinstance(value, str) else value[-1]
            if name not in _OPTIONS:
                raise exc.ArgumentError(f"{name} is not an option; there is {', '.join(_OPTIONS)}")
            try:
                options[name] = _OPTIONS[name](text)
            except (KeyError, ValueError):
                raise exc.ArgumentError(f"{name} in the address of the service cannot be {text[:40]!r}") from None
        scheme = "https" if options.pop("tls") else "http"
        address = URL.create(scheme, host=url.host or "127.0.0.1", port=url.port)
        path = f"/{url.database}" if url.database else ""
        return [f"{address.render_as_string().rstrip('/')}{path}"], {"key": url.password or None, **options}

    # -- reflection --

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return [SCHEMA]

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return [row.table for row in _tables(connection).rows] if schema in (None, SCHEMA) else []

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        return table_name.casefold() in map(str.casefold, self.get_table_names(connection, schema))

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        table = _table(connection, table_name)
        return [
            *(
                _column(
                    column["name"],
                    getattr(types, TYPES[column["type"]].sqlalchemy)(),
                    "any value" if column["domain"] == "unknown" else f"one of {len(column['domain'])} values",
                )
                for column in table.columns
            ),
            _column(table.unit, types.NullType(), "the privacy unit: COUNT(DISTINCT ...)"),
            *(_column(each["name"], types.BigInteger(), f"a measure of {each['counts']}") for each in table.measures),
        ]

    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return {"text": f"answers hide whether a {_table(connection, table_name).unit} is in it"}

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return {"constrained_columns": [], "name": None}

    def _no_rows(self, connection: Connection, *names: Any, **kw: Any) -> list[Any]:
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _no_rows
    get_view_names = get_materialized_view_names = get_temp_table_names = get_temp_view_names = _no_rows
    get_sequence_names = _no_rows

    # -- the connection --

    def _get_default_schema_name(self, connection: Connection) -> str:
        return SCHEMA

    def do_ping(self, dbapi_connection: Any) -> bool:
        dbapi_connection.ping()
        return True


class SfumatoHttpsDialect(SfumatoDialect):
    """`sfumato+https://`: the same over TLS."""

    driver = "https"
    scheme = "https"
    supports_statement_cache = True


def _tables(connection: Connection) -> Tables:
    driver: Any = connection.connection.dbapi_connection
    tables: Tables = driver.tables()
    return tables


def _table(connection: Connection, name: str) -> TableRow:
    for row in _tables(connection).rows:
        if row.table.casefold() == name.casefold():
            return row
    raise exc.NoSuchTableError(name)


def _column(name: str, kind: types.TypeEngine[Any], comment: str) -> ReflectedColumn:
    return {"name": name, "type": kind, "nullable": True, "default": None, "comment": comment}
