"""What may be computed from released rows: a closed list of the nodes of a query, and their spelling for the engine.

Every node of the tree and every part of it that is set must be on the list. So a query can name nothing but the
relations and the functions that stand here, whatever else the engine knows. An expression that fails on a row is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.types import TYPES, Type

RELEASED = "sfumato_core"
"""The relation of the released rows of a core. No name of a question begins like this."""

PUBLIC = "sfumato_public_"
"""Before the name of a public table, as the relation of its rows."""

TOO_DEEP = "this is nested too deep, or too long; write it with fewer operators"

MAX_LEVELS = 100
MAX_NODES = 20_000
MAX_TEXT = 10_000

_CLAUSES = ("with_", "distinct", "order", "limit", "offset")
_ONE: tuple[str, ...] = ("this",)
_TWO = ("this", "expression")
_LIST = ("this", "expressions")

_NODES: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Select: (*_CLAUSES, "expressions", "from_", "joins", "where", "group", "having"),
    exp.Union: (*_CLAUSES, *_TWO),
    exp.Subquery: ("this", "alias"),
    exp.With: ("expressions",),
    exp.CTE: ("this", "alias"),
    exp.Table: ("this", "alias"),
    exp.TableAlias: ("this", "columns"),
    exp.Join: ("this", "on", "side", "kind", "using"),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("expression",),
    exp.Offset: ("expression",),
    exp.Group: ("expressions",),
    exp.Distinct: ("expressions",),
    exp.Order: ("expressions",),
    **dict.fromkeys((exp.From, exp.Where, exp.Having, exp.Paren, exp.Not, exp.Neg, exp.Boolean), _ONE),
    exp.Null: (),
    exp.Star: (),
    exp.Alias: ("this", "alias"),
    exp.Column: ("this", "table"),
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    exp.Window: ("this", "partition_by", "order", "spec", "over"),
    exp.WindowSpec: ("kind", "start", "start_side", "end", "end_side"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.TryCast: ("this", "to", "safe"),
    exp.Cast: ("this", "to", "safe"),
    exp.DataType: ("this", "expressions", "nested"),
    exp.DataTypeParam: _ONE,
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions", "query"),
    **dict.fromkeys((exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.Escape), _TWO),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _TWO),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Like, exp.ILike), _TWO),
    exp.Div: ("this", "expression", "typed", "safe"),
    exp.DPipe: ("this", "expression", "safe"),
    exp.Var: _ONE,
}

_FUNCTIONS: dict[type[exp.Expr], tuple[str, ...]] = {
    # aggregates and windows
    exp.Count: ("this", "big_int"),
    exp.Filter: _TWO,
    **dict.fromkeys((exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median), _ONE),
    **dict.fromkeys((exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop), _ONE),
    **dict.fromkeys((exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist), ()),
    exp.Ntile: _ONE,
    **dict.fromkeys((exp.FirstValue, exp.LastValue), _ONE),
    **dict.fromkeys((exp.Lag, exp.Lead), ("this", "offset", "default")),
    # numbers
    **dict.fromkeys((exp.Abs, exp.Floor, exp.Ceil, exp.Sign, exp.Sqrt, exp.Ln, exp.Exp), _ONE),
    exp.Round: ("this", "decimals"),
    exp.Pow: _TWO,
    # any values
    exp.Coalesce: _LIST,
    exp.Nullif: _TWO,
    **dict.fromkeys((exp.Greatest, exp.Least), ("this", "expressions", "ignore_nulls")),
    # text and moments
    **dict.fromkeys((exp.Lower, exp.Upper, exp.Trim, exp.Length), _ONE),
    exp.Substring: ("this", "start", "length"),
    **dict.fromkeys((exp.Left, exp.Right, exp.StartsWith), _TWO),
    **dict.fromkeys((exp.Year, exp.Month, exp.Day), _ONE),
    exp.Extract: _TWO,
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), ("this", "unit")),
}

PARTS = {**_NODES, **_FUNCTIONS}
"""The nodes that a query over released rows may have, and the parts that they may have there."""

_FUNCTION_NAMES = (
    "there are count, sum, avg, min, max, median, stddev, rank, row_number, lag, abs, floor, ceil, round, sqrt, ln, "
    "power, coalesce, nullif, greatest, least, lower, upper, trim, length, substring, extract and date_trunc"
)

_UNITS = {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "ISODOW", "DOY", "HOUR", "MINUTE", "SECOND"}
_TYPES = {
    *(exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.INT, exp.DType.BIGINT, exp.DType.DOUBLE, exp.DType.FLOAT),
    *(exp.DType.DECIMAL, exp.DType.BOOLEAN, exp.DType.DATE, exp.DType.TIMESTAMP),
}

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Neg)
_UNSAFE = (exp.Sqrt, exp.Ln, exp.Exp, exp.Pow)
_MAY_FAIL = (*_ARITHMETIC, *_UNSAFE, exp.Mod, exp.Abs, exp.Round, exp.Substring, exp.Left, exp.Right, exp.Extract)
_NOT_OF_ONE_ROW = (exp.AggFunc, exp.Window, exp.RowNumber, exp.Query)


def check_released(tree: exp.Query) -> None:
    """Refuse a query with any node, part or depth that is not on the list."""
    levels = {id(tree): 0}
    for node in tree.bfs():
        level = 0 if node is tree or node.parent is None else levels[id(node.parent)] + 1
        levels[id(node)] = level
        if level > MAX_LEVELS or len(levels) > MAX_NODES:
            raise NotSupported(TOO_DEEP)
        parts = PARTS.get(type(node))
        if parts is None:
            raise _unknown(node)
        extra = next((part for part, value in node.args.items() if value and part not in parts), None)
        if extra is not None:
            raise NotSupported(f"{extra.strip('_').upper()} is not supported yet in {_words(node)}; leave it out")
        _check_words(node)


def _check_words(node: exp.Expr) -> None:
    """What is a word of SQL in a node, and no expression."""
    if isinstance(node, exp.DataType) and node.this not in _TYPES:
        raise NotSupported(
            "this type is not supported yet in a cast; cast to INTEGER, DOUBLE, DECIMAL, VARCHAR or DATE"
        )
    unit = node.args.get("unit") or (node.this if isinstance(node, exp.Extract) else None)
    if isinstance(unit, exp.Expr) and unit.name.upper() not in _UNITS:
        raise NotSupported(f"{unit.name[:20]} is not supported yet; take year, quarter, month, week, day or hour")
    if isinstance(node, exp.Var) and node.name.upper() not in _UNITS:
        raise _unknown(node)


def _unknown(node: exp.Expr) -> NotSupported:
    if isinstance(node, exp.Func):
        return NotSupported(f"{_words(node)} is not supported yet; {_FUNCTION_NAMES}")
    return NotSupported(f"{_words(node)} is not supported yet; compute from released rows with functions and CASE")


def _words(node: exp.Expr) -> str:
    """A node as a reader of the question would call it."""
    if isinstance(node, exp.Anonymous | exp.Identifier | exp.Var):
        return node.name[:40]
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()


def write_released(tree: exp.Query, relations: Mapping[str, Mapping[str, Type]]) -> tuple[str, str | None]:
    """The query for the engine, and the same where numbers of aggregates are doubles, which cannot overflow.

    The second is for rows on which the first fails; None where it would be the same. `relations` are the columns of the
    released rows of each core, and of public tables: each column is a list, and the lists are the parameters of the
    query. The tree is changed.
    """
    wide = {id(outer) for node in tree.find_all(*_NOT_OF_ONE_ROW) for outer in (node, *_ancestors(node))}
    overflowing = []
    for node in [*tree.bfs()][::-1]:
        if type(node) is exp.Cast:
            node.replace(exp.TryCast(this=node.this, to=node.args["to"]))
        elif isinstance(node, exp.Identifier):
            node.set("quoted", True)
        elif isinstance(node, exp.DPipe):  # texts that double with every step would fill the memory
            part = exp.Left(expression=exp.Literal.number(MAX_TEXT))
            node.replace(part)
            part.set("this", node)
        elif isinstance(node, _MAY_FAIL) and id(node) not in wide:
            attempt = exp.Try()
            node.replace(attempt)
            attempt.set("this", node)
        elif isinstance(node, _UNSAFE):
            raise NotSupported(
                f"{_words(node)} of an aggregate is not supported yet; give the aggregate a name in WITH first, and "
                "compute from that"
            )
        elif isinstance(node, _ARITHMETIC):
            overflowing.append(node)
    others = tree.args.get("with_")
    rows = [_lists(name, columns) for name, columns in relations.items()]
    tree.set("with_", exp.With(expressions=[*rows, *(others.expressions if others else ())]))
    text = tree.sql("duckdb")
    for node in overflowing:
        for operand in (part for part in (node.this, node.args.get("expression")) if part is not None):
            cast = exp.Cast(to=exp.DataType.build("double"))
            operand.replace(cast)
            cast.set("this", operand)
    return text, tree.sql("duckdb") if overflowing else None


def _lists(relation: str, columns: Mapping[str, Type]) -> exp.CTE:
    """A relation whose columns are parameters, each a list of cells."""
    cells = [
        exp.alias_(
            exp.func("UNNEST", exp.cast(exp.Placeholder(), f"{TYPES[kind].duckdb}[]", dialect="duckdb")),
            exp.to_identifier(name, quoted=True),
        )
        for name, kind in columns.items()
    ]
    return exp.CTE(this=exp.select(*cells), alias=exp.TableAlias(this=exp.to_identifier(relation, quoted=True)))


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node
