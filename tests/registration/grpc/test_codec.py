"""Events as protobuf: compared with what `protoc` makes of the published protocol, and with bytes of any kind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st
from tests.registration.grpc.published_protocol import PublishedProtocol

from watchword.kube.errors import ApiStatusError, Conflict, Invalid, error_from_status
from watchword.registration.grpc.cloud_events import (
    FILE_DESCRIPTOR,
    HEARTBEAT,
    Action,
    Attribute,
    AttributeValue,
    CloudEvent,
    DataType,
    EventType,
    SubResource,
    Subscription,
    decode_event,
    decode_publish_request,
    decode_subscription,
    encode_event,
    encode_publish_request,
    encode_subscription,
    parse_data_type,
)
from watchword.registration.grpc.errors import (
    MalformedEvent,
    MalformedStatus,
    UnknownEventType,
    decode_status,
    encode_status,
)

LETTERS = 'a\x00\n%"é€\U0001f600'
LEASE_UPDATE = EventType(DataType.LEASE, SubResource.SPEC, Action.UPDATE)


def an_event(**changes: object) -> CloudEvent:
    fields = {
        "id": "1",
        "source": "edge-1-agent",
        "type": str(LEASE_UPDATE),
        "extensions": {
            Attribute.CLUSTER_NAME: "edge-1",
            Attribute.RESOURCE_VERSION: "7",
            "flag": True,
            "blob": b"\xff",
        },
        "data": b'{"metadata":{"name":"lease"}}',
        "time": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
    }
    return CloudEvent(**{**fields, **changes})  # type: ignore[arg-type]


def test_messages_are_those_of_the_published_protocol(protocol: PublishedProtocol) -> None:
    compiled = descriptor_pb2.FileDescriptorProto.FromString(protocol.messages.DESCRIPTOR.serialized_pb)

    described = descriptor_pb2.FileDescriptorProto.FromString(FILE_DESCRIPTOR)
    ours = {message.name: _without_json_names(message) for message in described.message_type}

    assert ours == {message.name: _without_json_names(message) for message in compiled.message_type}


def _without_json_names(message: descriptor_pb2.DescriptorProto) -> descriptor_pb2.DescriptorProto:
    for each in (message, *message.nested_type):
        for field in each.field:
            field.ClearField("json_name")
    return message


def test_event_is_read_by_the_published_protocol(protocol: PublishedProtocol) -> None:
    read = protocol.messages.CloudEvent.FromString(encode_event(an_event()))

    assert (read.id, read.source, read.spec_version, read.type) == ("1", "edge-1-agent", "1.0", str(LEASE_UPDATE))
    assert read.attributes["ce-clustername"].ce_string == "edge-1"
    assert read.attributes["ce-flag"].ce_boolean is True
    assert read.attributes["ce-time"].ce_timestamp.ToDatetime(tzinfo=UTC) == an_event().time
    assert read.attributes["contenttype"].ce_string == "application/json"
    assert read.binary_data == b'{"metadata":{"name":"lease"}}'


def test_requests_are_read_by_the_published_protocol(protocol: PublishedProtocol) -> None:
    published = protocol.messages.PublishRequest.FromString(encode_publish_request(an_event()))
    wanted = Subscription(cluster="edge-1", data_type=DataType.LEASE, source="edge-1-agent")
    subscribed = protocol.messages.SubscriptionRequest.FromString(encode_subscription(wanted))

    assert published.event.id == "1"
    assert (subscribed.cluster_name, subscribed.data_type) == ("edge-1", "coordination.k8s.io.v1.leases")


@given(
    st.dictionaries(
        st.text("abcdefg", min_size=1),
        st.one_of(
            st.booleans(),
            st.integers(-(2**31), 2**31 - 1),
            st.text(LETTERS),
            st.binary(),
            st.datetimes(timezones=st.just(UTC)),
        ),
        max_size=10,
    ),
    st.binary(),
)
def test_decoding_inverts_encoding(extensions: dict[str, object], data: bytes) -> None:
    event = an_event(extensions=extensions, data=data)

    assert decode_event(encode_event(event)) == event
    assert decode_publish_request(encode_publish_request(event)) == event


def test_text_that_utf_8_cannot_represent_is_refused() -> None:
    with pytest.raises(MalformedEvent):
        encode_event(an_event(extensions={Attribute.CLUSTER_NAME: "\ud800"}))


@given(st.binary(max_size=400))
def test_bytes_of_any_kind_are_an_event_or_refused(data: bytes) -> None:
    for decode in (decode_event, decode_publish_request, decode_subscription):
        try:
            decode(data)
        except MalformedEvent:
            continue


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"spec_version": "0.3"}, id="another version of CloudEvents"),
        pytest.param({"text_data": "{}"}, id="data as text"),
        pytest.param({"content": "application/cloudevents+json"}, id="structured mode"),
        pytest.param({"attributes": 33}, id="too many attributes"),
        pytest.param({"seconds": 2**62}, id="timestamp out of range"),
        pytest.param({"empty": True}, id="attribute without a value"),
    ],
)
def test_event_of_another_form_is_refused(protocol: PublishedProtocol, change: dict[str, object]) -> None:
    message = protocol.messages.CloudEvent(id="1", source="s", type=str(LEASE_UPDATE), spec_version="1.0")
    message.attributes["ce-clustername"].ce_string = "edge-1"
    for number in range(int(str(change.get("attributes", 0)))):
        message.attributes[f"ce-{number}"].ce_integer = number
    if "content" in change:
        message.attributes["contenttype"].ce_string = str(change["content"])
    if "seconds" in change:
        message.attributes["ce-time"].ce_timestamp.seconds = change["seconds"]
    if "empty" in change:
        message.attributes["ce-empty"].SetInParent()
    message.spec_version = str(change.get("spec_version", "1.0"))
    message.text_data = str(change.get("text_data", ""))
    if "text_data" not in change:
        message.ClearField("text_data")

    with pytest.raises(MalformedEvent):
        decode_event(message.SerializeToString())


def test_publish_request_without_an_event_is_refused() -> None:
    with pytest.raises(MalformedEvent, match="no event"):
        decode_publish_request(b"")


def test_heartbeat_needs_no_attributes(protocol: PublishedProtocol) -> None:
    sent = protocol.messages.CloudEvent(id="1", spec_version="1.0", type=HEARTBEAT)

    assert decode_event(sent.SerializeToString()).is_heartbeat


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("spec.update_request", id="no data type"),
        pytest.param("v1.secrets.spec.update_request", id="another kind"),
        pytest.param(f"{DataType.LEASE}.scale.update_request", id="another subresource"),
        pytest.param(f"{DataType.LEASE}.spec.patch_request", id="another action"),
        pytest.param(f"{DataType.LEASE}.spec.update_request.", id="trailing dot"),
        pytest.param(f"{DataType.LEASE.upper()}.spec.update_request", id="other case"),
        pytest.param("." * 100_000, id="very long"),
    ],
)
def test_unknown_event_type_is_refused(text: str) -> None:
    with pytest.raises(UnknownEventType):
        EventType.parse(text)


def test_every_event_type_is_read_as_it_is_written() -> None:
    for kind in (EventType(d, s, a) for d in DataType for s in SubResource for a in Action):
        assert EventType.parse(str(kind)) == kind
        assert parse_data_type(kind.data_type.value) is kind.data_type


@pytest.mark.parametrize("value", ["", "-1", "1.5", "9" * 20, True, b"1"])
def test_resource_version_that_is_not_an_integer_is_refused(value: AttributeValue) -> None:
    with pytest.raises(MalformedEvent, match="resourceversion"):
        an_event(extensions={Attribute.RESOURCE_VERSION: value}).number(Attribute.RESOURCE_VERSION)


def test_cluster_name_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(MalformedEvent, match="clustername"):
        an_event(extensions={Attribute.CLUSTER_NAME: 7}).text(Attribute.CLUSTER_NAME)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'"text"', b"\xff"])
def test_data_that_is_not_a_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedEvent):
        an_event(data=data).json()


def test_data_is_not_printed_with_the_event() -> None:
    assert "token-content" not in repr(an_event(data=b'{"token":"token-content"}'))


def test_refusal_keeps_reason_code_and_text() -> None:
    refusal = error_from_status(409, {"reason": "Conflict", "message": "the object changed", "details": {"name": "x"}})

    read = decode_status(encode_status(refusal))

    assert isinstance(read, Conflict)
    assert (str(read), read.reason, read.code) == ("the object changed", "Conflict", 409)
    assert read.status["details"] == {"name": "x"}


def test_long_refusal_fits_into_the_metadata_of_a_response() -> None:
    causes = [{"message": "é" * 100}] * 1000
    refusal = error_from_status(422, {"reason": "Invalid", "message": "é" * 50_000, "details": {"causes": causes}})

    message = encode_status(refusal)

    assert len(message.encode()) < 2_500
    assert isinstance(decode_status(message), Invalid)


@pytest.mark.parametrize("message", ["", "{}", "[]", '{"ErrStatus": []}', '{"ErrStatus": {"code": "x"}}', "\ud800"])
def test_message_without_a_status_is_not_taken_for_one(message: str) -> None:
    with pytest.raises(MalformedStatus):
        decode_status(message)


@given(st.text(LETTERS), st.text(LETTERS, max_size=30), st.integers(400, 599))
def test_any_refusal_travels(text: str, reason: str, code: int) -> None:
    read = decode_status(encode_status(ApiStatusError(text, code=code, reason=reason)))

    assert read.code == code
