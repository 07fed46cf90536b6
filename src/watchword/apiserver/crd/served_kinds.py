"""The kinds that a CustomResourceDefinition adds, one for each version it serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import Any

import orjson

from watchword.api.jsonpath import JsonPathError, find
from watchword.api.meta import Object, Resource, finalizers_of, is_deleting
from watchword.apiserver.crd.columns import columns_of
from watchword.apiserver.crd.definition import (
    SCHEMAS_REMEMBERED,
    names_of,
    objects,
    openapi_of,
    spec_of,
    storage_version,
    subresources_of,
    text,
    texts,
    versions_of,
)
from watchword.apiserver.crd.deprecation import deprecation_of
from watchword.apiserver.crd.scale_validation import scale_validator
from watchword.apiserver.errors import bad_request, forbidden, quote
from watchword.apiserver.kinds.messages import schemas, typed
from watchword.apiserver.kinds.metadata import metadata_validator
from watchword.apiserver.kinds.scalars import TypeMismatch
from watchword.apiserver.kinds.schemas import OBJECT_META
from watchword.apiserver.model import Operation, ResourceKind
from watchword.apiserver.schema.from_openapi import from_openapi
from watchword.apiserver.schema.model import Schema

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which upstream lists them for custom resources."""


def kinds_of(definition: Object) -> list[ResourceKind]:
    """Return one kind for each served version of a valid definition."""
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
    scale_paths = _scale_paths(subresources_of(version).get("scale"))
    return ResourceKind(
        resource=resource,
        schema_source=cache(partial(schema_of, orjson.dumps(openapi_of(version) or {}))),
        singular=text(names, "singular"),
        short_names=texts(names, "shortNames"),
        categories=texts(names, "categories"),
        verbs=VERBS,
        subresources=tuple(name for name in ("status", "scale") if name in subresources_of(version)),
        scale_paths=scale_paths,
        columns=columns_of(version),
        selectable_fields=_selectable(version, namespaced=resource.namespaced),
        custom=True,
        has_generation=True,
        default=(_shape_metadata(resource),),
        prepare=(_refuse_new,) if is_deleting(definition) else (_warn_of_finalizers,),
        validate=(metadata_validator(), *scale_validator(scale_paths)),
        deprecation=deprecation_of(definition, version),
        storage_version=storage_version(definition),
    )


@lru_cache(maxsize=SCHEMAS_REMEMBERED)
def schema_of(document: bytes) -> Schema:
    """Return the schema of a resource from its openAPIV3Schema; control planes of one process share it."""
    return from_openapi(orjson.loads(document), metadata=schemas().of_message(OBJECT_META))


def _scale_paths(scale: Object | None) -> tuple[str, str, str] | None:
    if scale is None:
        return None
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    wanted, observed, selector = (text(scale, name).removeprefix(".") for name in names)
    return wanted, observed, selector


def _shape_metadata(resource: Resource) -> Callable[[Object], None]:
    """Return the hook that gives metadata the shape it has everywhere, or refuses it as a typed server does."""

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
    known = {*_KUBERNETES_FINALIZERS, *finalizers_of(operation.old or {})}
    for name in finalizers_of(operation.new or {}):
        if "/" not in name and name not in known:
            path = " including a path (/)" if "." in name else ""
            operation.warnings.append(
                f"metadata.finalizers: {quote(name)}: prefer a domain-qualified finalizer name{path} "
                "to avoid accidental conflicts with other finalizer writers"
            )


_KUBERNETES_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")


def _refuse_new(operation: Operation) -> None:
    if operation.verb == "create":
        detail = "create not allowed while custom resource definition is terminating"
        raise forbidden(operation.kind.resource, operation.key.name, detail)


def _selectable(version: Object, *, namespaced: bool) -> Mapping[str, Callable[[Object], str]]:
    paths = [".metadata.name", *([".metadata.namespace"] if namespaced else [])]
    paths.extend(text(field, "jsonPath") for field in objects(version, "selectableFields"))
    return {path.removeprefix("."): _reader(path) for path in paths}


def _reader(path: str) -> Callable[[Object], str]:
    def read(obj: Object) -> str:
        try:
            found = find(obj, path)
        except JsonPathError:
            return ""
        return _compared(found[0]) if found else ""

    return read


def _compared(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
