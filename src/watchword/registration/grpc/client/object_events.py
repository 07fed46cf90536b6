"""Turns events into objects of the hub's API, and objects into events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

import orjson
from msgspec import Struct

from watchword.api.meta import Object, Resource, annotations_of, uid_of
from watchword.api.names import Annotation
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.api.sensitive import HiddenFields
from watchword.api.time import rfc3339
from watchword.registration.grpc.cloud_events import Attribute, AttributeValue, CloudEvent
from watchword.registration.grpc.errors import MalformedEvent
from watchword.registration.grpc.event_types import RESOURCES, Action, DataType, EventType, SubResource


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

    @property
    def returns_writes(self) -> bool:
        """Whether the hub sends an object again after the agent wrote it."""
        return True

    @property
    def resource(self) -> Resource:
        """The resource of the hub's API."""
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
        """Return the object in an event, None when there is none."""
        if not event.data:
            return None
        found = event.json()
        metadata = found.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise MalformedEvent("the object in the event has no name")
        metadata.pop("managedFields", None)
        found |= {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        return _with_requester(found) if self.resource == CERTIFICATE_SIGNING_REQUESTS else found

    def read_version(self, event: CloudEvent, found: Object | None) -> str:
        """Return the hub's version of the object, empty when the event does not tell."""
        own = (found or {}).get("metadata", {}).get("resourceVersion")
        return str(own or event.extensions.get(Attribute.RESOURCE_VERSION, ""))

    def merge(self, stored: Object, received: Object) -> Object:  # noqa: ARG002 - works keep part of what is stored
        """Return the object to store in place of another."""
        return received

    def encode(self, type_: EventType, obj: Object, extensions: Mapping[str, AttributeValue]) -> Publication:
        """Return what to publish about an object, whose resourceVersion is the hub's."""
        metadata = obj.get("metadata") or {}
        known = {Attribute.RESOURCE_ID: uid_of(obj), Attribute.RESOURCE_VERSION: metadata.get("resourceVersion", "")}
        return Publication(str(type_), {**extensions, **{name: value for name, value in known.items() if value}}, obj)


class Publication(HiddenFields, frozen=True):
    """An event before it has an identifier and a source."""

    hidden = ("data",)

    type: str
    extensions: Mapping[str, AttributeValue]
    data: Mapping[str, Any]  # may contain a token

    def to_event(self, source: str, cluster: str) -> CloudEvent:
        """Return the event of one agent."""
        return CloudEvent(
            id=str(uuid4()),
            source=source,
            type=self.type,
            extensions={Attribute.CLUSTER_NAME: cluster, **self.extensions},
            data=orjson.dumps(self.data),
        )


def status_update(data_type: DataType) -> EventType:
    """Return the type of an event that replaces the status of an object."""
    return EventType(data_type, SubResource.STATUS, Action.UPDATE)


def creation(data_type: DataType) -> EventType:
    """Return the type of an event that creates an object."""
    return EventType(data_type, SubResource.SPEC, Action.CREATE)


def replacement(data_type: DataType) -> EventType:
    """Return the type of an event that replaces an object."""
    return EventType(data_type, SubResource.SPEC, Action.UPDATE)


def resync_request(data_type: DataType, versions: Mapping[str, str]) -> Publication:
    """Return the request for everything that is newer than these versions of these UIDs."""
    rows = [
        {"resourceID": uid, "resourceVersion": int(version) if version.isdecimal() else 0}
        for uid, version in versions.items()
    ]
    type_ = EventType(data_type, SubResource.SPEC, Action.RESYNC_REQUEST)
    return Publication(str(type_), {}, {"resourceVersions": rows})


def _with_requester(csr: Object) -> Object:
    """Show who asked: the server makes the request in its own name, and notes the user that it authenticated."""
    user = annotations_of(csr).get(Annotation.CSR_USER)
    return {**csr, "spec": {**(csr.get("spec") or {}), "username": user}} if user else csr


def _instant(value: AttributeValue | None) -> str:
    if isinstance(value, datetime):
        return rfc3339(value)
    return str(value) if value else ""
