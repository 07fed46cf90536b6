"""One cluster in full: conditions, events and the history of its credentials."""

from collections.abc import Iterable, Sequence
from typing import Any

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, labels_of
from watchword.api.names import ConditionType, Label
from watchword.api.time import rfc3339
from watchword.dashboard.fleet import Fleet
from watchword.dashboard.history import HistoryEntry, regarded_cluster
from watchword.dashboard.rows import clean, event_document
from watchword.dashboard.sources import REQUESTS, FleetFacts, gather_facts
from watchword.dashboard.viewers import Visibility, limit_objects
from watchword.health.inventory import read_issued_certificate
from watchword.health.recent_events import FleetEvent, read_event

NEGATIVE = frozenset({"HubConnectionDegraded", ConditionType.DELETING, ConditionType.REVOCATION_PENDING, "Superseded"})
"""Conditions whose status True needs attention."""
EVENTS_SHOWN, REQUESTS_SHOWN = 100, 50


def read_cluster_page(fleet: Fleet, name: str, seen: Visibility) -> Object | None:
    """Return everything about one cluster that a person may see; None when that is nothing."""
    refs = dict.fromkeys((*fleet.index.in_part(name), *fleet.related.about(name)))
    found = [each for each in map(fleet.read, refs) if each is not None]
    shown = (fleet.index.shown(ref, seen) for ref in refs)
    log = fleet.histories.full if seen.sees(REQUESTS) else fleet.histories.limited
    observed = log.entries(name, {row.id for rows in shown for row in rows or ()})
    return cluster_document(gather_facts(limit_objects(found, seen)), name, observed)


def cluster_document(facts: FleetFacts, name: str, observed: Sequence[HistoryEntry]) -> Object | None:
    """Return everything about one cluster that the facts hold; None when they do not hold the cluster."""
    cluster = next((each for each in facts.hub.clusters if each["metadata"]["name"] == name), None)
    if cluster is None:
        return None
    own = [each for each in (*facts.hub.addons, *facts.hub.accounts) if each["metadata"].get("namespace") == name]
    requests = [each for each in facts.hub.requests if labels_of(each).get(Label.CLUSTER_NAME) == name]
    changes = sorted((*_requests(requests), *observed), key=lambda entry: entry.at, reverse=True)
    return {
        "name": clean(name),
        "created": str(cluster["metadata"].get("creationTimestamp") or ""),
        "labels": {clean(key): clean(value) for key, value in sorted(labels_of(cluster).items())},
        "conditions": [*_conditions(cluster, "cluster"), *(row for each in own for row in _conditions(each))],
        "events": [event_document(event) for event in _events(facts.events, name)],
        "history": [{"at": entry.at, "about": clean(entry.about), "what": clean(entry.what)} for entry in changes],
    }


def _conditions(obj: Object, about: str = "") -> Iterable[dict[str, Any]]:
    named = about or f"{obj.get('kind') or 'object'!s} {obj['metadata']['name']}"
    for row in conditions_of(obj):
        type_, status = str(row.get("type") or ""), str(row.get("status") or "Unknown")
        yield {
            "object": clean(named),
            "type": clean(type_),
            "status": clean(status),
            "reason": clean(str(row.get("reason") or "")),
            "message": clean(str(row.get("message") or "")),
            "since": clean(str(row.get("lastTransitionTime") or "")),
            "good": (status == "False") if type_ in NEGATIVE else status == "True",
        }


def _events(events: Sequence[Object], name: str) -> list[FleetEvent]:
    """Return the events in the cluster's namespace and about the cluster itself, the latest first."""
    own = [event for event in events if event["metadata"].get("namespace") == name or regarded_cluster(event) == name]
    return sorted(map(read_event, own), key=lambda event: event.at, reverse=True)[:EVENTS_SHOWN]


def _requests(requests: Sequence[Object]) -> Iterable[HistoryEntry]:
    for request in requests[-REQUESTS_SHOWN:]:
        spec, metadata = request.get("spec") or {}, request["metadata"]
        holder = labels_of(request).get(Label.ADDON_NAME)
        about = f"add-on {holder}" if holder else "cluster"
        at = str(metadata.get("creationTimestamp") or "")
        yield HistoryEntry(at, about, f"certificate request {metadata['name']} by {spec.get('username') or 'unknown'}")
        for row in conditions_of(request):
            decided = str(row.get("lastUpdateTime") or row.get("lastTransitionTime") or at)
            yield HistoryEntry(decided, about, f"{row.get('type')}: {row.get('message') or row.get('reason') or ''}")
        issued = read_issued_certificate(request)
        if issued is not None:
            span = f"valid until {rfc3339(issued.not_after)}"
            yield HistoryEntry(rfc3339(issued.not_before), about, f"certificate issued to {issued.common_name}, {span}")
