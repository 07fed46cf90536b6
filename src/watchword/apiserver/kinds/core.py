"""Secrets, config maps, namespaces, service accounts, services, leases and events: their defaults and rules."""

import base64
import hashlib
import ipaddress
from collections.abc import Iterator
from itertools import chain

import orjson

from watchword.api.json import copy_json
from watchword.api.meta import Object, annotations_of
from watchword.api.resources import CORE_EVENTS, EVENTS
from watchword.apiserver.kinds.columns import Cell
from watchword.apiserver.kinds.metadata import config_key, finalizer_errors, immutable_errors, unqualified_finalizers
from watchword.apiserver.serving.field_errors import forbidden, invalid, required, too_long
from watchword.apiserver.serving.model import FieldError, Operation

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
    written = secret.pop("stringData", None) or {}
    if written:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in written.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    if not secret.get("type"):
        secret["type"] = "Opaque"


def validate_secret(operation: Operation) -> list[FieldError]:
    secret = operation.new or {}
    found = list(_change_errors(operation, ("data",)))
    if operation.old is not None:
        found[:0] = immutable_errors(secret.get("type"), operation.old.get("type"), "type")
    data: dict[str, str] = secret.get("data") or {}
    for key in data:
        found.extend(invalid(f"data[{key}]", key, complaint) for complaint in config_key(key))
    if sum(_decoded_size(value) for value in data.values()) > MAX_BYTES:
        found.append(too_long("data", MAX_BYTES))
    found.extend(_type_errors(secret, data))
    return found


def _type_errors(secret: Object, data: dict[str, str]) -> Iterator[FieldError]:
    kind = secret.get("type") or ""
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
        elif kind in _JSON_TYPES:
            yield from _json_errors(key, data[key])
    if kind == "kubernetes.io/service-account-token" and not annotations_of(secret).get(SERVICE_ACCOUNT_NAME):
        yield required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield required("data[username]")
        yield required("data[password]")
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield required("data[ssh-privatekey]")


def _json_errors(key: str, value: str) -> Iterator[FieldError]:
    redacted = "<secret contents redacted>"
    raw = base64.b64decode(value)
    try:
        parsed = orjson.loads(raw)
    except orjson.JSONDecodeError as cause:
        yield invalid(f"data[{key}]", redacted, _json_complaint(raw, cause))
        return
    if not isinstance(parsed, dict | None):
        yield invalid(f"data[{key}]", redacted, "json: cannot unmarshal value into an object")


def _json_complaint(raw: bytes, cause: orjson.JSONDecodeError) -> str:
    # The contents are secret: at most the first character may be shown.
    text = raw.decode("utf-8", "replace").strip()
    if not text or cause.pos >= len(text):
        return "unexpected end of JSON input"
    if text[0] in "{[":
        return "invalid JSON"
    return f"invalid character {text[0]!r} looking for beginning of value"


def validate_config_map(operation: Operation) -> list[FieldError]:
    config = operation.new or {}
    data: dict[str, str] = config.get("data") or {}
    binary: dict[str, str] = config.get("binaryData") or {}
    found = list(_change_errors(operation, ("data", "binaryData")))
    for key in data:
        found.extend(invalid(f"data[{key}]", key, complaint) for complaint in config_key(key))
        if key in binary:
            found.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        found.extend(invalid(f"binaryData[{key}]", key, complaint) for complaint in config_key(key))
    total = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
    if total > MAX_BYTES:
        found.append(too_long("[]", MAX_BYTES))
    return found


def _change_errors(operation: Operation, locked: tuple[str, ...]) -> Iterator[FieldError]:
    new, old = operation.new or {}, operation.old or {}
    if old.get("immutable") is not True:
        return
    detail = "field is immutable when `immutable` is set"
    if new.get("immutable") is not True:
        yield forbidden("immutable", detail)
    for name in locked:
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield forbidden(name, detail)


def _decoded_size(encoded: str) -> int:
    return len(encoded) * 3 // 4 - encoded[-2:].count("=")


# core name to events.k8s.io name, where they differ
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _NAMES.items()}
_ALWAYS_IN_CORE: Object = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def to_core(event: Object) -> Object:
    renamed = {_CORE_NAMES.get(key, key): value for key, value in event.items()}
    return {**_ALWAYS_IN_CORE, **renamed, "apiVersion": CORE_EVENTS.api_version}


def from_core(event: Object) -> Object:
    renamed = {_NAMES.get(key, key): value for key, value in event.items()}
    for name in ("reportingController", "reportingInstance"):
        if not renamed.get(name):
            renamed.pop(name, None)
    return {**renamed, "apiVersion": EVENTS.api_version}


def source(event: Object) -> str:
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


def on_core(cell: Cell) -> Cell:
    return lambda event, now: cell(to_core(event), now)


def validate_event(operation: Operation) -> list[FieldError]:
    """Validate that an event of either group lies in the namespace of its object."""
    event = operation.new or {}
    namespace = (event.get("metadata") or {}).get("namespace") or ""
    involved = (event.get("involvedObject") or event.get("regarding") or {}).get("namespace") or ""
    if namespace == involved or (not involved and namespace in ("default", "kube-system")):
        return []
    return [invalid("involvedObject.namespace", involved, "does not match event.namespace")]


def validate_lease(operation: Operation) -> list[FieldError]:
    spec = (operation.new or {}).get("spec") or {}
    found = list[FieldError]()
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        found.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        found.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return found


FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"


def default_namespace(obj: Object) -> None:
    """Label a namespace with its name; its writer manages the label."""
    metadata = obj.get("metadata") or {}
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}


def prepare_namespace(operation: Operation) -> None:
    """Restore the name label and the finalizer; status and finalizers change under their own endpoints."""
    new, old = operation.new, operation.old
    if new is None:
        return
    metadata = new.setdefault("metadata", {})
    labels = metadata["labels"] = metadata.get("labels") or {}
    labels[NAME_LABEL] = metadata.get("name") or operation.key.name
    if old is None:
        new["status"] = {"phase": "Active"}
        spec = new["spec"] = new.get("spec") or {}
        spec["finalizers"] = list(dict.fromkeys([*(spec.get("finalizers") or []), FINALIZER]))
        return
    if operation.subresource != "status":
        new["status"] = copy_json(old.get("status") or {})
    if operation.subresource != "finalize":
        new["spec"] = copy_json(old.get("spec") or {})


def validate_namespace(operation: Operation) -> list[FieldError]:
    spec = (operation.new or {}).get("spec") or {}
    if operation.old is not None and operation.subresource != "finalize":
        return []
    finalizers = spec.get("finalizers") or []
    found = [finalizer_errors([each], f"spec.finalizers[{index}]") for index, each in enumerate(finalizers)]
    return [*chain.from_iterable(found), *unqualified_finalizers(finalizers, "spec.finalizers")]


def prepare_service_account(operation: Operation) -> None:
    new = operation.new or {}
    if new.get("secrets"):
        new["secrets"] = [{"name": each["name"]} if each.get("name") else {} for each in new["secrets"]]


SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/12")


def prepare_service(operation: Operation) -> None:
    """Give a Service its address, and keep it. Nothing routes it, so that two with the same one do no harm."""
    new, old = operation.new, operation.old
    if new is None or operation.subresource or new["spec"].get("type") == "ExternalName":
        return
    spec, before = new["spec"], (old or {}).get("spec") or {}
    if not spec.get("clusterIP"):
        number = int.from_bytes(hashlib.sha256(str(operation.key).encode()).digest()[:8])
        spec["clusterIP"] = before.get("clusterIP") or str(SERVICE_NETWORK[number % SERVICE_NETWORK.num_addresses])
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
