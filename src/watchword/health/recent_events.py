"""What happened in a fleet lately: the events of its hub, and the turns that its conditions took."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object
from watchword.api.names import LEASE_EXPIRED_REASON

MAX_EVENTS = 200


class FleetEvent(Struct, frozen=True):
    """One event; `at` is an instant as text that sorts."""

    at: str
    about: str
    what: str
    is_warning: bool = False


def collect_fleet_events(objects: Iterable[Object], events: Iterable[Object]) -> Sequence[FleetEvent]:
    """Return the latest events, the last one last; duplicates are removed."""
    told = {(row.about, row.what): row for row in (*_condition_changes(objects), *map(read_event, events))}
    return sorted(told.values(), key=lambda row: row.at)[-MAX_EVENTS:]


def read_event(event: Object) -> FleetEvent:
    about = event.get("regarding") or {}
    name = str(about.get("name") or about.get("kind") or "-")
    what = str(event.get("note") or event.get("reason") or "")
    return FleetEvent(event_time(event), name, what, event.get("type") == "Warning")


def event_time(event: Object) -> str:
    """Return when an event last happened, as text that sorts."""
    series, metadata = event.get("series") or {}, event.get("metadata") or {}
    instants = (
        series.get("lastObservedTime"),
        event.get("eventTime"),
        event.get("deprecatedLastTimestamp"),
        metadata.get("creationTimestamp"),
    )
    return str(next((instant for instant in instants if instant), ""))


def _condition_changes(objects: Iterable[Object]) -> Iterable[FleetEvent]:
    for obj in objects:
        metadata = obj["metadata"]
        about = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
        for row in conditions_of(obj):
            message = str(row.get("message") or row.get("reason") or row.get("type"))
            bad = row.get("status") == "False" or row.get("reason") == LEASE_EXPIRED_REASON
            yield FleetEvent(str(row.get("lastTransitionTime") or ""), about, message, bad)
