"""The entities of a report as a reader sees them: her own, opened level by level, and found by their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sfumato.errors import NotFound
from sfumato.session import Session
from sfumato.web.report_view import ReportView
from sfumato.wire import EntityPage, EntityRow, ReportInfo

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
    lead = tuple(_lead(session, analyst, view, info))
    page = session.entities(view.report, analyst=analyst, rows=MAX_LISTED)
    nodes = _list_level(session, analyst, view, page, [node for node in lead if node.address])
    return EntityTree(nodes, lead, page.listed, page.next is not None)


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


def _list_level(
    session: Session, analyst: str, view: ReportView, page: EntityPage, lead: Sequence[EntityNode]
) -> tuple[EntityNode, ...]:
    """The entities of a page. The first of the `lead` is one of them, also where the page is too short for it."""
    nodes = {node.address: node for row in page.rows for node in (_node(view, row),)}
    if lead:
        first, *rest = lead
        path = view.entity[: len(view.entity) - len(rest)]
        below = session.entities(view.report, path, analyst=analyst, rows=MAX_LISTED)
        children = _list_level(session, analyst, view, below, rest)
        nodes[first.address] = replace(first, children=children, is_cut=below.next is not None)
    return tuple(nodes.values())


def _node(view: ReportView, row: EntityRow) -> EntityNode:
    address = replace(view, entity=tuple(row.entity.values())).address
    return EntityNode(row.level, row.name, address, opens=row.has_children)


def find_nodes(session: Session, analyst: str, view: ReportView, text: str) -> list[tuple[str, EntityNode]]:
    """Her entities whose names begin with a text, each with the names above it."""
    if not text:
        return []
    page = session.entities(view.report, analyst=analyst, find=text, rows=MAX_FOUND)
    return [(" / ".join([*row.entity.values()][:-1]), _node(view, row)) for row in page.rows]
