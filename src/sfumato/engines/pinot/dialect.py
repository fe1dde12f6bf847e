"""Pinot's SQL, as far as trees of `translation` need it: that of sqlglot without what Pinot does not know."""

from __future__ import annotations

from sqlglot import Dialect, exp
from sqlglot.generator import Generator


class PinotWriter(Generator):
    NULL_ORDERING_SUPPORTED = None
    TYPE_MAPPING = {**Generator.TYPE_MAPPING, exp.DataType.Type.BIGINT: "LONG"}  # noqa: RUF012


class PinotSql(Dialect):
    NULL_ORDERING = "nulls_are_last"  # the writer says nothing of NULL where this is wanted
    Generator = PinotWriter
