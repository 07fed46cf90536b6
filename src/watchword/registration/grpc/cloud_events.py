"""The events of the protocol: their types, their protobuf messages, one CloudEvent in binary mode, the service."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeAlias

import orjson
from google.protobuf import any_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.message import DecodeError, EncodeError
from grpclib.encoding.base import CodecBase
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api import resources
from watchword.api.meta import Object, Resource
from watchword.api.sensitive import HiddenFields
from watchword.registration.grpc.errors import MalformedEvent, UnknownEventType

HEARTBEAT = "io.open-cluster-management.cloudevents.heartbeat"
"""The type of the event that shows that a stream is alive; it contains nothing."""

_LONGEST_TYPE = 256


class DataType(StrEnum):
    """The kinds of objects that travel, by the names that Open Cluster Management publishes."""

    MANAGED_CLUSTER = "cluster.open-cluster-management.io.v1.managedclusters"
    ADDON = "addon.open-cluster-management.io.v1beta1.managedclusteraddons"
    ADDON_V1ALPHA1 = "addon.open-cluster-management.io.v1alpha1.managedclusteraddons"
    CERTIFICATE_REQUEST = "certificates.k8s.io.v1.certificatesigningrequests"
    LEASE = "coordination.k8s.io.v1.leases"
    EVENT = "events.k8s.io.v1.events"
    TOKEN_REQUEST = "authentication.k8s.io.v1.tokenrequests"  # noqa: S105 - the name of a kind
    MANIFEST_BUNDLE = "io.open-cluster-management.works.v1alpha1.manifestbundles"


class SubResource(StrEnum):
    """Which part of an object an event contains."""

    SPEC = "spec"
    STATUS = "status"


class Action(StrEnum):
    """The action in an event's type."""

    CREATE = "create_request"
    UPDATE = "update_request"
    DELETE = "delete_request"
    WATCH = "watch_request"
    RESYNC_REQUEST = "resync_request"
    RESYNC_RESPONSE = "resync_response"


RESOURCES: dict[DataType, Resource] = {
    DataType.MANAGED_CLUSTER: resources.MANAGED_CLUSTERS,
    DataType.ADDON: resources.MANAGED_CLUSTER_ADDONS,
    DataType.ADDON_V1ALPHA1: replace(resources.MANAGED_CLUSTER_ADDONS, version="v1alpha1"),
    DataType.CERTIFICATE_REQUEST: resources.CERTIFICATE_SIGNING_REQUESTS,
    DataType.LEASE: resources.LEASES,
    DataType.EVENT: resources.EVENTS,
    DataType.MANIFEST_BUNDLE: resources.MANIFEST_WORKS,
}
"""What the hub's API server serves for a data type; a TokenRequest is a subresource of a ServiceAccount."""


class EventType(Struct, frozen=True):
    """The attribute `type` of a CloudEvent: what it carries, which half of it, and what to do."""

    data_type: DataType
    subresource: SubResource
    action: Action

    def __str__(self) -> str:
        return f"{self.data_type}.{self.subresource}.{self.action}"

    @classmethod
    def parse(cls, text: str) -> EventType:
        """Read the type of an event; `UnknownEventType` when any part of it is unknown."""
        parts = text.rsplit(".", 2) if len(text) <= _LONGEST_TYPE else []
        if len(parts) != 3:
            raise UnknownEventType("the type of the event is not <data type>.<subresource>.<action>")
        data_type = parse_data_type(parts[0])
        try:
            return cls(data_type, SubResource(parts[1]), Action(parts[2]))
        except ValueError as cause:
            raise UnknownEventType(
                f"the subresource or the action of an event for {data_type} is unknown: send an event that "
                "the protocol defines"
            ) from cause


def parse_data_type(text: str) -> DataType:
    """Read a data type; `UnknownEventType` when there is none of that name."""
    try:
        return DataType(text)
    except ValueError as cause:
        known = ", ".join(DataType)
        raise UnknownEventType(f"the data type is unknown: choose one of {known}") from cause


PACKAGE = "io.cloudevents.v1"
FILE_DESCRIPTOR = base64.b64decode(
    "ChBjbG91ZGV2ZW50LnByb3RvEhFpby5jbG91ZGV2ZW50cy52MRoZZ29vZ2xlL3Byb3RvYnVmL2FueS5wcm90bxofZ29vZ2xlL3Byb3RvYnVmL3Rp"
    "bWVzdGFtcC5wcm90byI+Cg5QdWJsaXNoUmVxdWVzdBIsCgVldmVudBgBIAEoCzIdLmlvLmNsb3VkZXZlbnRzLnYxLkNsb3VkRXZlbnQiTgoTU3Vi"
    "c2NyaXB0aW9uUmVxdWVzdBIOCgZzb3VyY2UYASABKAkSFAoMY2x1c3Rlcl9uYW1lGAIgASgJEhEKCWRhdGFfdHlwZRgDIAEoCSLPAgoKQ2xvdWRF"
    "dmVudBIKCgJpZBgBIAEoCRIOCgZzb3VyY2UYAiABKAkSFAoMc3BlY192ZXJzaW9uGAMgASgJEgwKBHR5cGUYBCABKAkSQQoKYXR0cmlidXRlcxgF"
    "IAMoCzItLmlvLmNsb3VkZXZlbnRzLnYxLkNsb3VkRXZlbnQuQXR0cmlidXRlc0VudHJ5EhUKC2JpbmFyeV9kYXRhGAYgASgMSAASEwoJdGV4dF9k"
    "YXRhGAcgASgJSAASKgoKcHJvdG9fZGF0YRgIIAEoCzIULmdvb2dsZS5wcm90b2J1Zi5BbnlIABpeCg9BdHRyaWJ1dGVzRW50cnkSCwoDa2V5GAEg"
    "ASgJEjoKBXZhbHVlGAIgASgLMisuaW8uY2xvdWRldmVudHMudjEuQ2xvdWRFdmVudEF0dHJpYnV0ZVZhbHVlOgI4AUIGCgRkYXRhItMBChhDbG91"
    "ZEV2ZW50QXR0cmlidXRlVmFsdWUSFAoKY2VfYm9vbGVhbhgBIAEoCEgAEhQKCmNlX2ludGVnZXIYAiABKAVIABITCgljZV9zdHJpbmcYAyABKAlI"
    "ABISCghjZV9ieXRlcxgEIAEoDEgAEhAKBmNlX3VyaRgFIAEoCUgAEhQKCmNlX3VyaV9yZWYYBiABKAlIABIyCgxjZV90aW1lc3RhbXAYByABKAsy"
    "Gi5nb29nbGUucHJvdG9idWYuVGltZXN0YW1wSABCBgoEYXR0cmIGcHJvdG8z"
)
"""What `protoc` makes of `cloudevent.proto`, which is beside this file."""


def _message_class(name: str) -> Any:
    """Return the class of a message; its fields are not known to the type checker, so only the codec uses it."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


# A pool of its own: a program that has compiled the published file keeps its messages apart from these.
_POOL = descriptor_pool.DescriptorPool()
for _known in (any_pb2, timestamp_pb2):
    _POOL.AddSerializedFile(_known.DESCRIPTOR.serialized_pb)
_POOL.AddSerializedFile(FILE_DESCRIPTOR)
PublishRequestMessage = _message_class("PublishRequest")
SubscriptionRequestMessage = _message_class("SubscriptionRequest")
CloudEventMessage = _message_class("CloudEvent")


SPEC_VERSION = "1.0"
JSON_CONTENT = "application/json"
_CONTENT_TYPE = "contenttype"
_PREFIX = "ce-"
_TIME = "time"
_MOST_ATTRIBUTES = 32
_INT32 = range(-(2**31), 2**31)

AttributeValue: TypeAlias = bool | int | str | bytes | datetime


HUB_SOURCE = "kube"
"""The source of the hub's events, as Open Cluster Management names it."""

BUNDLE_FIELDS = {"deleteOption": "deleteOption", "manifestConfigs": "manifestConfigs", "executer": "executor"}
"""The fields of a manifest bundle, and those of a ManifestWork's spec that they carry."""


class Attribute(StrEnum):
    """The extension attributes of the protocol."""

    CLUSTER_NAME = "clustername"
    ORIGINAL_SOURCE = "originalsource"
    RESOURCE_ID = "resourceid"
    RESOURCE_VERSION = "resourceversion"
    SEQUENCE_ID = "sequenceid"
    DELETION_TIMESTAMP = "deletiontimestamp"
    STATUS_HASH = "statushash"
    METADATA = "metadata"


class CloudEvent(HiddenFields, frozen=True, kw_only=True):
    """One event. Everything in it is a claim of its sender."""

    hidden = ("data",)

    id: str
    source: str
    type: str
    extensions: Mapping[str, AttributeValue] = field(default_factory=dict)
    data: bytes = b""  # JSON, or nothing; may contain a token
    time: datetime | None = None

    @property
    def is_heartbeat(self) -> bool:
        """Whether the event only shows that the stream is alive."""
        return self.type == HEARTBEAT

    def text(self, name: Attribute) -> str:
        """Return a text attribute, empty when absent; `MalformedEvent` when it is of another type."""
        value = self.extensions.get(name, "")
        if not isinstance(value, str):
            raise MalformedEvent(f"the attribute {name} of the event is not a string")
        return value

    def number(self, name: Attribute) -> int:
        """Return an integer attribute, which may be written in digits; `MalformedEvent` when it is none."""
        value = self.extensions.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
            return int(value)
        raise MalformedEvent(f"the attribute {name} of the event is missing, or not an integer")

    def json(self) -> Object:
        """Return the object in the event; `MalformedEvent` when the data is not a JSON object."""
        return parse_object(self.data, "the data of the event")


def parse_object(text: bytes | str, what: str) -> Object:
    """Read a JSON object; `MalformedEvent` when the text is none."""
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        raise MalformedEvent(f"{what} is not JSON") from cause
    if not isinstance(parsed, dict):
        raise MalformedEvent(f"{what} is not a JSON object")
    return parsed


class Subscription(Struct, frozen=True, kw_only=True):
    """A request for the events of one cluster and one data type."""

    cluster: str
    data_type: str
    source: str = ""


def encode_event(event: CloudEvent) -> bytes:
    return bytes(_event_message(event).SerializeToString())


def decode_event(data: bytes) -> CloudEvent:
    """Read an event; `MalformedEvent` when the bytes are none."""
    return _read_event(_parse(CloudEventMessage, data))


def encode_publish_request(event: CloudEvent) -> bytes:
    return bytes(PublishRequestMessage(event=_event_message(event)).SerializeToString())


def decode_publish_request(data: bytes) -> CloudEvent:
    """Read the event in a request of Publish; `MalformedEvent` when there is none."""
    message = _parse(PublishRequestMessage, data)
    if not message.HasField("event"):
        raise MalformedEvent("the request contains no event")
    return _read_event(message.event)


def encode_subscription(subscription: Subscription) -> bytes:
    message = SubscriptionRequestMessage(
        source=subscription.source, cluster_name=subscription.cluster, data_type=subscription.data_type
    )
    return bytes(message.SerializeToString())


def decode_subscription(data: bytes) -> Subscription:
    """Read the request of Subscribe; `MalformedEvent` when the bytes are none."""
    message = _parse(SubscriptionRequestMessage, data)
    return Subscription(cluster=message.cluster_name, data_type=message.data_type, source=message.source)


def _parse(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as cause:
        raise MalformedEvent("the bytes are not the protobuf message that this method expects") from cause


def _event_message(event: CloudEvent) -> Any:
    message = CloudEventMessage(id=event.id, source=event.source, spec_version=SPEC_VERSION, type=event.type)
    try:
        for name, value in event.extensions.items():
            _write_value(message.attributes[_PREFIX + name], value)
        if event.time is not None:
            _write_value(message.attributes[f"{_PREFIX}{_TIME}"], event.time)
        if event.data:
            message.attributes[_CONTENT_TYPE].ce_string = JSON_CONTENT
            message.binary_data = event.data
    except (EncodeError, ValueError) as cause:  # text that is not Unicode, such as a lone surrogate
        raise MalformedEvent("an attribute of the event cannot be written into protobuf") from cause
    return message


def _write_value(message: Any, value: AttributeValue) -> None:
    if isinstance(value, bool):
        message.ce_boolean = value
    elif isinstance(value, int) and value in _INT32:
        message.ce_integer = value
    elif isinstance(value, int):  # CloudEvents has no larger integers: readers accept digits
        message.ce_string = str(value)
    elif isinstance(value, str):
        message.ce_string = value
    elif isinstance(value, bytes):
        message.ce_bytes = value
    else:
        message.ce_timestamp.FromDatetime(value)


def _read_event(message: Any) -> CloudEvent:
    if message.type != HEARTBEAT and message.spec_version != SPEC_VERSION:
        raise MalformedEvent(f"the version of CloudEvents is not {SPEC_VERSION}")
    if len(message.attributes) > _MOST_ATTRIBUTES:
        raise MalformedEvent(f"the event has more than {_MOST_ATTRIBUTES} attributes")
    attributes = {str(name): _read_value(name, value) for name, value in message.attributes.items()}
    extensions = {name.removeprefix(_PREFIX): value for name, value in attributes.items() if name.startswith(_PREFIX)}
    time = extensions.pop(_TIME, None)
    return CloudEvent(
        id=message.id,
        source=message.source,
        type=message.type,
        extensions=extensions,
        data=_read_data(message, attributes.get(_CONTENT_TYPE)),
        time=time if isinstance(time, datetime) else None,
    )


def _read_data(message: Any, content_type: AttributeValue | None) -> bytes:
    if content_type not in (None, JSON_CONTENT):
        raise MalformedEvent(f"the content type of the event is not {JSON_CONTENT}")
    if message.WhichOneof("data") not in (None, "binary_data"):
        raise MalformedEvent("the data of the event is not in binary_data")
    return bytes(message.binary_data)


def _read_value(name: str, message: Any) -> AttributeValue:
    kind = message.WhichOneof("attr")
    if kind is None:
        raise MalformedEvent(f"the attribute {name[:64]!r} of the event has no value")
    value: AttributeValue
    try:
        value = message.ce_timestamp.ToDatetime(tzinfo=UTC) if kind == "ce_timestamp" else getattr(message, kind)
    except (OverflowError, ValueError) as cause:
        raise MalformedEvent("a timestamp of the event is out of range") from cause
    return value


SERVICE = f"{PACKAGE}.CloudEventService"
PUBLISH = f"/{SERVICE}/Publish"
SUBSCRIBE = f"/{SERVICE}/Subscribe"
SUBSCRIPTION_ID = "subscription-id"
"""The header of the response to Subscribe; a client waits for it before it asks for a resync."""

RESYNC_END = "resync-end"
"""The header of a response to Subscribe by which a server promises to mark the end of each resync: with a heartbeat
that has the identifier of the request. Agents of Open Cluster Management take it for any other heartbeat.
"""


class PublishRequest:
    """The type of the request of Publish; the message itself is a `CloudEvent`."""


class Empty:
    """The response of Publish."""


Message: TypeAlias = CloudEvent | Subscription | Empty


class EventCodec(CodecBase):
    """Encodes what the service carries; decoding raises `MalformedEvent`."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return _CODECS[message_type][0](message)

    def decode(self, data: bytes, message_type: Any) -> Message:
        return _CODECS[message_type][1](data)


_CODECS: dict[Any, tuple[Callable[[Any], bytes], Callable[[bytes], Message]]] = {
    PublishRequest: (encode_publish_request, decode_publish_request),
    CloudEvent: (encode_event, decode_event),
    Subscription: (encode_subscription, decode_subscription),
    Empty: (lambda _: b"", lambda _: Empty()),
}
