"""What the metadata of any object must look like, built-in or custom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from watchword.api.meta import Object
from watchword.apiserver.field_errors import forbidden, invalid, required, too_long
from watchword.apiserver.kinds.names import (
    NameRule,
    dns_label,
    dns_subdomain,
    generated_prefix,
    label_value,
    qualified_name,
)
from watchword.apiserver.model import FieldError, Operation, Validator

MAX_ANNOTATION_BYTES = 256 * 1024
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
IMMUTABLE = "field is immutable"
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def metadata_validator(rule: NameRule = dns_subdomain) -> Validator:
    def validate(operation: Operation) -> list[FieldError]:
        new = (operation.new or {}).get("metadata") or {}
        if operation.old is None:
            namespaced = operation.kind.resource.namespaced
            found = [*_new_errors(new, rule, namespaced=namespaced), *metadata_errors(new, "metadata")]
            if not operation.kind.custom:
                found.extend(unqualified_finalizers(new.get("finalizers") or [], "metadata.finalizers"))
            return found
        old = operation.old.get("metadata") or {}
        # kube-apiserver validates these twice, for every object and for the kind, and reports both causes.
        found = list(_update_errors(new, old))
        return [*found, *found, *metadata_errors(new, "metadata", finalizers=False)]

    return validate


def metadata_errors(metadata: Object, path: str, *, finalizers: bool = True) -> list[FieldError]:
    found = [
        *label_errors(metadata.get("labels") or {}, f"{path}.labels"),
        *annotation_errors(metadata.get("annotations") or {}, f"{path}.annotations"),
        *owner_errors(metadata.get("ownerReferences") or [], f"{path}.ownerReferences"),
    ]
    if finalizers:
        found.extend(finalizer_errors(metadata.get("finalizers") or [], f"{path}.finalizers"))
    return found


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from (invalid(path, key, complaint) for complaint in qualified_name(key))
        yield from (invalid(path, value, complaint) for complaint in label_value(value))


def annotation_errors(annotations: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key in annotations:
        yield from (invalid(path, key, complaint) for complaint in qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        yield too_long(path, MAX_ANNOTATION_BYTES)


def owner_errors(owners: list[Object], path: str) -> Iterator[FieldError]:
    """Validate owner references: complete, and at most one controller."""
    controller = ""
    for owner in owners:
        yield from _owner_errors(owner, path)
        if owner.get("controller") is not True:
            continue
        name = f"{owner.get('kind')}/{owner.get('name')}"
        if controller:
            detail = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {controller} and {name}'
            )
            printed = orjson.dumps([_in_order(each) for each in owners]).decode()
            yield FieldError(path, "FieldValueInvalid", f"Invalid value: {printed}: {detail}")
        else:
            controller = name


def _owner_errors(owner: Object, path: str) -> Iterator[FieldError]:
    version = (owner.get("apiVersion") or "").rpartition("/")[2]
    if not version:
        yield invalid(f"{path}.apiVersion", owner.get("apiVersion") or "", "version must not be empty")
    for name in ("kind", "name", "uid"):
        if not owner.get(name):
            yield invalid(f"{path}.{name}", "", "must not be empty")
    if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
        yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")


def finalizer_errors(finalizers: list[str], path: str) -> Iterator[FieldError]:
    """Validate the names of finalizers; `orphan` and `foregroundDeletion` exclude each other."""
    for finalizer in finalizers:
        yield from (invalid(path, finalizer, complaint) for complaint in qualified_name(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def unqualified_finalizers(finalizers: list[str], path: str) -> Iterator[FieldError]:
    """Validate what only built-in kinds forbid: finalizers without a domain."""
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{path}[{index}]", finalizer, detail)


def _in_order(owner: Object) -> Object:
    return {name: owner[name] for name in _OWNER_FIELDS if name in owner}


_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


def immutable_errors(new: Any, old: Any, path: str) -> list[FieldError]:
    """Validate a field that may not change once set."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def _new_errors(metadata: Object, rule: NameRule, *, namespaced: bool) -> Iterator[FieldError]:
    prefix = metadata.get("generateName") or ""
    if prefix:
        for complaint in generated_prefix(rule)(prefix):
            yield invalid("metadata.generateName", prefix, complaint)
    name = metadata.get("name") or ""
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from (invalid("metadata.name", name, complaint) for complaint in rule(name))
    namespace = metadata.get("namespace") or ""
    if namespaced and not namespace:
        yield required("metadata.namespace")
    elif namespaced:
        yield from (invalid("metadata.namespace", namespace, complaint) for complaint in dns_label(namespace))
    elif namespace:
        yield forbidden("metadata.namespace", "not allowed on this type")


def _update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            yield forbidden("metadata.finalizers", detail)
    for name in _IMMUTABLE:
        yield from immutable_errors(new.get(name), old.get(name), f"metadata.{name}")
