"""The shape of the code: sizes, names and layers that a newcomer can rely on.

Everything here is computed from the source. A number that is close to its limit is a reason to look at the code, not
to raise the limit.
"""

from __future__ import annotations

import ast
import re
import statistics
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sfumato

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "sfumato"
FILES = sorted(SRC.rglob("*.py"))

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_P90_LINES = 35
MAX_PRIVATE_USED_ONCE = 0.30
SEARCHES = ("search", "match", "fullmatch", "findall", "finditer", "split", "sub")
ERRORS_OF_LIBRARIES = {  # which have no fields for it
    "config/read.py:read_config",  # where a text stops being TOML
    "postprocess.py:_first_line",  # which is shown
}
DUCKDB_ALLOWED = ("engines/duckdb", "release/outputs", "wire/frames.py", "demo/", "postprocess.py")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def place(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def lines_of(function: Function) -> int:
    """The lines of a function without its decorators and its docstring."""
    start = function.lineno
    body = function.body
    docstring = ast.get_docstring(function, clean=False)
    described = body[0].end_lineno - body[0].lineno + 1 if docstring is not None and body[0].end_lineno else 0
    return (function.end_lineno or start) - start + 1 - described


def test_a_class_name_occurs_once() -> None:
    names = Counter(node.name for path in FILES for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == []
    aliases = {
        node.target.id
        for path in FILES
        for node in tree(path).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
    }
    assert aliases & names.keys() == set()


def test_files_are_short() -> None:
    sizes = {place(path): len(path.read_text("utf-8").splitlines()) for path in FILES}
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_functions_are_short() -> None:
    sizes = {f"{place(path)}:{each.name}": lines_of(each) for path in FILES for each in functions(path)}
    assert {name: size for name, size in sizes.items() if size > MAX_FUNCTION_LINES} == {}
    assert statistics.quantiles(sizes.values(), n=10)[-1] <= MAX_P90_LINES
    assert statistics.median(sizes.values()) <= 10


def test_few_private_functions_are_used_once() -> None:
    """Of the functions at the top level of modules. A name that is used once has to explain more than its body."""
    everything = sum(isinstance(node, Function) for path in FILES for node in tree(path).body)
    once = [
        f"{place(path)}:{node.name}"
        for path in FILES
        for node in tree(path).body
        if isinstance(node, Function) and node.name.startswith("_") and not node.name.startswith("__")
        if len(re.findall(rf"\b{node.name}\b", path.read_text("utf-8"))) == 2
    ]
    assert len(once) / everything < MAX_PRIVATE_USED_ONCE, f"{len(once)} of {everything}"


def test_limits_are_called_max() -> None:
    wrong = re.compile(r"\b_?(?:MOST|LARGEST|LONGEST)(?:_[A-Z_]+)? *(?::[^=\n]+)?=")
    assert [place(path) for path in FILES if wrong.search(path.read_text("utf-8"))] == []


def test_words_are_plain() -> None:
    """In the code, and in the pages that are written by hand."""
    wrong = re.compile(r"\b(?:told|nobody|somebody|whoever|anew|so that)\b", re.IGNORECASE)
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference"]
    found = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in [*FILES, *pages, *(ROOT / "proofs").glob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md"]
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if wrong.search(line)
    }
    assert found == set()


def test_duckdb_is_imported_where_it_is_allowed() -> None:
    found = {
        place(path)
        for path in FILES
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Import) and any(each.name.split(".")[0] == "duckdb" for each in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "duckdb")
    }
    assert {name for name in found if not name.startswith(DUCKDB_ALLOWED)} == set()


def errors_of(function: Function) -> set[str]:
    """The names of a function's parameters that are errors, and of the errors that it catches."""
    caught = {node.name for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name}
    taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    kinds = {each.arg: ast.unparse(each.annotation) for each in taken if each.annotation is not None}
    return caught | {name for name, kind in kinds.items() if re.search(r"Error|Exception|Refused|Failed", kind)}


def reads_text(node: ast.AST, texts: set[str]) -> bool:
    """Whether a part of the code compares one of these texts, calls a method of it, or searches it."""
    if isinstance(node, ast.Compare | ast.Attribute):
        return any(ast.unparse(inner) in texts for inner in ast.iter_child_nodes(node))
    searches = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES
    return searches and any(ast.unparse(argument) in texts for argument in node.args)


def test_nothing_decides_by_the_text_of_an_error() -> None:
    """No code compares, searches or takes apart the text of an error that it has caught or was given."""
    found = {
        f"{place(path)}:{function.name}"
        for path in FILES
        for function in functions(path)
        if (texts := {text for name in errors_of(function) for text in (f"str({name})", f"{name}.args[0]")})
        for node in ast.walk(function)
        if reads_text(node, texts)
    }
    assert found - ERRORS_OF_LIBRARIES == set()


def test_nothing_looks_into_the_text_of_a_note() -> None:
    wrong = re.compile(r"\" in note\b(?! for)|note\.text (?:==|in)|in (?:each|note)\.text")
    shown = [path for path in FILES if not place(path).startswith("ledger/")]  # whose notes are rows of the journal
    assert [place(path) for path in shown if wrong.search(path.read_text("utf-8"))] == []


def test_public_names_stand_in_one_table() -> None:
    """`__all__`, the lazy loader and what type checkers see follow from one table."""
    assert sorted(sfumato.__all__) == sorted(sfumato.PUBLIC)
    for name in sfumato.__all__:
        assert getattr(sfumato, name) is not None


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [found] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return list(found)


def test_layers_are_those_of_the_tree() -> None:
    """Every module and package at the top has a place in the layers."""
    placed = {name.strip() for layer in layers() for name in layer.split("|")}
    there = {f"sfumato.{path.stem}" for path in SRC.glob("*.py") if path.stem != "__init__"}
    there |= {f"sfumato.{path.parent.name}" for path in SRC.glob("*/__init__.py")}
    assert there == placed


def test_the_architecture_page_draws_the_layers() -> None:
    """Its picture of the rooms has the layers of the contract, in their order."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    picture = page.partition("## Rooms")[2].partition("```text\n")[2].partition("```")[0]
    rooms = [re.split(" {2,}", line)[0] for line in picture.splitlines() if not line.startswith(" ")]
    assert rooms == [layer.replace("sfumato.", "") for layer in layers()]
