"""The entities of a report as a reader sees them: her own, opened level by level, and found by their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sfumato.errors import NotFound
from sfumato.session import Session
from sfumato.web.report_view import ReportView
from sfumato.wire import EntityRow, ReportInfo

MAX_LISTED, MAX_FOUND = 100, 30


@dataclass(frozen=True, slots=True)
class EntityNode:
    """An entity in the tree, and those below it where it is open. `is_cut`: there are more than are listed."""

    level: str
    name: str
    address: str
    is_chosen: bool = False
    opens: bool = False
    children: tuple[EntityNode, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class EntityTree:
    """The topmost entities, open down to the one of the view.

    `path` leads to it from the top; those that are not the reader's have no address. `listed`: a table lists them.
    """

    nodes: tuple[EntityNode, ...]
    path: tuple[EntityNode, ...]
    listed: bool
    is_cut: bool


def read_tree(session: Session, analyst: str, view: ReportView, info: ReportInfo) -> EntityTree:
    """The tree for a view. Raises `NotFound` where its entity is not the analyst's."""
    if view.entity:
        session.entities(view.report, view.entity, analyst=analyst, rows=1)
    page = session.entities(view.report, analyst=analyst, rows=MAX_LISTED)
    nodes = _open_nodes(session, analyst, view, page.rows)
    return EntityTree(nodes, tuple(_lead(session, analyst, view, info)), page.listed, page.next is not None)


def _open_nodes(session: Session, analyst: str, view: ReportView, rows: Sequence[EntityRow]) -> tuple[EntityNode, ...]:
    nodes = []
    for row in rows:
        path = tuple(row.entity.values())
        node = EntityNode(row.level, row.name, replace(view, entity=path).address, opens=row.has_children)
        if view.entity[: len(path)] == path:
            below = session.entities(view.report, path, analyst=analyst, rows=MAX_LISTED)
            children = _open_nodes(session, analyst, view, below.rows)
            node = replace(node, is_chosen=path == view.entity, children=children, is_cut=below.next is not None)
        nodes.append(node)
    return tuple(nodes)


def _lead(session: Session, analyst: str, view: ReportView, info: ReportInfo) -> Iterator[EntityNode]:
    """The entities from the top down to that of the view. Once one is the reader's, so are all below it."""
    is_own = False
    for depth, (level, name) in enumerate(zip(info.entities, view.entity, strict=False), start=1):
        path = view.entity[:depth]
        is_own = is_own or _is_own(session, analyst, view, path)
        address = replace(view, entity=path).address if is_own else ""
        yield EntityNode(level, name, address, is_chosen=path == view.entity)


def _is_own(session: Session, analyst: str, view: ReportView, path: tuple[str, ...]) -> bool:
    try:
        session.entities(view.report, path, analyst=analyst, rows=1)
    except NotFound:
        return False
    return True


def find_nodes(session: Session, analyst: str, view: ReportView, text: str) -> list[tuple[str, EntityNode]]:
    """Her entities whose names begin with a text, each with the names above it."""
    if not text:
        return []
    page = session.entities(view.report, analyst=analyst, find=text, rows=MAX_FOUND)
    return [
        (" / ".join([*row.entity.values()][:-1]), EntityNode(row.level, row.name, replace(view, entity=path).address))
        for row in page.rows
        for path in (tuple(row.entity.values()),)
    ]
