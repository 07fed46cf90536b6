"""Checks that a body describes the object that its URL names."""

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.apiserver.errors import bad_request, invalid_kind
from watchword.apiserver.field_errors import invalid
from watchword.apiserver.model import ResourceKind


def require_type(kind: ResourceKind, obj: Object) -> None:
    """Fill in or check apiVersion and kind; 400 when they name another kind."""
    resource = kind.resource
    version, name = obj.get("apiVersion"), obj.get("kind")
    if kind.custom and not name:
        raise bad_request("Object 'Kind' is missing in the body")
    if kind.custom and not version:
        raise bad_request("Object 'apiVersion' is missing in the body")
    if version and version != resource.api_version:
        raise bad_request(_wrong_version(kind, str(version), str(name or resource.kind)))
    if name and name != resource.kind:
        if kind.custom:
            said = str((obj.get("metadata") or {}).get("name") or "")
            raise invalid_kind(resource.group, str(name), said, [invalid("kind", name, f"must be {resource.kind}")])
        raise bad_request(
            f'{name} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"converting ({resource.version}.{name}) to ({_package(resource)}.{resource.kind}): unknown conversion"
        )
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        obj["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise bad_request(f"{resource.kind} cannot be read: metadata must be an object")


def _wrong_version(kind: ResourceKind, version: str, name: str) -> str:
    resource = kind.resource
    if kind.custom:
        return (
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    return f'{name} in version "{version}" cannot be handled as a {resource.kind}: {unregistered(version, name)}'


def unregistered(version: str, name: str) -> str:
    return f'no kind "{name}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'


def _package(resource: Resource) -> str:
    return resource.group.partition(".")[0] or "core"


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
    """Check the name; 400 when it is missing or another than the URL's."""
    said = obj["metadata"].get("name") or ""
    if not said:
        raise bad_request(f"the name of the object ({key.name} based on URL) was undeterminable: name must be provided")
    if said != key.name:
        raise bad_request(f"the name of the object ({said}) does not match the name on the URL ({key.name})")
