"""From text to one SELECT as a tree. Size and nesting are limited on the tokens, before anything recurses."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import NotSupported
from sfumato.query.request import MAX_DEPTH
from sfumato.query.sql.refusals import FORM, ONE_SELECT, STATEMENTS, SUBQUERY, unknown_token

MAX_LENGTH = 20_000
MAX_TOKENS = 5_000

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_PREFIXES = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}

# Everything the form needs. No other token reaches the parser: some constructs keep it busy for ever.
_TOKENS = {
    *(TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT, TokenType.STAR, TokenType.SEMICOLON),
    *(TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.AND, TokenType.OR, TokenType.IN, TokenType.BETWEEN),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.LIMIT),
    *(TokenType.DISTINCT, TokenType.ALIAS, TokenType.ASC, TokenType.DESC),
    *(TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE, TokenType.DATE, TokenType.TIMESTAMP),
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.DCOLON),
}


def parse_select(text: str) -> exp.Select:
    """The one SELECT in `text`."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise NotSupported(f"a question is text of at most {MAX_LENGTH} characters")
    try:
        tokens = sqlglot.tokenize(text)
        _check_tokens(tokens)
        statements = sqlglot.Parser().parse(tokens, text)
    except (SqlglotError, RecursionError, ValueError):
        raise NotSupported(f"this could not be read as SQL; the form is {FORM}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise NotSupported(ONE_SELECT)
    return statements[0]


def _check_tokens(tokens: list[Token]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise NotSupported(f"the question is longer than {MAX_TOKENS} words and signs; ask for ranges instead of lists")
    kinds = [token.token_type for token in tokens]
    if kinds[:1] != [TokenType.SELECT]:
        word = re.match(r"[A-Za-z]{1,20}\b", tokens[0].text) if tokens else None
        other = f"{word[0]} cannot be asked; {ONE_SELECT}" if word else ONE_SELECT
        raise NotSupported(STATEMENTS.get(word[0].upper() if word else "", other))
    if TokenType.SEMICOLON in kinds[:-1]:
        raise NotSupported(ONE_SELECT)
    depth = run = 0
    for place, token in enumerate(tokens):
        if token.token_type not in _TOKENS:
            raise NotSupported(unknown_token(token))
        if token.token_type is TokenType.SELECT and place:
            raise NotSupported(SUBQUERY)
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        run = run + 1 if token.token_type in _PREFIXES else 0
        if depth + run > MAX_DEPTH:
            raise NotSupported(f"the question is nested more than {MAX_DEPTH} deep; flatten it")
