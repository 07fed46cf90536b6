"""The two methods of the service, and the codec that lets grpclib carry this package's own dataclasses."""

from __future__ import annotations

from typing import Any, TypeAlias

from grpclib.encoding.base import CodecBase

from watchword.registration.grpc.cloud_events import (
    PACKAGE,
    CloudEvent,
    Subscription,
    decode_event,
    decode_publish_request,
    decode_subscription,
    encode_event,
    encode_publish_request,
    encode_subscription,
)

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
        if message_type is PublishRequest:
            return encode_publish_request(message)
        if message_type is CloudEvent:
            return encode_event(message)
        return encode_subscription(message) if message_type is Subscription else b""

    def decode(self, data: bytes, message_type: Any) -> Message:
        if message_type is PublishRequest:
            return decode_publish_request(data)
        if message_type is CloudEvent:
            return decode_event(data)
        return decode_subscription(data) if message_type is Subscription else Empty()
