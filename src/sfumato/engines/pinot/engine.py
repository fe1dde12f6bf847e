"""The engine: a broker that is asked, and a controller that says which segments a complete answer looks at."""

from __future__ import annotations

import json
import logging
import math
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from sqlglot import exp

from sfumato.config import EngineSettings
from sfumato.config.settings import TIMEOUT_S
from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER, ColumnType, Engine, tables_of
from sfumato.engines.passwords import read_password
from sfumato.engines.pinot.columns import PinotColumn, read_columns
from sfumato.engines.pinot.dialect import PinotSql
from sfumato.engines.pinot.replies import Incomplete, incompleteness, online_segments, reply_rows
from sfumato.engines.pinot.translation import PinotQuery, Untranslatable, translate
from sfumato.errors import EngineFailed, InvalidArgument, find_nearest
from sfumato.query.abilities import Abilities

_LOG = logging.getLogger(__name__)

CONNECT_S, MARGIN_S, MAX_CONNECTIONS = 5, 5, 32
PASSWORD = "PINOT_PASSWORD"  # noqa: S105
MAX_GROUPS = 100_000_000

_NO_DRIVER = "a Pinot engine needs: pip install 'sfumato[pinot]'"
_NO_CONTROLLER = 'must be the address of the controller, such as "http://controller:9000"'
_NO_ANSWER = (
    "the controller or the broker does not answer, or refuses this user or its password, or has a certificate that is "
    "not trusted"
)
_NO_NULLS = (
    "the table does not keep NULLs, so people and keys that are missing would be counted; set nullHandlingEnabled in "
    "its tableIndexConfig, and build its segments again where a column has NULLs"
)

# Nothing is trimmed before it is merged, counts are exact, and NULL is a default with a mark beside it.
_OPTIONS: Mapping[str, str] = {
    "minServerGroupTrimSize": "-1",
    "minSegmentGroupTrimSize": "-1",
    "minBrokerGroupTrimSize": "-1",
    "numGroupsLimit": str(MAX_GROUPS),
    "useApproximateFunction": "false",
    "enableNullHandling": "false",
}

# What a reply may raise where it is not as a broker writes it; a closed client is a RuntimeError.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class PinotEngine(Engine):
    """OFFLINE tables of a cluster, by name. `types` says which columns of text or milliseconds hold days or moments.

    `password` belongs to the user in `url`; without a user there it is a token. `ca_file` has the certificates that are
    trusted in place of those of the system. Every query is compared with the controller's list of segments: what was
    not looked at completely is a failure.
    """

    dialect = PinotSql
    abilities = Abilities(
        name="Pinot",
        nested=False,
        keys=frozenset(("text", "integer", "boolean", "date", "timestamp")),
        conditional_sums=False,
        text_order="UTF-16",
        completeness="the segments that a query looked at are those that the controller lists, or it fails",
    )

    def __init__(
        self,
        url: str,
        tables: Mapping[str, str],
        *,
        controller: str,
        password: str | None = None,
        ca_file: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        types: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        if not timeout_s > 0:
            raise InvalidArgument("timeout_s", "must be above 0")
        try:
            import httpx2
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(_NO_DRIVER) from missing
        self._failures = (httpx2.HTTPError, httpx2.InvalidURL, *_UNREADABLE)
        self._closed = False
        user, self._broker = _without_user(url)
        self._controller = _without_user(controller)[1]
        self._options = ";".join(
            f"{name}={value}" for name, value in {**_OPTIONS, "timeoutMs": str(int(timeout_s * 1000))}.items()
        )
        auth = None if user is None else httpx2.BasicAuth(user, password or "")
        headers = {"Authorization": f"Bearer {password}"} if password and user is None else {}
        # Not through a proxy of the environment: a broker is a machine of one's own network.
        self._http = httpx2.Client(
            auth=auth,
            verify=True if ca_file is None else _read_certificates(ca_file),
            headers=headers,
            timeout=httpx2.Timeout(timeout_s + MARGIN_S, connect=CONNECT_S, pool=None),
            limits=httpx2.Limits(max_connections=MAX_CONNECTIONS),
            trust_env=False,
        )
        self._sources: dict[str, str] = {}
        self._counted: dict[tuple[str, str], tuple[frozenset[str], int]] = {}
        self._columns: dict[str, dict[str, PinotColumn]] = {}
        try:
            for name, source in tables.items():
                self._find(name, source.removesuffix("_OFFLINE"), (types or {}).get(name, {}))
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
        options = dict(settings.options)
        if "controller" not in options:
            raise EngineFailed(_NO_CONTROLLER, setting="controller")
        file = options.pop("password_file", None)
        password = os.environ.get(PASSWORD) if file is None else read_password(file)
        return cls(settings.url or "", sources, password=password, types=types, **options)

    @classmethod
    def origin(cls, settings: EngineSettings, source: str, folder: Path) -> str:
        address = _without_user(settings.url or "")[1].partition("://")[2]
        return f"{settings.type} {address} {source.removesuffix('_OFFLINE')}"

    @classmethod
    def places(cls, settings: EngineSettings, source: str, folder: Path) -> frozenset[str]:
        return frozenset({cls.origin(settings, source, folder)})

    def _find(self, name: str, source: str, types: Mapping[str, str]) -> None:
        """Learn about one table, and ask it for nothing."""
        known = self._describe("/tables").get("tables") or []
        if source not in known:
            near = find_nearest(source, known)
            raise EngineFailed(f"{source!r} is not a table of this cluster", table=name, nearest=near)
        config = self._describe(f"/tables/{quote(source, safe='')}").get("OFFLINE")
        if config is None:
            raise EngineFailed(f"{source!r} has no OFFLINE part, and only that is read", table=name)
        schema = self._describe(f"/tables/{quote(source, safe='')}/schema")
        keeps_nulls = (config.get("tableIndexConfig") or {}).get("nullHandlingEnabled")
        if not (keeps_nulls or schema.get("enableColumnBasedNullHandling")):
            raise EngineFailed(_NO_NULLS, table=name)
        self._sources[name], self._columns[name] = f"{source}_OFFLINE", read_columns(schema, types)
        if problem := self._probe(name):
            raise EngineFailed(problem, table=name)

    def _describe(self, path: str) -> dict[str, Any]:
        """What the controller says of the set-up."""
        with suppress(*self._failures):
            return self._get(path)
        # Raised here: even `from None` would leave the reply in __context__.
        raise EngineFailed(_NO_ANSWER)

    def _probe(self, name: str) -> str:
        """Ask for the people of no row: why the table cannot be asked, in words."""
        nothing = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(0))
        query = self._counting(name, next(iter(self._columns[name])), nothing)
        try:
            self._ask(name, query)
            return ""
        except Incomplete as incomplete:
            return f"the table cannot be asked: {incomplete}"
        except self._failures:
            return _NO_ANSWER

    def tables(self) -> tuple[str, ...]:
        return tuple(self._sources)

    def schema(self, table: str) -> dict[str, ColumnType]:
        if self._closed:
            raise EngineFailed(CLOSED)
        if table not in self._columns:
            raise InvalidArgument("table", f"must be one of {', '.join(self._columns)}")
        return {name: column.kind for name, column in self._columns[table].items()}

    def check(self) -> None:
        for name in self._sources:
            if problem := self._probe(name):
                raise EngineFailed(problem, table=name)

    def run(self, query: exp.Query) -> list[tuple[Any, ...]]:
        read = tables_of(query, self.tables())
        name, problem = read[0].name if len(read) == 1 else "", "the query is none that Pinot is asked"
        if not self._closed and name:
            try:
                source, columns = self._sources[name], self._columns[name]
                asked, reply = self._ask(name, translate(query, source, columns))
                if asked.loses(reply_rows(reply)):
                    asked, reply = self._ask(name, translate(query, source, columns, measures=True))
                if asked.misplaces(reply_rows(reply)):
                    asked, reply = self._ask(name, asked.of_all_groups())
                return asked.read(reply_rows(reply))
            except Untranslatable:
                pass
            except Incomplete as incomplete:
                problem = str(incomplete)
            except self._failures as error:
                problem = type(error).__name__
        # Raised here and not above: even `from None` would leave the reply's text in __context__.
        raise self._failure(name, problem)

    def _failure(self, name: str, problem: str) -> EngineFailed:
        """Say in the owner's log why there is no answer: without data, and without the question."""
        if self._closed:
            return EngineFailed(CLOSED)
        fields = {"table": self._sources.get(name, ""), "why": problem}
        _LOG.error("no complete answer from Pinot", extra={"fields": fields})
        return EngineFailed(COULD_NOT_ANSWER)

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a reply as they are, with no look at the segments. Only `run` makes them those of the port."""
        rows = reply_rows(self._post(text))
        return [tuple(row) for row in rows]

    def _ask(self, name: str, query: PinotQuery) -> tuple[PinotQuery, dict[str, Any]]:
        """The query as it was asked, and the broker's reply, which is complete."""
        before = self._segments(name)
        counts = [self._count_values(name, key, before) for key in query.keys]
        asked = query.among(math.prod(counts))
        reply = self._post(asked.tree.sql(dialect=PinotSql, identify=True, comments=False))
        if problem := incompleteness(reply, before, self._segments(name), asked.most):
            raise Incomplete(problem)
        return asked, reply

    def _counting(self, name: str, key: str, *conditions: exp.Expr) -> PinotQuery:
        """How many values a column has."""
        values = exp.Count(this=exp.Distinct(expressions=[exp.column(key, quoted=True)]))
        query = exp.select(values).from_(exp.table_(name, quoted=True)).where(*conditions)
        return translate(query, self._sources[name], self._columns[name])

    def _count_values(self, name: str, key: str, segments: frozenset[str]) -> int:
        """How many values a column has in these segments; known until the segments change."""
        known = self._counted.get((name, key))
        if known is None or known[0] != segments:
            reply = self._ask(name, self._counting(name, key))[1]
            known = self._counted[name, key] = segments, int((reply_rows(reply) or [[0]])[0][0])
        return known[1]

    def _segments(self, name: str) -> frozenset[str]:
        table = self._sources[name].removesuffix("_OFFLINE")
        return online_segments(self._get(f"/tables/{quote(table, safe='')}/idealstate?tableType=OFFLINE"))

    def _get(self, path: str) -> dict[str, Any]:
        return _read_object(self._http.get(self._controller + path))

    def _post(self, text: str) -> dict[str, Any]:
        # Not escaped: what is no text, such as half a character, then cannot be sent.
        body = json.dumps({"sql": text, "queryOptions": self._options}, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"}
        return _read_object(self._http.post(f"{self._broker}/query/sql", content=body, headers=headers))

    def close(self) -> None:
        self._closed = True
        self._http.close()


def _read_object(response: Any) -> dict[str, Any]:
    """The JSON object of a response with status 200."""
    if response.status_code != 200:
        raise ValueError
    read = json.loads(response.content)
    if not isinstance(read, dict):
        raise TypeError
    return read


def _without_user(url: str) -> tuple[str | None, str]:
    """The user of an address, and the address without user and password."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    user = None if parts.username is None else unquote(parts.username)
    return user, urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))


def _read_certificates(file: Path) -> ssl.SSLContext:
    with suppress(OSError):  # what is no certificate is an `ssl.SSLError`, which is one
        return ssl.create_default_context(cafile=file)
    raise EngineFailed(f"{str(file)!r} cannot be read, or has no certificates", setting="ca_file")
