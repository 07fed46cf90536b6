"""Every row by the object that it is about: who may see it, and what changed since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from watchword.api.meta import ObjectRef
from watchword.dashboard.object_rows import ObjectRows
from watchword.dashboard.rows import Row
from watchword.dashboard.sources import Source
from watchword.dashboard.visibility import Visibility

REMOVALS_KEPT = 4096


class RowIndex(Struct):
    """Rows by object; each change has a number, so that a reader asks only for what came later."""

    objects: dict[ObjectRef, ObjectRows] = field(default_factory=dict)
    revision: int = 0
    _changed: dict[ObjectRef, int] = field(default_factory=dict)  # the latest change last
    _forgotten: int = 0  # the revision up to which removals are not kept
    _parts: dict[Source, dict[str, dict[ObjectRef, None]]] = field(default_factory=dict)
    _places: frozenset[str] | None = None

    def put(self, ref: ObjectRef, new: ObjectRows | None) -> None:
        """Replace the rows of an object; None removes them."""
        old = self.objects.pop(ref, None)
        moved = old is None or new is None or (old.source, old.part) != (new.source, new.part)
        if old is not None and moved:
            self._leave(ref, old)
        if new is not None:
            self.objects[ref] = new
            if moved:
                self._enter(ref, new)
        if _content(old) == _content(new):
            return
        self.revision += 1
        self._changed.pop(ref, None)
        self._changed[ref] = self.revision
        if len(self._changed) - len(self.objects) > REMOVALS_KEPT:
            self._changed = {each: at for each, at in self._changed.items() if each in self.objects}
            self._forgotten = self.revision

    def changed_since(self, revision: int) -> Sequence[ObjectRef] | None:
        """Return the objects that changed after a revision, None when that is not known any more."""
        if revision < self._forgotten:
            return None
        found = []
        for ref in reversed(self._changed):
            if self._changed[ref] <= revision:
                break
            found.append(ref)
        return found

    def visible(self, seen: Visibility) -> Iterator[ObjectRef]:
        """Yield every object that a person may see."""
        for source, parts in self._parts.items():
            allowed = seen.parts_of(source)
            for part in parts if allowed is None else sorted(allowed & parts.keys()):
                yield from parts[part]

    def in_part(self, part: str) -> Iterator[ObjectRef]:
        """Yield the objects of one cluster or namespace."""
        for parts in self._parts.values():
            yield from parts.get(part, ())

    def shown(self, ref: ObjectRef, seen: Visibility) -> tuple[Row, ...] | None:
        """Return the rows of an object that a person may see, None when they may not see the object."""
        found = self.objects.get(ref)
        return None if found is None else found.shown_to(seen)

    def places(self) -> frozenset[str]:
        """Return the clusters, and the namespaces that hold something to show."""
        if self._places is None:
            self._places = frozenset(part for parts in self._parts.values() for part in parts if part)
        return self._places

    def _enter(self, ref: ObjectRef, rows: ObjectRows) -> None:
        self._parts.setdefault(rows.source, {}).setdefault(rows.part, {})[ref] = None
        if rows.part and self._places is not None and rows.part not in self._places:
            self._places = None

    def _leave(self, ref: ObjectRef, rows: ObjectRows) -> None:
        parts = self._parts[rows.source]
        parts[rows.part].pop(ref)
        if not parts[rows.part]:
            parts.pop(rows.part)
            self._places = None


def _content(rows: ObjectRows | None) -> object:
    return None if rows is None else (rows.source, rows.part, rows.rows, rows.limited)
