"""Reads a CustomResourceDefinition, which may be invalid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from watchword.api.json import same_json
from watchword.api.meta import Object

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
API_APPROVED: Final = "api-approved.kubernetes.io"
SCHEMAS_REMEMBERED: Final = 256
"""So many documents are read and validated once per process: most control planes are given the same ones."""


def spec_of(definition: Object) -> Object:
    """Return the spec, empty when there is none."""
    return _object(definition.get("spec"))


def names_of(definition: Object) -> Object:
    """Return the names that the definition requests."""
    return _object(spec_of(definition).get("names"))


def versions_of(definition: Object) -> list[Object]:
    """Return the versions in their order."""
    said = spec_of(definition).get("versions")
    return [version for version in said if isinstance(version, dict)] if isinstance(said, list) else []


def openapi_of(version: Object) -> Object | None:
    """Return the openAPIV3Schema of a version."""
    said = _object(version.get("schema")).get("openAPIV3Schema")
    return said if isinstance(said, dict) else None


def storage_version(definition: Object) -> str:
    """Return the name of the version that objects are stored in."""
    return next((text(version, "name") for version in versions_of(definition) if version.get("storage")), "")


def status_of(definition: Object) -> Object:
    """Return the status, empty when there is none."""
    return _object(definition.get("status"))


def subresources_of(version: Object) -> Object:
    """Return the subresources of a version."""
    return _object(version.get("subresources"))


def objects(container: Object, key: str) -> list[Object]:
    """Return the objects of a list."""
    said = container.get(key)
    return [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []


def text(container: Object, key: str) -> str:
    """Return a text, empty when it is not one."""
    said = container.get(key)
    return said if isinstance(said, str) else ""


def texts(container: Object, key: str) -> tuple[str, ...]:
    """Return the texts of a list."""
    said = container.get(key)
    return tuple(item for item in said if isinstance(item, str)) if isinstance(said, list) else ()


def places(definition: Object, key: str, shared: str) -> Iterator[tuple[str, Object]]:
    """Yield each version with the path for error messages.

    Kubernetes moves a field that all versions share to the spec, and error messages name it there.
    """
    versions = versions_of(definition)
    values = [version.get(key) for version in versions]
    if values and all(value and same_json(value, values[0]) for value in values):
        yield f"spec.{shared}", versions[0]
        return
    for index, version in enumerate(versions):
        yield f"spec.versions[{index}].{key}", version


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}
