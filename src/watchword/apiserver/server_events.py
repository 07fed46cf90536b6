"""Records what the control plane itself decides: an Event in its own API, and a line for the audit trail."""

from __future__ import annotations

import logging
from secrets import token_hex

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import EVENTS
from watchword.api.time import rfc3339_micro
from watchword.apiserver.model import Now, Registry

audit = logging.getLogger("watchword.audit")
REPORTER = "watchword.dev/apiserver"


class ServerEvents(Struct, frozen=True):
    """Stores each Event at once; they are few, and about cluster-scoped objects."""

    registry: Registry
    now: Now

    async def normal(self, obj: Object, reason: str, note: str) -> None:
        """Record a normal event."""
        about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": obj["metadata"]["name"]}
        event = EVENTS.manifest(
            ObjectKey("default", f"{about['name']}.{token_hex(8)}"),
            eventTime=rfc3339_micro(self.now()),
            type="Normal",
            reason=reason,
            action=reason,
            note=note,
            regarding={**about, "uid": uid_of(obj)},
            reportingController=REPORTER,
            reportingInstance=REPORTER,
        )
        await self.registry.create(EVENTS, event)
        audit.warning("decision: %s about %s %s: %s", reason, about["kind"], about["name"], note)
