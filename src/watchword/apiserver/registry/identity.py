"""Checks that a body speaks of the object its URL names."""

from __future__ import annotations

from watchword.api.meta import Object, ObjectKey
from watchword.apiserver.errors import bad_request
from watchword.apiserver.model import ResourceKind


def require_type(kind: ResourceKind, obj: Object) -> None:
    """Fill in or check apiVersion and kind; 400 when they name another kind."""
    resource = kind.resource
    version, name = obj.get("apiVersion"), obj.get("kind")
    if kind.custom and not name:
        raise bad_request("Object 'Kind' is missing in the body")
    if kind.custom and not version:
        raise bad_request("Object 'apiVersion' is missing in the body")
    if name and name != resource.kind:
        raise bad_request(f'{name} in version "{version or ""}" cannot be handled as a {resource.kind}')
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        obj["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise bad_request(f"{resource.kind} cannot be read: metadata must be an object")


def require_namespace(kind: ResourceKind, obj: Object, namespace: str) -> None:
    """Fill in or check the namespace; 400 when it is another than the URL's."""
    metadata = obj["metadata"]
    said = metadata.get("namespace") or ""
    if not kind.resource.namespaced:
        if said:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata.pop("namespace", None)
        return
    if said and said != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def require_name(obj: Object, key: ObjectKey) -> None:
    """Check the name; 400 when it is another than the URL's."""
    said = obj["metadata"].get("name") or ""
    if not said:
        obj["metadata"]["name"] = key.name
    elif said != key.name:
        raise bad_request(f"the name of the object ({said}) does not match the name on the URL ({key.name})")
