"""Objects of the hub as events for the agent of their cluster."""

from __future__ import annotations

import uuid
from datetime import datetime

import orjson

from watchword.api.meta import Object, is_deleting, labels_of, uid_of
from watchword.api.names import Label
from watchword.api.time import parse_rfc3339
from watchword.registration.grpc.cloud_events import Attribute, AttributeValue, CloudEvent
from watchword.registration.grpc.event_types import HEARTBEAT, DataType, EventType

SOURCE = "kube"


def cluster_of_object(obj: Object, data_type: DataType) -> str:
    """Return the cluster that an object belongs to."""
    if data_type is DataType.MANAGED_CLUSTER:
        return str(obj["metadata"]["name"])
    if data_type is DataType.CERTIFICATE_REQUEST:
        return labels_of(obj).get(Label.CLUSTER_NAME, "")
    return str(obj["metadata"].get("namespace") or "")


def object_event(obj: Object, kind: EventType, *, now: datetime) -> CloudEvent:
    """Return an object as an event; one that is being deleted says so in an attribute, too."""
    extensions = _identity(cluster_of_object(obj, kind.data_type), uid_of(obj))
    extensions[Attribute.RESOURCE_VERSION] = version_of(obj, kind.data_type)
    if is_deleting(obj):
        extensions[Attribute.DELETION_TIMESTAMP] = parse_rfc3339(obj["metadata"]["deletionTimestamp"]) or now
    if kind.data_type is DataType.MANIFEST_BUNDLE:
        extensions[Attribute.METADATA] = orjson.dumps(obj["metadata"]).decode()
        data = manifest_bundle(obj)
    else:
        data = obj
    return _event(kind, extensions, orjson.dumps(data), now)


def deletion_event(uid: str, cluster: str, kind: EventType, *, now: datetime) -> CloudEvent:
    """Return the event for an object that does not exist any more."""
    extensions = _identity(cluster, uid)
    extensions[Attribute.DELETION_TIMESTAMP] = now
    if kind.data_type is DataType.MANIFEST_BUNDLE:
        extensions[Attribute.RESOURCE_VERSION] = 0  # agents expect an integer
    return _event(kind, extensions, b"", now)


def token_event(answer: Object, request_id: str, cluster: str, kind: EventType, *, now: datetime) -> CloudEvent:
    """Return the answer to a token request, with the identifier by which its sender recognises it."""
    return _event(kind, _identity(cluster, request_id), orjson.dumps(answer), now)


def heartbeat(id_: str = "") -> CloudEvent:
    """Return the event that shows that the stream is alive; with the identifier of a resync, that it has ended."""
    return CloudEvent(id=id_ or str(uuid.uuid4()), source="", type=HEARTBEAT)


def version_of(obj: Object, data_type: DataType) -> str | int:
    """Return what agents compare: the generation of a work, the resourceVersion of any other object."""
    metadata = obj["metadata"]
    if data_type is DataType.MANIFEST_BUNDLE:
        return int(metadata.get("generation") or 0)
    return str(metadata.get("resourceVersion") or "")


def manifest_bundle(work: Object) -> Object:
    """Return the part of a ManifestWork that travels as data; its metadata travels as an attribute."""
    spec: Object = work.get("spec") or {}
    bundle: Object = {"manifests": (spec.get("workload") or {}).get("manifests") or []}
    names = (("deleteOption", "deleteOption"), ("manifestConfigs", "manifestConfigs"), ("executor", "executer"))
    bundle |= {theirs: spec[ours] for ours, theirs in names if spec.get(ours)}
    # Agents of Open Cluster Management leave it unread; ours continues with it after a restart.
    return {**bundle, "status": work["status"]} if work.get("status") else bundle


def is_work_changed(old: Object, new: Object) -> bool:
    """Whether an agent has to see a change of a work: its own reports are no news to it."""
    before, after = old["metadata"], new["metadata"]
    noted = any(before.get(name) != after.get(name) for name in ("labels", "annotations", "generation"))
    return noted or is_deleting(new)


def _identity(cluster: str, uid: str) -> dict[str, AttributeValue]:
    return {Attribute.CLUSTER_NAME: cluster, Attribute.ORIGINAL_SOURCE: "", Attribute.RESOURCE_ID: uid}


def _event(kind: EventType, extensions: dict[str, AttributeValue], data: bytes, now: datetime) -> CloudEvent:
    return CloudEvent(id=str(uuid.uuid4()), source=SOURCE, type=str(kind), extensions=extensions, data=data, time=now)
