"""From text to tokens. Names may stand in "double quotes" or in `backticks`; text stands in 'single quotes' only."""

from __future__ import annotations

import sqlglot
from sqlglot.tokenizer_core import Token


class SqlTokenizer(sqlglot.Tokenizer):
    """The tokens of SQL as tools write it. No word turns the rest of a statement into one token."""

    IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - as sqlglot declares it
    COMMANDS = set()  # noqa: RUF012


def tokenize(text: str) -> list[Token]:
    """The tokens of a text. Raises `SqlglotError` where a text or a name is not closed."""
    return SqlTokenizer().tokenize(text)
