"""Records Events about what the node could not do; each once."""

from __future__ import annotations

from uuid import uuid4

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import CORE_EVENTS
from watchword.api.time import rfc3339
from watchword.apiserver.model import ApiError, Now, Registry


class NodeEvents(Struct):
    """Writes Events about workloads."""

    registry: Registry
    now: Now
    component: str
    _reported: set[tuple[str, str, str]] = field(default_factory=set)

    async def warn(self, obj: Object, reason: str, message: str) -> None:
        """Record a warning, unless it was recorded already."""
        said = (uid_of(obj), reason, message)
        if said in self._reported:
            return
        self._reported.add(said)
        metadata, instant = obj["metadata"], rfc3339(self.now())
        key = ObjectKey(metadata["namespace"], f"{metadata['name']}.{uuid4().hex[:16]}")
        event = CORE_EVENTS.manifest(
            key,
            involvedObject={
                "apiVersion": obj["apiVersion"],
                "kind": obj["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": uid_of(obj),
            },
            reason=reason,
            message=message,
            type="Warning",
            count=1,
            firstTimestamp=instant,
            lastTimestamp=instant,
            source={"component": self.component},
            reportingComponent=self.component,
            reportingInstance="",
        )
        try:
            await self.registry.create(CORE_EVENTS, event)
        except ApiError as refusal:
            if refusal.code not in {403, 404}:  # the namespace is being deleted
                raise

    def forget(self, uid: str) -> None:
        """Allow events about an object again: it is gone."""
        self._reported = {said for said in self._reported if said[0] != uid}
