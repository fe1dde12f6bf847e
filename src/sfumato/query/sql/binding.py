"""Parameters in SQL: a literal for each `?` and `:name`, bound on the tokens of the statement.

A question with parameters is the same question as the one with these literals, so it has the same digest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import InvalidArgument, NotSupported, find_nearest
from sfumato.query.parameters import Params, read_params
from sfumato.query.request import RequestLike
from sfumato.query.sql.parse import MAX_LENGTH
from sfumato.query.sql.tokens import tokenize
from sfumato.query.values import decimal
from sfumato.types import Value


class ParameterPlace(NamedTuple):
    """Where a parameter stands in a text, and its name there: `:region`, or `?2` for the second `?`."""

    name: str
    start: int
    end: int


def bind_request(request: RequestLike, params: Params | None = None) -> RequestLike:
    """The request with its parameters bound: those given beside it, or its own field `params`."""
    if isinstance(request, Mapping) and "sql" in request and "params" in request:
        if params is not None:
            raise InvalidArgument("params", "stand in the request already; leave one of them out")
        params = request["params"]
        request = {name: value for name, value in request.items() if name != "params"}
    if params is None:
        return request
    if isinstance(request, str):
        return bind(request, params)
    if not isinstance(request, Mapping) or not isinstance(request.get("sql"), str):
        raise InvalidArgument("params", "belong to a question in SQL, such as {'sql': '... WHERE region = ?'}")
    return {**request, "sql": bind(request["sql"], params)}


def bind(sql: str, params: Params) -> str:
    """The statement with a literal for each parameter.

    Its tokens are those of the statement, but for the parameters: each is replaced by the tokens of its literal. So no
    value can be read as anything but a literal, whatever stands beside it.
    """
    values, tokens = read_params(params), _tokenize(sql)
    places = [*_find_places(tokens)]
    _check_names(places, values, named=isinstance(params, Mapping))
    literals = {name: literal(value) for name, value in values.items()}
    if len(sql) + sum(len(literals[place.name]) for place in places) > MAX_LENGTH:
        raise NotSupported(f"a question is text of at most {MAX_LENGTH} characters, with the values of its parameters")
    pieces, at = list[str](), 0
    for place in places:
        pieces += [sql[at : place.start], f" {literals[place.name]} "]
        at = place.end + 1
    bound = "".join([*pieces, sql[at:]])
    if _words(_tokenize(bound)) != [*_expected(tokens, places, literals)]:
        raise NotSupported("a parameter stands where no value can stand; write spaces around it")
    return bound


def literal(value: Value) -> str:
    """A value as a literal of SQL."""
    if isinstance(value, bool):
        return exp.Boolean(this=value).sql()
    if isinstance(value, str):
        return exp.Literal.string(value).sql()
    if isinstance(value, date):
        return f"{'TIMESTAMP' if isinstance(value, datetime) else 'DATE'} {exp.Literal.string(str(value)).sql()}"
    return str(value) if isinstance(value, int) else decimal(value)


def _tokenize(sql: str) -> list[Token]:
    if len(sql) <= MAX_LENGTH:
        try:
            return tokenize(sql)
        except SqlglotError:
            raise NotSupported("this could not be read as SQL: a text or a name is not closed") from None
    raise NotSupported(f"a question is text of at most {MAX_LENGTH} characters")


def _find_places(tokens: list[Token]) -> Iterator[ParameterPlace]:
    """The parameters. The tokenizer tells them from a sign in a text, in a name or in a comment."""
    count = 0
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        if token.token_type is TokenType.PLACEHOLDER:
            count += 1
            yield ParameterPlace(f"?{count}", token.start, token.end)
        elif token.token_type is TokenType.COLON and after is not None and after.start == token.end + 1:
            is_name = len(after.text) == after.end - after.start + 1  # and neither a text nor a name in quotes
            if is_name and re.fullmatch(r"[^\W\d]\w*", after.text):
                yield ParameterPlace(f":{after.text}", token.start, after.end)


def _check_names(places: list[ParameterPlace], values: Mapping[str, Any], *, named: bool) -> None:
    """Every place has a value, every value has a place, and all places are of one kind."""
    names = dict.fromkeys(place.name for place in places)
    other = next((name for name in names if name.startswith("?") == named), None)
    if other is not None:
        way = "by name, as in {'region': 'emea'}" if other.startswith(":") else "as a list, one for each ?"
        raise InvalidArgument("params", f"the statement has {other[:60].rstrip('123456789')}: give its values {way}")
    if not named and len(names) != len(values):
        raise InvalidArgument(
            "params", f"the statement has {len(names)} places (?), and {len(values)} values are given"
        )
    for name in names.keys() - values.keys():
        near = find_nearest(name, values)
        raise InvalidArgument("params", f"{name[:60]} has no value", nearest=near and near[:60])
    for name in values.keys() - names.keys():
        near = find_nearest(name, names)
        raise InvalidArgument("params", f"{name[:60]} does not stand in the statement", nearest=near and near[:60])


def _expected(
    tokens: list[Token], places: list[ParameterPlace], literals: Mapping[str, str]
) -> Iterator[tuple[TokenType, str]]:
    """The tokens that the bound statement has to have."""
    starts = {place.start: place for place in places}
    end = -1
    for token in tokens:
        if token.start <= end:
            continue  # the name after a colon
        place = starts.get(token.start)
        if place is None:
            yield token.token_type, token.text
        else:
            yield from _words(tokenize(literals[place.name]))
            end = place.end


def _words(tokens: list[Token]) -> list[tuple[TokenType, str]]:
    return [(token.token_type, token.text) for token in tokens]
