"""Turns events into objects of the hub's API, and objects into events; ManifestWorks travel as manifest bundles."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

import orjson
from msgspec import Struct

from watchword.api.meta import Object, Resource, annotations_of, finalizers_of, is_deleting, uid_of
from watchword.api.names import Annotation, Finalizer
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.api.time import rfc3339
from watchword.registration.grpc.cloud_events import (
    BUNDLE_FIELDS,
    HUB_SOURCE,
    RESOURCES,
    Action,
    Attribute,
    AttributeValue,
    CloudEvent,
    DataType,
    EventType,
    SubResource,
    parse_object,
)
from watchword.registration.grpc.errors import MalformedEvent


class ObjectEvent(Struct, frozen=True, kw_only=True):
    """What one event says about one object."""

    uid: str
    version: str = ""  # the hub's resourceVersion, or the generation of a work
    object: Object | None = None  # None: only `uid` is known
    is_gone: bool = False
    deletion: str = ""  # since when an object that still exists is being deleted


class ObjectCodec(Struct, frozen=True):
    """Reads and writes the events of one kind whose objects travel whole."""

    data_type: DataType
    returns_writes: bool = True  # whether the hub sends an object again after the agent wrote it

    @property
    def resource(self) -> Resource:
        return RESOURCES[self.data_type]

    def decode(self, event: CloudEvent) -> ObjectEvent:
        """Read one event; `MalformedEvent` when it is not about an object of this kind."""
        type_ = EventType.parse(event.type)
        if type_.data_type is not self.data_type:
            raise MalformedEvent(f"the event is about {type_.data_type}, not about {self.data_type}")
        uid = event.text(Attribute.RESOURCE_ID)
        found = self.read_object(event)
        if found is not None:
            uid = uid_of(found) or uid
        if not uid:
            raise MalformedEvent("the event names no object")
        version = self.read_version(event, found)
        deletion = event.extensions.get(Attribute.DELETION_TIMESTAMP)
        if deletion is None and found is None:
            raise MalformedEvent("the event contains no object")
        # A resync answers with a deletion and nothing else for what the hub does not have.
        is_unknown = type_.action is Action.RESYNC_RESPONSE and found is None and not version
        return ObjectEvent(
            uid=uid,
            version=version,
            object=found,
            is_gone=deletion is not None and (type_.action is Action.DELETE or is_unknown),
            deletion=_instant(deletion),
        )

    def read_object(self, event: CloudEvent) -> Object | None:
        if not event.data:
            return None
        found = event.json()
        metadata = found.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise MalformedEvent("the object in the event has no name")
        metadata.pop("managedFields", None)
        found |= {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        requester = annotations_of(found).get(Annotation.CSR_USER)
        if requester and self.resource == CERTIFICATE_SIGNING_REQUESTS:
            # The server makes the request in its own name, and notes the user that it authenticated.
            found["spec"] = {**(found.get("spec") or {}), "username": requester}
        return found

    def read_version(self, event: CloudEvent, found: Object | None) -> str:
        """Return the hub's version of the object, empty when the event does not tell."""
        own = (found or {}).get("metadata", {}).get("resourceVersion")
        return str(own or event.extensions.get(Attribute.RESOURCE_VERSION, ""))

    def merge(self, stored: Object, received: Object) -> Object:  # noqa: ARG002 - works keep part of what is stored
        return received

    def encode(self, type_: EventType, obj: Object, cluster: str) -> CloudEvent:
        metadata = obj.get("metadata") or {}
        known = {Attribute.RESOURCE_ID: uid_of(obj), Attribute.RESOURCE_VERSION: metadata.get("resourceVersion", "")}
        return agent_event(type_, cluster, {name: value for name, value in known.items() if value}, obj)


def agent_event(
    type_: EventType, cluster: str, extensions: Mapping[str, AttributeValue], data: Mapping[str, Any]
) -> CloudEvent:
    """Return a new event of a cluster's agent, which calls itself as Open Cluster Management's does."""
    return CloudEvent(
        id=str(uuid4()),
        source=f"{cluster}-klusterlet-agent",
        type=str(type_),
        extensions={Attribute.CLUSTER_NAME: cluster, **extensions},
        data=orjson.dumps(data),
    )


def resync_request(data_type: DataType, versions: Mapping[str, str], cluster: str) -> CloudEvent:
    rows = [
        {"resourceID": uid, "resourceVersion": int(version) if version.isdecimal() else 0}
        for uid, version in versions.items()
    ]
    type_ = EventType(data_type, SubResource.SPEC, Action.RESYNC_REQUEST)
    return agent_event(type_, cluster, {}, {"resourceVersions": rows})


def _instant(value: AttributeValue | None) -> str:
    if isinstance(value, datetime):
        return rfc3339(value)
    return str(value) if value else ""


DELETED = "Deleted"


class WorkCodec(ObjectCodec, frozen=True):
    """Reads the spec of works and writes their status: the two travel apart, and the version is the generation."""

    data_type: DataType = DataType.MANIFEST_BUNDLE
    returns_writes: bool = False
    sequence: Callable[[], int] = time.time_ns  # grows from one status to the next, over restarts, too

    def read_object(self, event: CloudEvent) -> Object | None:
        """Return the work in an event, None when the event only names it."""
        text = event.text(Attribute.METADATA)
        if not text:
            return None
        work: Object = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        work["metadata"] = self._metadata(event, text)
        if not event.data:
            return work
        bundle = event.json()
        spec: Object = {"workload": {"manifests": bundle.get("manifests") or []}}
        spec |= {name: bundle[field] for field, name in BUNDLE_FIELDS.items() if bundle.get(field) is not None}
        status = bundle.get("status")  # OCM's server does not send it
        return {**work, "spec": spec, **({"status": status} if isinstance(status, dict) else {})}

    def merge(self, stored: Object, received: Object) -> Object:
        """Keep the status, which only this agent writes, and the spec of a work whose deletion came without it."""
        merged = {**received, "spec": received.get("spec", stored.get("spec", {}))}
        return {**merged, "status": stored["status"]} if "status" in stored else merged

    def _metadata(self, event: CloudEvent, text: str) -> Object:
        metadata = parse_object(text, "the metadata of the work")
        uid = event.text(Attribute.RESOURCE_ID) or str(metadata.get("uid") or "")
        kept = {name: value for name, value in metadata.items() if name != "managedFields"}
        return {
            **kept,
            "name": str(metadata.get("name") or uid),
            "namespace": event.text(Attribute.CLUSTER_NAME),
            "uid": uid,
            "generation": event.number(Attribute.RESOURCE_VERSION),
        }

    def read_version(self, event: CloudEvent, found: Object | None) -> str:
        """Return the generation: a work has no other version on the way."""
        return str(event.extensions.get(Attribute.RESOURCE_VERSION, "")) if found is not None else ""

    def encode(self, type_: EventType, obj: Object, cluster: str) -> CloudEvent:
        """Return the status of a work; that its objects are gone is a condition of its own."""
        metadata = obj["metadata"]
        status = obj.get("status") or {}
        rows = list(status.get("conditions") or ())
        if is_deleting(obj) and Finalizer.MANIFEST_WORK not in finalizers_of(obj):
            gone = f"The manifests are deleted from the cluster {metadata.get('namespace')}"
            since = metadata.get("deletionTimestamp")
            deleted = {"type": DELETED, "status": "True", "reason": "ManifestsDeleted", "message": gone}
            rows.append({**deleted, "lastTransitionTime": since})
        manifests = (status.get("resourceStatus") or {}).get("manifests") or []
        data = {"conditions": rows, "resourceStatus": manifests}
        own = {name: value for name, value in metadata.items() if name != "resourceVersion"}
        known: dict[str, AttributeValue] = {
            Attribute.RESOURCE_ID: uid_of(obj),
            Attribute.RESOURCE_VERSION: int(metadata.get("generation") or 0),
            Attribute.SEQUENCE_ID: str(self.sequence()),
            Attribute.ORIGINAL_SOURCE: HUB_SOURCE,
            Attribute.STATUS_HASH: sha256(orjson.dumps(data)).hexdigest(),
            Attribute.METADATA: orjson.dumps(own).decode(),
        }
        return agent_event(type_, cluster, known, data)
