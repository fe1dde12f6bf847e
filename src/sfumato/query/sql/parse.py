"""From text to a query as a tree. Size, nesting and work are limited before and while anything recurses."""

from __future__ import annotations

import re
from collections.abc import Container

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import NotSupported
from sfumato.query.request import MAX_DEPTH
from sfumato.query.sql.refusals import ONE_SELECT, STATEMENTS, unknown_token, unreadable
from sfumato.query.sql.tokens import tokenize

MAX_LENGTH = 20_000
MAX_TOKENS = 5_000
MAX_JOINS = 6
MAX_STEPS_PER_TOKEN, MAX_FREE_STEPS = 8, 2_000  # a SELECT that is well written takes one or two steps per token

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIXES = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}

# Everything that a core needs, and what is computed from its released rows. No other token reaches the parser: some
# constructs keep it busy for ever.
_TOKENS = {
    *(TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT, TokenType.STAR, TokenType.SEMICOLON),
    *(TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.AND, TokenType.OR, TokenType.IN, TokenType.BETWEEN),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.LIMIT),
    *(TokenType.DISTINCT, TokenType.ALIAS, TokenType.ASC, TokenType.DESC),
    *(TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE, TokenType.DATE, TokenType.TIMESTAMP),
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.DCOLON),
    # after the core: clauses
    *(
        TokenType.WITH,
        TokenType.HAVING,
        TokenType.OFFSET,
        TokenType.FETCH,
        TokenType.FIRST,
        TokenType.NEXT,
        TokenType.UNION,
    ),
    *(TokenType.ALL, TokenType.JOIN, TokenType.ON, TokenType.USING, TokenType.INNER, TokenType.CROSS),
    *(TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.OUTER),
    *(TokenType.PERCENT,),  # as an alias
    # expressions, of one row and after the core
    *(TokenType.SLASH, TokenType.MOD, TokenType.DPIPE, TokenType.IS, TokenType.NULL, TokenType.LIKE, TokenType.ILIKE),
    *(TokenType.NULLSAFE_EQ,),
    *(TokenType.CASE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END),
    *(TokenType.OVER, TokenType.PARTITION_BY, TokenType.ROW, TokenType.ROWS, TokenType.RANGE, TokenType.FILTER),
    *(TokenType.ESCAPE, TokenType.FOR, TokenType.INTERVAL, TokenType.CURRENT_DATE),
    # types of casts
    *(TokenType.INT, TokenType.BIGINT, TokenType.DOUBLE, TokenType.FLOAT, TokenType.DECIMAL, TokenType.VARCHAR),
    *(TokenType.TEXT, TokenType.BOOLEAN, TokenType.TIME, TokenType.TIMESTAMPTZ),
}


class QuestionSql(Dialect):
    """The SQL of questions: NULL comes last in every order, as in the engine that orders released rows."""

    NULL_ORDERING = "nulls_are_last"


class BoundedParser(sqlglot.Parser):
    """A parser that gives up after so many steps: some texts of allowed tokens would take it exponential time."""

    def __init__(self, steps: int) -> None:
        super().__init__(dialect=QuestionSql)
        self._steps_left = steps

    def _advance(self, times: int = 1) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise SqlglotError("too many steps")
        super()._advance(times)

    def _warn_unsupported(self) -> None:
        """Refuse what is no query. The parser would write it to the log."""
        raise SqlglotError("not a query")


def parse_select(text: str, *, more: Container[TokenType] = (), lines_before: int = 0) -> exp.Select:
    """The one SELECT in `text`. It may have the tokens of a question, and `more`.

    Its first lines may not be the caller's: so many are not counted where it cannot be read.
    """
    query = parse_query(text, more=more, lines_before=lines_before)
    if not isinstance(query, exp.Select) or query.args.get("with_"):
        raise NotSupported(ONE_SELECT)
    return query


def parse_query(text: str, *, more: Container[TokenType] = (), lines_before: int = 0) -> exp.Query:
    """The one query in `text`: a SELECT, also one with WITH, or several that are joined by UNION."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise NotSupported(f"a question is text of at most {MAX_LENGTH} characters")
    try:
        tokens = tokenize(text)
        _check_tokens(tokens, more)
        parser = BoundedParser(MAX_FREE_STEPS + MAX_STEPS_PER_TOKEN * len(tokens))
        statements = parser.parse(tokens, text)
    except (SqlglotError, RecursionError, ValueError) as error:
        raise unreadable(error, lines_before) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise NotSupported(ONE_SELECT)
    return statements[0]


def _check_tokens(tokens: list[Token], more: Container[TokenType]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise NotSupported(f"the question is longer than {MAX_TOKENS} words and signs; ask for ranges instead of lists")
    kinds = [token.token_type for token in tokens]
    first = next((kind for kind in kinds if kind is not TokenType.L_PAREN), None)
    if first not in (TokenType.SELECT, TokenType.WITH):
        word = re.match(r"[A-Za-z]{1,20}\b", tokens[0].text) if tokens else None
        other = f"{word[0]} cannot be asked; {ONE_SELECT}" if word else ONE_SELECT
        raise NotSupported(STATEMENTS.get(word[0].upper() if word else "", other))
    if TokenType.SEMICOLON in kinds[:-1]:
        raise NotSupported(ONE_SELECT)
    if kinds.count(TokenType.JOIN) > MAX_JOINS:
        raise NotSupported(f"a question has at most {MAX_JOINS} JOIN, and all of them between released rows")
    depth = run = 0
    for token in tokens:
        if token.token_type not in _TOKENS and token.token_type not in more:
            raise NotSupported(unknown_token(token))
        depth = max(depth + (token.token_type in _OPENING) - (token.token_type in _CLOSING), 0)
        run = run + 1 if token.token_type in _PREFIXES else 0
        if depth + run > MAX_DEPTH:
            raise NotSupported(f"the question is nested more than {MAX_DEPTH} deep; flatten it")
