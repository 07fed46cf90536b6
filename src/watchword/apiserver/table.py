"""Objects as a table: the columns that `kubectl get` prints, computed by the server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from watchword.api.meta import Object
from watchword.apiserver.errors import bad_request
from watchword.apiserver.model import Column, ResourceKind

_INCLUDE = ("", "None", "Metadata", "Object")


def table(
    kind: ResourceKind,
    objects: Sequence[Object],
    *,
    now: datetime,
    include: str = "Metadata",
    version: str = "v1",
) -> Object:
    """Return the objects as a Table; `include` chooses how much of each object a row contains.

    The caller adds the metadata of the list.
    """
    if include not in _INCLUDE:
        detail = "must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": {detail}'
        )
    api_version = f"meta.k8s.io/{version}"
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": _metadata(objects),
        "columnDefinitions": [_definition(column) for column in kind.columns],
        "rows": [
            {
                "cells": [column.cell(obj, now) for column in kind.columns],
                "object": _included(obj, include or "Metadata", api_version),
            }
            for obj in objects
        ],
    }


def _metadata(objects: Sequence[Object]) -> Object:
    if len(objects) != 1:
        return {}
    return {"resourceVersion": objects[0].get("metadata", {}).get("resourceVersion", "")}


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _included(obj: Object, include: str, api_version: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj.get("metadata", {})}
