"""The kinds served at this moment; CRDs come and go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watchword.apiserver.model import ResourceKind


class KindTable:
    """Served kinds by group, version and plural."""

    def __init__(self, kinds: Iterable[ResourceKind] = ()) -> None:
        self._kinds: dict[tuple[str, str, str], ResourceKind] = {}
        self._builtin_groups: set[str] = set()
        self.generation = 0  # grows with every change, so that documents drawn from the table can be cached
        self.add(kinds)

    def add(self, kinds: Iterable[ResourceKind]) -> None:
        """Serve these kinds, instead of older ones of the same place."""
        for kind in kinds:
            resource = kind.resource
            self._kinds[resource.group, resource.version, resource.plural] = kind
            if not kind.custom:
                self._builtin_groups.add(resource.group)
        self.generation += 1

    def remove_group_resource(self, group: str, plural: str) -> None:
        """Stop serving every version of a resource."""
        for place in [place for place in self._kinds if place[0] == group and place[2] == plural]:
            del self._kinds[place]
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ResourceKind | None:
        """Return the kind served at that place."""
        return self._kinds.get((group, version, plural))

    def has_builtin_group(self, group: str) -> bool:
        """Whether the group is part of Kubernetes itself."""
        return group in self._builtin_groups

    def all(self) -> Sequence[ResourceKind]:
        """Return every served kind."""
        return tuple(self._kinds.values())
