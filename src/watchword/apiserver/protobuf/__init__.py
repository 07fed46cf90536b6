"""Protobuf bodies, as typed Go clients send them, read into the same objects as JSON."""

from __future__ import annotations

from functools import cache

from watchword.api.meta import Object
from watchword.apiserver.bodies import require_shallow
from watchword.apiserver.errors import bad_request
from watchword.apiserver.kinds.build import message_of
from watchword.apiserver.kinds.fields import META
from watchword.apiserver.kinds.messages import messages, typed
from watchword.apiserver.kinds.scalars import TypeMismatch
from watchword.apiserver.protobuf.reader import MessageReader
from watchword.apiserver.protobuf.values import text
from watchword.apiserver.protobuf.wire import Malformed, read_fields

MAGIC = b"k8s\x00"
# Options travel under the group they are used in, whatever it is.
_OPTIONS = frozenset({"DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions", "Status"})


def decode(body: bytes) -> Object:
    """Return the object in a Protobuf body; raises a 400 with the reason when it cannot be read."""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
    try:
        obj = _unwrap(body[len(MAGIC) :])
    except (Malformed, TypeMismatch) as problem:
        raise bad_request(f"the protobuf body cannot be read: {problem}") from None
    require_shallow(obj)  # JSON inside Protobuf nests on its own account
    return obj


def _unwrap(envelope: bytes) -> Object:
    api_version = kind = encoding = content_type = ""
    raw = b""
    for number, _, value in read_fields(envelope):
        if not isinstance(value, bytes):
            continue
        match number:
            case 1:
                api_version, kind = _type_meta(value)
            case 2:
                raw = value
            case 3:
                encoding = text(value)
            case 4:
                content_type = text(value)
    if encoding or content_type not in ("", "application/vnd.kubernetes.protobuf"):
        raise Malformed("the envelope holds another encoding")
    name = _message_name(api_version, kind)
    read = _reader().read(name, raw)
    # Go writes every plain field, empty or not: the kind's shape tells zero from absence.
    return {"apiVersion": api_version, "kind": kind, **typed().conform(name, read)}


def _type_meta(data: bytes) -> tuple[str, str]:
    found = {number: text(value) for number, _, value in read_fields(data) if isinstance(value, bytes)}
    return found.get(1, ""), found.get(2, "")


def _message_name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    try:
        if kind in _OPTIONS:
            return messages()[f"{META}.{kind}"].name
        return message_of(group, version, kind)
    except KeyError:
        raise bad_request(f'no kind "{kind}" is registered for version "{api_version}" in protobuf') from None


@cache
def _reader() -> MessageReader:
    return MessageReader(messages())
