"""What every Kubernetes object has: resource, key, owners, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from msgspec import Struct

Object: TypeAlias = dict[str, Any]
"""One Kubernetes object, decoded from JSON. Readers of a cache treat it as read-only."""


class ObjectKey(Struct, frozen=True, order=True):
    """Namespace and name; the namespace is empty for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> ObjectKey:
        metadata = obj.get("metadata") or {}
        return cls(metadata.get("namespace") or "", metadata.get("name") or "")

    @classmethod
    def cluster(cls, name: str) -> ObjectKey:
        return cls("", name)


class Resource(Struct, frozen=True):
    """One served resource: its place in the API and its kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`plural.group` as Kubernetes prints it in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, key: ObjectKey | None = None, *, namespace: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, one object or its subresource.

        Every segment is percent-encoded, so that a name cannot lead out of the path.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if key is not None:
            namespace = key.namespace
        parts = [root]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{_segment(namespace)}")
        parts.append(self.plural)
        if key is not None:
            parts.append(_segment(key.name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def manifest(self, key: ObjectKey, **fields: Any) -> Object:
        metadata: Object = {"name": key.name}
        if self.namespaced and key.namespace:
            metadata["namespace"] = key.namespace
        metadata.update(fields.pop("metadata", {}))
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}


def _segment(name: str) -> str:
    """Return a name as one segment of a path; names of letters, digits and dashes need no encoding."""
    return name if name.isascii() and name.replace("-", "").isalnum() else quote(name, safe="")


class ObjectRef(Struct, frozen=True, cache_hash=True):
    """One object of an API server."""

    resource: Resource
    key: ObjectKey

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return self.resource.group, self.resource.plural, self.key.namespace, self.key.name

    def __str__(self) -> str:
        return f"{self.resource.group_resource} {self.key}"


def mapping_at(obj: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path of field names, empty when there is none: objects come from other writers."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, (dict, Mapping)) else None
    return obj if isinstance(obj, (dict, Mapping)) else {}  # dict first: asking an abstract class costs a microsecond


def list_at(obj: Any, *path: str) -> list[Any]:
    found = mapping_at(obj, *path[:-1]).get(path[-1])
    return found if isinstance(found, list) else []


def rows_at(obj: Any, *path: str) -> list[Object]:
    """Return the mappings in the list at a path of field names."""
    return [row for row in list_at(obj, *path) if isinstance(row, dict)]


Manifest: TypeAlias = tuple[Resource, Object]
"""An object to apply, with its resource."""


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the object's UID, empty when it was never stored."""
    return str((obj.get("metadata") or {}).get("uid") or "")


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def finalizers_of(obj: Mapping[str, Any]) -> list[str]:
    return (obj.get("metadata") or {}).get("finalizers") or []


def is_deleting(obj: Mapping[str, Any]) -> bool:
    """Whether the object is being deleted and only finalizers keep it."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def is_owned_by(obj: Mapping[str, Any], uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in rows_at(obj, "metadata", "ownerReferences"))


def owner_reference(owner: Mapping[str, Any], *, controller: bool = False, block: bool = False) -> Object:
    reference: Object = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    if controller:
        reference["controller"] = True
    if block:
        reference["blockOwnerDeletion"] = True
    return reference
