"""Entities and their parents, such as accounts, campaigns and creatives. They are public: no person's rows are read.

An entity is its path, from the top down: ("7", "spring") is the campaign spring of account 7. For an analyst, entities
that may not be seen do not exist.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sfumato.errors import NotFound, NotSupported, find_nearest
from sfumato.mechanisms.consistency import Tree
from sfumato.query.values import read_value
from sfumato.types import Type

Path: TypeAlias = tuple[str, ...]
Tenancy: TypeAlias = Mapping[str, Collection[str | Path]]
"""What an analyst may ask about, by level: names, which count below any parent, or whole paths."""


@dataclass(frozen=True, slots=True)
class Family:
    """Entities whose numbers are made consistent together: a tree of paths, and which have cells of their own."""

    paths: tuple[Path, ...]
    tree: Tree
    measured: tuple[bool, ...]


class Entities:
    """The hierarchy of a report: its levels, the top first, and the entities, where a table lists them.

    `kinds` are the types of the columns that name them. An entity has one spelling: 07 is not account 7, because it
    would be the same rows with another noise.
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
        self._by_name: dict[tuple[int, str], dict[Path, None]] = {}
        self._sorted: list[tuple[str, Path]] | None = None
        for row in rows or ():
            self._add(row)

    def _add(self, row: tuple[str | None, ...]) -> None:
        path: Path = ()
        for depth, name in enumerate(row):
            if name is None or not self.is_possible(self.levels[depth], name):
                return
            above, path = path, (*path, name)
            self._children.setdefault(above, {})[path] = None
            self._by_name.setdefault((depth, name), {})[path] = None

    def is_possible(self, level: str, name: str) -> bool:
        """Whether a row can have this name, in this very spelling."""
        kind = self._kinds.get(level, "text")
        try:
            return bool(name) and str(read_value(level, kind, name)) == name
        except NotSupported:
            return False

    def find(self, entity: Mapping[str, str], tenancy: Tenancy | None) -> Path:
        """The path of an entity by the names of its levels; `NotFound` where there is none that may be seen."""
        names = self._read_names(entity)
        if not self.levels:
            if tenancy is not None:
                raise NotFound("this report is about all rows, and you may ask about some entities only")
            return ()
        depth = max(map(self.levels.index, names))
        level, name = self.levels[depth], names[self.levels[depth]]
        paths = self._by_name.get((depth, name), ()) if self.listed else self._whole_path(names, depth)
        seen = [path for path in paths if self._fits(path, names) and self.visible(path, tenancy)]
        if not seen:
            raise NotFound(f"there is no {level} {name[:60]!r} that you may ask about")
        if len(seen) > 1:
            above = self.levels[depth - 1]
            raise NotSupported(f"several are called {level} {name[:60]!r}; name its {above} too", field="entity")
        return seen[0]

    def _read_names(self, entity: Mapping[str, str]) -> dict[str, str]:
        if not self.levels:
            if entity:
                raise NotSupported("this report has no entities; leave it out", field="entity")
            return {}
        shape = f"must name one of {', '.join(self.levels)}, such as {self.levels[0]} '7'"
        if not isinstance(entity, Mapping) or not entity:
            raise NotSupported(shape, field="entity")
        for level, name in entity.items():
            is_name = isinstance(name, str) or (type(name) is int and abs(name) < 2**63)
            if level not in self.levels:
                near = find_nearest(level, self.levels)
                raise NotSupported(shape, field="entity", nearest=near, unknown=str(level))
            if not is_name:
                raise NotSupported(shape, field="entity")
        return {level: str(name) for level, name in entity.items()}

    def _fits(self, path: Path, names: Mapping[str, str]) -> bool:
        return all(names.get(level, name) == name for level, name in zip(self.levels, path, strict=False))

    def _whole_path(self, names: Mapping[str, str], depth: int) -> tuple[Path, ...]:
        """Without a table of entities the parents of an entity are not known, so they must be named."""
        missing = [level for level in self.levels[:depth] if level not in names]
        if missing:
            raise NotSupported(
                f"name its {' and '.join(missing)} too; no table of entities says which that is", field="entity"
            )
        path = tuple(names[level] for level in self.levels[: depth + 1])
        return (path,) if all(map(self.is_possible, self.levels, path)) else ()

    def visible(self, path: Path, tenancy: Tenancy | None) -> bool:
        """Whether an entity, or one above it, is in a tenancy. None is all entities."""
        if tenancy is None:
            return True
        return any(
            name in tenancy.get(level, ()) or path[: depth + 1] in tenancy.get(level, ())
            for depth, (level, name) in enumerate(zip(self.levels, path, strict=False))
        )

    def problem(self, level: str, entity: str | Path) -> str:
        """What is wrong with an entity in a tenancy, in words; "" where nothing is."""
        depth = self.levels.index(level)
        names = (entity,) if isinstance(entity, str) else entity
        if not isinstance(entity, str) and len(entity) != depth + 1:
            return f"the path of a {level} is [{', '.join(self.levels[: depth + 1])}]"
        for each, name in zip(self.levels[depth + 1 - len(names) : depth + 1], names, strict=True):
            if not self.is_possible(each, name):
                return f"no {each} can be called {name[:60]!r}; write it as it is in the table"
        if isinstance(entity, str) and len(self._by_name.get((depth, entity), ())) > 1:
            path = list(next(iter(self._by_name[depth, entity])))
            return f"several are called {level} {entity[:60]!r}; write its path, such as {path}"
        return ""

    def children(self, path: Path) -> tuple[Path, ...]:
        return tuple(self._children.get(path, ()))

    def below(self, path: Path, tenancy: Tenancy | None) -> tuple[Path, ...]:
        """The nearest entities of a tenancy below one that is in it, or below none: then these are the topmost."""
        if path or tenancy is None:
            return self.children(path)
        named = [each for level, names in tenancy.items() for name in names for each in self._paths_of(level, name)]
        return tuple(each for each in dict.fromkeys(named) if not self.visible(each[:-1], tenancy))

    def beginning_with(self, text: str, path: Path, tenancy: Tenancy | None) -> Iterator[Path]:
        """All entities of a tenancy below one, or below none, whose names begin with a text, by their names."""
        if self._sorted is None:
            self._sorted = sorted(
                (name.casefold(), path) for (_, name), paths in self._by_name.items() for path in paths
            )
        start = text.casefold()
        for place in range(bisect_left(self._sorted, (start,)), len(self._sorted)):
            name, each = self._sorted[place]
            if not name.startswith(start):
                return
            if len(each) > len(path) and each[: len(path)] == path and self.visible(each, tenancy):
                yield each

    def _paths_of(self, level: str, name: str | Path) -> Iterable[Path]:
        """The entities that a name or a path in a tenancy stands for, as far as that is known."""
        if level not in self.levels:
            return ()
        depth = self.levels.index(level)
        if isinstance(name, str):
            return self._by_name.get((depth, name), ()) if self.listed else [(name,)][depth:]
        return [name] if not self.listed or name in self._children.get(name[:-1], ()) else []

    def leaves(self, path: Path) -> tuple[Path, ...]:
        """The entities of the lowest level at or below one."""
        if len(path) == len(self.levels):
            return (path,)
        return tuple(leaf for child in self.children(path) for leaf in self.leaves(child))

    def family(self, path: Path, fanout: int, *, whole: bool) -> Family:
        """What an entity is made consistent with: the whole tree, or its siblings under parents of few children."""
        top = path[:1] if whole and path else path
        while not whole and len(top) > 1 and self._is_sum(top[:-1], fanout):
            top = top[:-1]
        paths, parents, measured = [top], [-1], [not self._is_sum(top, fanout)]
        for place, above in enumerate(paths):  # which grows in the loop
            below = self.children(above) if whole or self._is_sum(above, fanout) else ()
            paths += below
            parents += [place] * len(below)
            measured += [not self._is_sum(child, fanout) for child in below]
        return Family(tuple(paths), Tree(tuple(parents)), tuple(measured))

    def _is_sum(self, path: Path, fanout: int) -> bool:
        """Whether an entity has no cells of its own, because it is the sum of few children."""
        return 0 < len(self.children(path)) <= fanout
