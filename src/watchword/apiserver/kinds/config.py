"""Secrets and config maps: what they may contain, and what may change."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import orjson

from watchword.api.meta import Object, annotations_of
from watchword.apiserver import field_errors as broken
from watchword.apiserver.kinds.metadata import immutable_errors
from watchword.apiserver.kinds.names import config_key
from watchword.apiserver.model import FieldError, Operation

MAX_BYTES = 1024 * 1024
SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"

# The required keys of each type of Secret, in the order in which missing ones are reported.
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_TYPES = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")


def default_secret(secret: Object) -> None:
    """Turn `stringData` into `data` and name the type."""
    written = secret.pop("stringData", None) or {}
    if written:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in written.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    if not secret.get("type"):
        secret["type"] = "Opaque"


def validate_secret(operation: Operation) -> list[FieldError]:
    """Validate keys, size, the required keys of the type, and immutability."""
    secret = operation.new or {}
    found = list(_change_errors(operation, ("data",)))
    if operation.old is not None:
        found[:0] = immutable_errors(secret.get("type"), operation.old.get("type"), "type")
    data: dict[str, str] = secret.get("data") or {}
    for key in data:
        found.extend(broken.invalid(f"data[{key}]", key, complaint) for complaint in config_key(key))
    if sum(_decoded_size(value) for value in data.values()) > MAX_BYTES:
        found.append(broken.too_long("data", MAX_BYTES))
    found.extend(_type_errors(secret, data))
    return found


def _type_errors(secret: Object, data: dict[str, str]) -> Iterator[FieldError]:
    kind = secret.get("type") or ""
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data:
            yield broken.required(f"data[{key}]")
        elif kind in _JSON_TYPES:
            yield from _json_errors(key, data[key])
    if kind == "kubernetes.io/service-account-token" and not annotations_of(secret).get(SERVICE_ACCOUNT_NAME):
        yield broken.required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield broken.required("data[username]")
        yield broken.required("data[password]")
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield broken.required("data[ssh-privatekey]")


def _json_errors(key: str, value: str) -> Iterator[FieldError]:
    redacted = "<secret contents redacted>"
    raw = base64.b64decode(value)
    try:
        parsed = orjson.loads(raw)
    except orjson.JSONDecodeError as cause:
        yield broken.invalid(f"data[{key}]", redacted, _json_complaint(raw, cause))
        return
    if not isinstance(parsed, dict | None):
        yield broken.invalid(f"data[{key}]", redacted, "json: cannot unmarshal value into an object")


def _json_complaint(raw: bytes, cause: orjson.JSONDecodeError) -> str:
    # The contents are secret: at most the first character may be shown.
    text = raw.decode("utf-8", "replace").strip()
    if not text or cause.pos >= len(text):
        return "unexpected end of JSON input"
    if text[0] in "{[":
        return "invalid JSON"
    return f"invalid character {text[0]!r} looking for beginning of value"


def validate_config_map(operation: Operation) -> list[FieldError]:
    """Validate keys, size and immutability."""
    config = operation.new or {}
    data: dict[str, str] = config.get("data") or {}
    binary: dict[str, str] = config.get("binaryData") or {}
    found = list(_change_errors(operation, ("data", "binaryData")))
    for key in data:
        found.extend(broken.invalid(f"data[{key}]", key, complaint) for complaint in config_key(key))
        if key in binary:
            found.append(broken.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        found.extend(broken.invalid(f"binaryData[{key}]", key, complaint) for complaint in config_key(key))
    total = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
    if total > MAX_BYTES:
        found.append(broken.too_long("[]", MAX_BYTES))
    return found


def _change_errors(operation: Operation, locked: tuple[str, ...]) -> Iterator[FieldError]:
    new, old = operation.new or {}, operation.old or {}
    if old.get("immutable") is not True:
        return
    detail = "field is immutable when `immutable` is set"
    if new.get("immutable") is not True:
        yield broken.forbidden("immutable", detail)
    for name in locked:
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield broken.forbidden(name, detail)


def _decoded_size(encoded: str) -> int:
    return len(encoded) * 3 // 4 - encoded[-2:].count("=")
