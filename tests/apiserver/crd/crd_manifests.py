"""Definitions to begin with, and to bend."""

from __future__ import annotations

from typing import Any

from watchword.api.meta import Object


def a_definition(**spec: Any) -> Object:
    """Return a small valid definition, with fields of its spec replaced."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.ex.com"},
        "spec": {
            "group": "ex.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [a_version()],
            "conversion": {"strategy": "None"},
            **spec,
        },
        "status": {"storedVersions": ["v1"]},
    }


def a_version(openapi: Any = None, **fields: Any) -> Object:
    """Return one version, with its schema and fields replaced."""
    schema = {"openAPIV3Schema": {"type": "object"} if openapi is None else openapi}
    return {"name": "v1", "served": True, "storage": True, "schema": schema, **fields}


def with_field(schema: Any) -> Object:
    """Return a definition whose objects have one field, `a`."""
    return a_definition(versions=[a_version({"type": "object", "properties": {"a": schema}})])


def with_version(**fields: Any) -> Object:
    """Return a definition whose version has these fields."""
    return a_definition(versions=[a_version(**fields)])


def with_names(**names: Any) -> Object:
    """Return a definition with these names replaced."""
    definition = a_definition()
    definition["spec"]["names"].update(names)
    return definition
