"""The kinds that a CustomResourceDefinition adds, one for each version it serves."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache, partial
from typing import Any

import orjson

from watchword.api.json import show
from watchword.api.jsonpath import JsonPathError, find
from watchword.api.meta import Object, Resource, finalizers_of, is_deleting
from watchword.apiserver.crd.definition import (
    SCHEMAS_REMEMBERED,
    names_of,
    openapi_of,
    spec_of,
    storage_version,
    subresources_of,
    versions_of,
)
from watchword.apiserver.documents.discovery import by_priority
from watchword.apiserver.kinds.build import compared
from watchword.apiserver.kinds.columns import NAME, age
from watchword.apiserver.kinds.from_openapi import from_openapi, objects, text, texts
from watchword.apiserver.kinds.messages import OBJECT_META, schemas
from watchword.apiserver.kinds.metadata import STANDARD_FINALIZERS, metadata_validator
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.kinds.typed import TypeMismatch, typed
from watchword.apiserver.serving.errors import bad_request, forbidden, quote
from watchword.apiserver.serving.model import Column, Operation, ResourceKind

_AGE: Object = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def columns_of(version: Object) -> tuple[Column, ...]:
    """Return the name and the columns of a version; without any, the age."""
    said = objects(version, "additionalPrinterColumns") or [_AGE]
    return (NAME, *map(_column, said))


def _column(column: Object) -> Column:
    path, kind = text(column, "jsonPath"), text(column, "type")
    priority = column.get("priority")
    return Column(
        name=text(column, "name"),
        cell=lambda obj, now: _shown(_first(obj, path), kind, now),
        type=kind,
        format=text(column, "format"),
        description=text(column, "description") or f"Custom resource definition column (in JSONPath format): {path}",
        priority=priority if isinstance(priority, int) else 0,
    )


def _first(obj: Object, path: str) -> Any:
    try:
        found = find(obj, path)
    except JsonPathError:
        return None
    return found[0] if found else None


def _shown(value: Any, kind: str, now: datetime) -> Any:
    """Return a value as its column shows it; None when it is of another type."""
    if kind == "string":
        return value if isinstance(value, str) else None if value is None else show(value)
    if kind == "date":
        return _age(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if kind == "integer":
        return int(value) if -(2**63) <= value < 2**63 else None  # orjson writes no integer beyond 64 bits
    return float(value)


def _age(value: str, now: datetime) -> str:
    told = age(value, now)
    return "<invalid>" if told == "<unknown>" else told


def deprecation_of(definition: Object, version: Object) -> str:
    if version.get("deprecated") is not True:
        return ""
    said = version.get("deprecationWarning")
    if isinstance(said, str):
        return said
    group, kind = text(spec_of(definition), "group"), text(names_of(definition), "kind")
    warning = f"{group}/{text(version, 'name')} {kind} is deprecated"
    better = _newer(definition, text(version, "name"))
    return f"{warning}; use {group}/{better} {kind}" if better else warning


def _newer(definition: Object, name: str) -> str:
    usable = [
        text(each, "name") for each in versions_of(definition) if each.get("served") and not each.get("deprecated")
    ]
    ordered = by_priority([*usable, name])
    return ordered[0] if ordered[0] != name else ""


VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which upstream lists them for custom resources."""


def kinds_of(definition: Object) -> list[ResourceKind]:
    return [_kind(definition, version) for version in versions_of(definition) if version.get("served")]


def _kind(definition: Object, version: Object) -> ResourceKind:
    spec, names = spec_of(definition), names_of(definition)
    resource = Resource(
        group=text(spec, "group"),
        version=text(version, "name"),
        plural=text(names, "plural"),
        kind=text(names, "kind"),
        namespaced=spec.get("scope") == "Namespaced",
    )
    return ResourceKind(
        resource=resource,
        schema_source=cache(partial(schema_of, orjson.dumps(openapi_of(version) or {}))),
        singular=text(names, "singular"),
        short_names=texts(names, "shortNames"),
        categories=texts(names, "categories"),
        verbs=VERBS,
        subresources=("status",) if "status" in subresources_of(version) else (),
        columns=columns_of(version),
        selectable_fields=_selectable(version, namespaced=resource.namespaced),
        custom=True,
        has_generation=True,
        default=(_shape_metadata(resource),),
        prepare=(_refuse_new,) if is_deleting(definition) else (_warn_of_finalizers,),
        validate=(metadata_validator(),),
        deprecation=deprecation_of(definition, version),
        storage_version=storage_version(definition),
    )


@lru_cache(maxsize=SCHEMAS_REMEMBERED)
def schema_of(document: bytes) -> Schema:
    """Return the schema of a resource from its openAPIV3Schema; control planes of one process share it."""
    return from_openapi(orjson.loads(document), metadata=schemas().of_message(OBJECT_META))


def _shape_metadata(resource: Resource) -> Callable[[Object], None]:
    def shape(obj: Object) -> None:
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict):
            return  # the verbs refuse it with their own message
        try:
            shaped = typed().conform(OBJECT_META, metadata)
        except TypeMismatch as misfit:
            head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            raise bad_request(f"{head}: {misfit.message}") from None
        if metadata.get("managedFields") == []:
            shaped["managedFields"] = []  # not absent: it resets all managers
        obj["metadata"] = shaped

    return shape


def _warn_of_finalizers(operation: Operation) -> None:
    known = {*STANDARD_FINALIZERS, *finalizers_of(operation.old or {})}
    for name in finalizers_of(operation.new or {}):
        if "/" not in name and name not in known:
            path = " including a path (/)" if "." in name else ""
            operation.warnings.append(
                f"metadata.finalizers: {quote(name)}: prefer a domain-qualified finalizer name{path} "
                "to avoid accidental conflicts with other finalizer writers"
            )


def _refuse_new(operation: Operation) -> None:
    if operation.verb == "create":
        detail = "create not allowed while custom resource definition is terminating"
        raise forbidden(operation.kind.resource, operation.key.name, detail)


def _selectable(version: Object, *, namespaced: bool) -> Mapping[str, Callable[[Object], str]]:
    paths = [".metadata.name", *([".metadata.namespace"] if namespaced else [])]
    paths.extend(text(field, "jsonPath") for field in objects(version, "selectableFields"))
    return {path.removeprefix("."): _reader(path) for path in paths}


def _reader(path: str) -> Callable[[Object], str]:
    return lambda obj: compared(_first(obj, path))
