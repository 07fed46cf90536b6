"""One small kind with every way of owning fields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from watchword.api.json import copy_json
from watchword.api.meta import Object
from watchword.apiserver.kinds.from_openapi import from_openapi
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving.apply import apply
from watchword.apiserver.serving.managed_fields import track_update

TEXT = {"type": "string"}
OPENAPI = {
    "type": "object",
    "properties": {
        "status": {"type": "object", "properties": {"phase": TEXT}},
        "spec": {
            "type": "object",
            "properties": {
                "s": TEXT,
                "t": TEXT,
                "map": {"type": "object", "additionalProperties": TEXT},
                "obj": {"type": "object", "properties": {"x": TEXT, "y": TEXT}},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"p": TEXT, "q": TEXT}},
                "list": {"type": "array", "items": TEXT},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": TEXT, "v": TEXT}},
                },
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
    },
}
MAP_OF_TEXT = Schema("object", additional=Schema("string"))
METADATA = Schema(
    "object",
    properties={
        **{key: Schema("string") for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")},
        "generation": Schema("integer"),
        "labels": MAP_OF_TEXT,
        "annotations": MAP_OF_TEXT,
        "finalizers": Schema("array", items=Schema("string"), list_type="set"),
        "managedFields": Schema("array", items=Schema("any", preserve_unknown=True)),
    },
)
SCHEMA = from_openapi(OPENAPI, metadata=METADATA)


def a_thing(spec: Any = None, **metadata: Any) -> Object:
    thing: Object = {"apiVersion": "ex.com/v1", "kind": "Thing", "metadata": {"name": "a", **metadata}}
    return thing if spec is None else {**thing, "spec": spec}


class FieldManagerHarness:
    """Plays requests of several managers on one object, a second apart."""

    def __init__(self) -> None:
        self.live: Object | None = None
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def apply(self, manager: str, spec: Any = None, *, force: bool = False, **metadata: Any) -> Object:
        self.now += timedelta(seconds=1)
        self.live = apply(self.live, a_thing(spec, **metadata), SCHEMA, manager=manager, force=force, now=self.now)
        return self.live

    def update(self, manager: str, spec: Any = None, *, subresource: str = "", **fields: Any) -> Object:
        self.now += timedelta(seconds=1)
        new = copy_json(self.live) if self.live is not None else a_thing()
        if spec is not None:
            new["spec"] = spec
        new["metadata"].update(fields.pop("metadata", {}))
        new.update(fields)
        track_update(
            self.live, new, SCHEMA, manager=manager, api_version="ex.com/v1", now=self.now, subresource=subresource
        )
        self.live = new
        return new

    def entries(self) -> list[Object]:
        """Return managedFields as stored."""
        assert self.live is not None
        entries: list[Object] = self.live["metadata"].get("managedFields", [])
        return entries

    def owned(self) -> dict[str, Any]:
        """Return what each manager owns; updaters carry an exclamation mark."""
        return {
            entry["manager"] + ("!" if entry["operation"] == "Update" else ""): entry["fieldsV1"]
            for entry in self.entries()
        }
