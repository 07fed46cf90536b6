"""Turns the bytes of a request into an object: JSON, YAML or Protobuf, bounded in depth."""

import json
from collections.abc import Iterable
from typing import Any

import orjson

from watchword.api.json import MAX_DEPTH, is_deeper_than, type_name
from watchword.api.limits import MAX_BODY_BYTES
from watchword.api.meta import Object
from watchword.apiserver.serving.errors import bad_request, too_large, unsupported_media_type
from watchword.apiserver.serving.model import ApiError, HandlerRequest

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)

MAX_YAML_BYTES = 1024 * 1024  # parsing YAML is two orders slower than JSON; clients send JSON for large objects


def decode_body(request: HandlerRequest, accepted: tuple[str, ...] = ACCEPTED, *, kind: str = "") -> Object:
    """Return the object in a request body, which should be of that kind; 400, 413 or 415 when there is none."""
    try:
        return decode(request.body, media_type(request.header("content-type")), accepted)
    except Undecodable as refusal:
        if not kind:
            raise
        head = f"the object provided is unrecognized (must be of type {kind}): "
        raise bad_request(f"{head}{refusal.message} ({_summary(request.body)})") from None


class Undecodable(ApiError):
    """400: the bytes do not match their media type."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


def require_type_meta(request: HandlerRequest, kind: str, obj: Object) -> None:
    """Refuse a body without a kind: a custom object's kind is known from the body only."""
    missing = next((name for name, key in (("Kind", "kind"), ("apiVersion", "apiVersion")) if not obj.get(key)), "")
    if missing:
        shown = request.body.decode("utf-8", "replace")
        head = f"the object provided is unrecognized (must be of type {kind}): Object '{missing}' is missing in "
        raise bad_request(f"{head}'{shown}' ({_summary(request.body)})")


def _summary(body: bytes) -> str:
    shown = body[:_SHOWN_BYTES]
    text = shown.decode("utf-8", "replace") if body[:1] == b"{" else shown.hex()
    return f"{text} ..." if len(body) > _SHOWN_BYTES else text or "<empty>"


_SHOWN_BYTES = 30


def media_type(content_type: str) -> str:
    """Return the bare media type; JSON by default."""
    return content_type.partition(";")[0].strip().lower() or JSON


def decode(body: bytes, media: str, accepted: tuple[str, ...] = ACCEPTED) -> Object:
    if media not in accepted:
        raise unsupported_media_type(accepted)
    if len(body) > MAX_BODY_BYTES:
        raise too_large()
    if media == PROTOBUF:
        from watchword.apiserver.serving.protobuf import decode as decode_protobuf

        return require_object(decode_protobuf(body))
    return require_object(decode_yaml(body) if media == YAML else decode_json(body))


def require_object(value: Any) -> Object:
    """Refuse what is JSON but no object."""
    if not isinstance(value, dict):
        raise Undecodable(f"{NO_KIND}json: cannot unmarshal {json_type(value)} into Go value of type {_TYPE_META}")
    return value


NO_KIND = "couldn't get version/kind; json parse error: "
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def decode_json(body: bytes, complaint: str = NO_KIND) -> Any:
    """Parse JSON; 400, beginning with the complaint, when it is none or nests too deep."""
    try:
        value = load_json(body)
    except orjson.JSONDecodeError as cause:
        raise Undecodable(f"{complaint}{_decode_error_message(body, cause)}") from None
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        require_shallow(value)
    return value


def load_json(body: bytes) -> Any:
    """Parse JSON from a client; raises MemoryError, which orjson reports in two other ways."""
    try:
        return orjson.loads(body)
    except SystemError:
        raise MemoryError from None
    except orjson.JSONDecodeError as cause:
        if cause.msg.startswith("Not enough memory"):
            raise MemoryError from None
        raise


def _decode_error_message(body: bytes, cause: orjson.JSONDecodeError) -> str:
    text = body.lstrip()
    if not text or str(cause).startswith("unexpected end"):
        return "unexpected end of JSON input"
    first = text[:1].decode("utf-8", "replace")
    if first not in '{["-0123456789tfn':
        return f"invalid character '{first}' looking for beginning of value"
    return str(cause)


def json_type(value: Any) -> str:
    """Name the JSON type of a value as Go does."""
    name = type_name(value)
    return {"integer": "number", "boolean": "bool"}.get(name, name)


def decode_yaml(body: bytes) -> Any:
    """Parse YAML, of which JSON is the common case; aliases are refused because they multiply."""
    if body.lstrip()[:1] == b"{":
        try:
            return decode_json(body)
        except Undecodable:  # it may be YAML in flow style
            if len(body) > MAX_YAML_BYTES:
                raise
    from watchword.apiserver.serving.yaml_bodies import load

    return load(body)


def require_shallow(value: Any) -> None:
    if is_deeper_than(value, MAX_DEPTH):
        raise bad_request(f"the object nests deeper than {MAX_DEPTH} levels")


def duplicate_fields(body: bytes, value: Any) -> list[str]:
    # Without duplicates compact JSON has the length of its re-encoding: almost every body ends here.
    if len(orjson.dumps(value)) == len(body.rstrip()):
        return []
    found: list[str] = []
    try:
        marked = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return []
    stack: list[tuple[str, Any]] = [("", marked)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, _Pairs):
            found.extend(f"{path}.{name}" if path else name for name in item.twice)
            stack.extend((f"{path}.{name}" if path else name, child) for name, child in item.items())
        elif isinstance(item, list):
            stack.extend((f"{path}[{index}]", child) for index, child in enumerate(item))
    return sorted(found)


class _Pairs(dict[str, Any]):
    """An object that records which of its names came twice."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        listed = list(pairs)
        super().__init__(listed)
        seen: set[str] = set()
        self.twice = [name for name, _ in listed if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
