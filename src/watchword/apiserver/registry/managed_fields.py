"""Updates managedFields on every write."""

from __future__ import annotations

from msgspec import Struct, field

from watchword.api.meta import Object, Resource
from watchword.apiserver.fieldmanager.update import track_update
from watchword.apiserver.model import Now, Operation, ResourceKind
from watchword.apiserver.registry.write_request import WriteRequest

_STATUS = frozenset({"status"})


class ManagedFieldsTracker(Struct, frozen=True):
    """Records the fields that a write changed under its manager's name."""

    now: Now
    _empty: dict[Resource, Object | None] = field(default_factory=dict)

    def track(self, operation: Operation, call: WriteRequest) -> None:
        """Update `metadata.managedFields` of the new object in place, before the server adds fields of its own."""
        kind, new = operation.kind, operation.new
        if call.applied or new is None:
            return
        if not kind.has_owners:
            new.get("metadata", {}).pop("managedFields", None)
            return
        track_update(
            operation.old,
            new,
            kind.schema,
            manager=call.manager,
            api_version=kind.resource.api_version,
            now=self.now(),
            subresource=operation.subresource,
            reset=reset_fields(operation),
            empty=self._empty_of(kind),
        )

    def _empty_of(self, kind: ResourceKind) -> Object | None:
        """Return a typed kind's object without any field set: some fields are written even then."""
        if kind.custom or not kind.default:
            return None
        if kind.resource not in self._empty:
            empty: Object = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
            kind.default[0](empty)
            self._empty[kind.resource] = empty
        return self._empty[kind.resource]


def reset_fields(operation: Operation) -> frozenset[str]:
    """Return the top-level fields that this endpoint does not take from the client."""
    if operation.subresource or "status" not in operation.kind.subresources:
        return frozenset()
    return _STATUS
