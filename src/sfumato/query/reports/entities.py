"""Entities and their parents, such as accounts, campaigns and creatives: public, and never read from people's rows.

An entity is its path, from the top down: ("7", "spring") is the campaign spring of account 7. What an asker may not
see does not exist for her.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sfumato.errors import NotFound, NotSupported
from sfumato.mechanisms.consistency import Tree
from sfumato.query.values import read_value
from sfumato.types import Type

Path: TypeAlias = tuple[str, ...]
Tenancy: TypeAlias = Mapping[str, Collection[str | Path]]
"""What somebody may ask about, by level: names, which count wherever they are, or whole paths."""


@dataclass(frozen=True, slots=True)
class Family:
    """Entities whose numbers are settled together: a tree of paths, and which of them have cells of their own."""

    paths: tuple[Path, ...]
    tree: Tree
    measured: tuple[bool, ...]


class Entities:
    """The hierarchy of a report: its levels, the top first, and the entities, where a table lists them.

    `kinds` are the types of the columns that name them. An entity has one spelling: account 7 is not asked for as 07,
    which would be the same rows with another noise.
    """

    def __init__(
        self,
        levels: Iterable[str],
        rows: Iterable[tuple[str | None, ...]] | None = None,
        kinds: Mapping[str, Type] | None = None,
    ) -> None:
        self.levels = tuple(levels)
        self.listed = rows is not None
        self._kinds = kinds or {}
        self._children: dict[Path, dict[Path, None]] = {}
        self._named: dict[tuple[int, str], dict[Path, None]] = {}
        for row in rows or ():
            self._add(row)

    def _add(self, row: tuple[str | None, ...]) -> None:
        path: Path = ()
        for depth, name in enumerate(row):
            if name is None or not self.could_be(self.levels[depth], name):
                return
            above, path = path, (*path, name)
            self._children.setdefault(above, {})[path] = None
            self._named.setdefault((depth, name), {})[path] = None

    def could_be(self, level: str, name: str) -> bool:
        """Whether a row can have this name, and in no other spelling."""
        kind = self._kinds.get(level, "text")
        try:
            return bool(name) and str(read_value(level, kind, name)) == name
        except NotSupported:
            return False

    def find(self, entity: Mapping[str, str], tenancy: Tenancy | None) -> Path:
        """The path of an entity by the names of its levels; `NotFound` where there is none that may be seen."""
        names = self._checked(entity)
        if not self.levels:
            return self._everybody(tenancy)
        depth = max(map(self.levels.index, names))
        level, name = self.levels[depth], names[self.levels[depth]]
        found = self._named.get((depth, name), ()) if self.listed else self._spelled(names, depth)
        seen = [path for path in found if self._fits(path, names) and self.visible(path, tenancy)]
        if not seen:
            raise NotFound(f"there is no {level} {name[:60]!r} that you may ask about")
        if len(seen) > 1:
            above = self.levels[depth - 1]
            raise NotSupported(f"several are called {level} {name[:60]!r}; name its {above} too", field="entity")
        return seen[0]

    def _everybody(self, tenancy: Tenancy | None) -> Path:
        if tenancy is not None:
            raise NotFound("this report is about everybody, and you may ask about some entities only")
        return ()

    def _checked(self, entity: Mapping[str, str]) -> dict[str, str]:
        example = ", ".join(f"{level!r}: '7'" for level in self.levels[:1])
        shape = f"must name one of {', '.join(self.levels)}, such as {{{example}}}"
        if not self.levels and entity:
            raise NotSupported("this report has no entities; leave it out", field="entity")
        if not isinstance(entity, Mapping) or (self.levels and not entity):
            raise NotSupported(shape, field="entity")
        for level, name in entity.items():
            named = isinstance(name, str) or (type(name) is int and abs(name) < 2**63)
            if level not in self.levels or not named:
                raise NotSupported(shape, field="entity")
        return {level: str(name) for level, name in entity.items()}

    def _fits(self, path: Path, names: Mapping[str, str]) -> bool:
        return all(names.get(level, name) == name for level, name in zip(self.levels, path, strict=False))

    def _spelled(self, names: Mapping[str, str], depth: int) -> tuple[Path, ...]:
        """Without a table of entities nobody can tell whose an entity is, so that its whole path is needed."""
        missing = [level for level in self.levels[:depth] if level not in names]
        if missing:
            raise NotSupported(
                f"name its {' and '.join(missing)} too; no table of entities says which that is", field="entity"
            )
        path = tuple(names[level] for level in self.levels[: depth + 1])
        return (path,) if all(map(self.could_be, self.levels, path)) else ()

    def visible(self, path: Path, tenancy: Tenancy | None) -> bool:
        """Whether an entity, or one above it, is among those of an asker. None: she may see them all."""
        if tenancy is None:
            return True
        return any(
            name in tenancy.get(level, ()) or path[: depth + 1] in tenancy.get(level, ())
            for depth, (level, name) in enumerate(zip(self.levels, path, strict=False))
        )

    def doubtful(self, level: str, entity: str | Path) -> str:
        """What is wrong with an entity in somebody's tenancy, in words; nothing, where it is right."""
        depth = self.levels.index(level)
        names = (entity,) if isinstance(entity, str) else entity
        if not isinstance(entity, str) and len(entity) != depth + 1:
            return f"the path of a {level} is [{', '.join(self.levels[: depth + 1])}]"
        for each, name in zip(self.levels[depth + 1 - len(names) : depth + 1], names, strict=True):
            if not self.could_be(each, name):
                return f"no {each} can be called {name[:60]!r}; write it as it is in the table"
        if isinstance(entity, str) and len(self._named.get((depth, entity), ())) > 1:
            path = list(next(iter(self._named[depth, entity])))
            return f"several are called {level} {entity[:60]!r}; write its path, such as {path}"
        return ""

    def children(self, path: Path) -> tuple[Path, ...]:
        return tuple(self._children.get(path, ()))

    def leaves(self, path: Path) -> tuple[Path, ...]:
        """The entities of the lowest level at or below one."""
        if len(path) == len(self.levels):
            return (path,)
        return tuple(leaf for child in self.children(path) for leaf in self.leaves(child))

    def family(self, path: Path, fanout: int, *, whole: bool) -> Family:
        """Those that an entity is settled with: the whole tree, or its neighbours under parents of few children."""
        top = path[:1] if whole and path else path
        while not whole and len(top) > 1 and self._few(top[:-1], fanout):
            top = top[:-1]
        paths, parents, measured = [top], [-1], [not self._few(top, fanout)]
        for place, above in enumerate(paths):  # which grows as we go
            below = self.children(above) if whole or self._few(above, fanout) else ()
            paths += below
            parents += [place] * len(below)
            measured += [not self._few(child, fanout) for child in below]
        return Family(tuple(paths), Tree(tuple(parents)), tuple(measured))

    def _few(self, path: Path, fanout: int) -> bool:
        """Whether an entity is nothing but the sum of its children."""
        return 0 < len(self.children(path)) <= fanout
