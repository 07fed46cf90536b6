"""The protobuf messages of the protocol, built from a table: no generated code, no version to match."""

from __future__ import annotations

from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, empty_pb2, message_factory, timestamp_pb2

PACKAGE = "io.cloudevents.v1"
FILE_NAME = "cloudevent.proto"

_Field = descriptor_pb2.FieldDescriptorProto
_ATTRIBUTES = f".{PACKAGE}.CloudEvent.AttributesEntry"
_ATTRIBUTE_VALUE = f".{PACKAGE}.CloudEventAttributeValue"

_Row = tuple[str, int, str]  # name, number, type: a scalar or the full name of a message

_EVENT: tuple[_Row, ...] = (
    ("id", 1, "string"),
    ("source", 2, "string"),
    ("spec_version", 3, "string"),
    ("type", 4, "string"),
    ("attributes", 5, _ATTRIBUTES),
)
_EVENT_DATA: tuple[_Row, ...] = (
    ("binary_data", 6, "bytes"),
    ("text_data", 7, "string"),
    ("proto_data", 8, ".google.protobuf.Any"),
)
_ATTRIBUTES_ENTRY: tuple[_Row, ...] = (("key", 1, "string"), ("value", 2, _ATTRIBUTE_VALUE))
_VALUE: tuple[_Row, ...] = (
    ("ce_boolean", 1, "bool"),
    ("ce_integer", 2, "int32"),
    ("ce_string", 3, "string"),
    ("ce_bytes", 4, "bytes"),
    ("ce_uri", 5, "string"),
    ("ce_uri_ref", 6, "string"),
    ("ce_timestamp", 7, ".google.protobuf.Timestamp"),
)
_SUBSCRIPTION: tuple[_Row, ...] = (("source", 1, "string"), ("cluster_name", 2, "string"), ("data_type", 3, "string"))


def file_descriptor() -> descriptor_pb2.FileDescriptorProto:
    """Return the description of all messages, as `protoc` makes it of `cloudevent.proto`."""
    file = descriptor_pb2.FileDescriptorProto(name=FILE_NAME, package=PACKAGE, syntax="proto3")
    file.dependency.extend(("google/protobuf/any.proto", "google/protobuf/timestamp.proto"))
    _add_message(file.message_type.add(), "PublishRequest", (("event", 1, f".{PACKAGE}.CloudEvent"),))
    _add_message(file.message_type.add(), "SubscriptionRequest", _SUBSCRIPTION)
    event = file.message_type.add()
    _add_message(event, "CloudEvent", _EVENT)
    entry = event.nested_type.add()
    _add_message(entry, "AttributesEntry", _ATTRIBUTES_ENTRY)
    entry.options.map_entry = True
    _add_choice(event, "data", _EVENT_DATA)
    value = file.message_type.add(name="CloudEventAttributeValue")
    _add_choice(value, "attr", _VALUE)
    return file


def _add_message(message: descriptor_pb2.DescriptorProto, name: str, rows: tuple[_Row, ...]) -> None:
    message.name = name
    for row in rows:
        _add_field(message, row)


def _add_choice(message: descriptor_pb2.DescriptorProto, name: str, rows: tuple[_Row, ...]) -> None:
    index = len(message.oneof_decl)
    message.oneof_decl.add(name=name)
    for row in rows:
        _add_field(message, row).oneof_index = index


def _add_field(message: descriptor_pb2.DescriptorProto, row: _Row) -> descriptor_pb2.FieldDescriptorProto:
    name, number, kind = row
    label = _Field.LABEL_REPEATED if kind == _ATTRIBUTES else _Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if kind.startswith("."):
        field.type, field.type_name = _Field.TYPE_MESSAGE, kind
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    return field


def _message_classes() -> dict[str, Any]:
    # A pool of its own: a program that has compiled the published file keeps its messages apart from these.
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, timestamp_pb2, empty_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file_descriptor().SerializeToString())
    names = (f"{PACKAGE}.PublishRequest", f"{PACKAGE}.SubscriptionRequest", f"{PACKAGE}.CloudEvent")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


_CLASSES = _message_classes()

# The fields are not known to the type checker: only the codec reads these, everything else reads its dataclasses.
PublishRequestMessage: Any = _CLASSES[f"{PACKAGE}.PublishRequest"]
SubscriptionRequestMessage: Any = _CLASSES[f"{PACKAGE}.SubscriptionRequest"]
CloudEventMessage: Any = _CLASSES[f"{PACKAGE}.CloudEvent"]
