"""Waits for Events."""

from __future__ import annotations

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import EVENTS
from watchword.kube.client import Client
from watchword.testing.eventually import PATIENCE, eventually_all


async def is_told(client: Client, name: str, *reasons: str, within: float = PATIENCE) -> None:
    """Wait until there is an Event of each reason about an object of this name."""

    def all_told(events: dict[ObjectKey, Object]) -> bool:
        about = [event for event in events.values() if (event.get("regarding") or {}).get("name") == name]
        return set(reasons) <= {str(event["reason"]) for event in about}

    await eventually_all(client, EVENTS, all_told, within=within)
