"""One CloudEvent, and how it is written into protobuf (binary mode)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

import orjson
from google.protobuf.message import DecodeError, EncodeError
from msgspec import Struct, field

from watchword.api.meta import Object
from watchword.api.sensitive import HiddenFields
from watchword.registration.grpc.errors import MalformedEvent
from watchword.registration.grpc.event_types import HEARTBEAT
from watchword.registration.grpc.messages import CloudEventMessage, PublishRequestMessage, SubscriptionRequestMessage

SPEC_VERSION = "1.0"
JSON_CONTENT = "application/json"
_CONTENT_TYPE = "contenttype"
_PREFIX = "ce-"
_TIME = "time"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_ATTRIBUTES = 32
_INT32 = range(-(2**31), 2**31)

AttributeValue: TypeAlias = bool | int | str | bytes | datetime


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
        try:
            parsed = orjson.loads(self.data)
        except orjson.JSONDecodeError as cause:
            raise MalformedEvent("the data of the event is not JSON") from cause
        if not isinstance(parsed, dict):
            raise MalformedEvent("the data of the event is not a JSON object")
        return parsed


class Subscription(Struct, frozen=True, kw_only=True):
    """A request for the events of one cluster and one data type."""

    cluster: str
    data_type: str
    source: str = ""


def encode_event(event: CloudEvent) -> bytes:
    """Write an event."""
    return bytes(_event_message(event).SerializeToString())


def decode_event(data: bytes) -> CloudEvent:
    """Read an event; `MalformedEvent` when the bytes are none."""
    return _read_event(_parse(CloudEventMessage, data))


def encode_publish_request(event: CloudEvent) -> bytes:
    """Write the request of Publish."""
    return bytes(PublishRequestMessage(event=_event_message(event)).SerializeToString())


def decode_publish_request(data: bytes) -> CloudEvent:
    """Read the event in a request of Publish; `MalformedEvent` when there is none."""
    message = _parse(PublishRequestMessage, data)
    if not message.HasField("event"):
        raise MalformedEvent("the request contains no event")
    return _read_event(message.event)


def encode_subscription(subscription: Subscription) -> bytes:
    """Write the request of Subscribe."""
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
        since = value - _EPOCH
        message.ce_timestamp.seconds = since // timedelta(seconds=1)
        message.ce_timestamp.nanos = since % timedelta(seconds=1) // timedelta(microseconds=1) * 1000


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
    match message.WhichOneof("data"):
        case None:
            return b""
        case "binary_data":
            return bytes(message.binary_data)
        case _:
            raise MalformedEvent("the data of the event is not in binary_data")


def _read_value(name: str, message: Any) -> AttributeValue:
    match message.WhichOneof("attr"):
        case "ce_boolean":
            return bool(message.ce_boolean)
        case "ce_integer":
            return int(message.ce_integer)
        case "ce_string" | "ce_uri" | "ce_uri_ref" as field_name:
            return str(getattr(message, field_name))
        case "ce_bytes":
            return bytes(message.ce_bytes)
        case "ce_timestamp":
            return _read_timestamp(message.ce_timestamp.seconds, message.ce_timestamp.nanos)
        case _:
            raise MalformedEvent(f"the attribute {name[:64]!r} of the event has no value")


def _read_timestamp(seconds: int, nanos: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as cause:
        raise MalformedEvent("a timestamp of the event is out of range") from cause
