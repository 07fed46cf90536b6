"""Objects as the cache keeps them: the bytes that came, read only as far as needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import orjson

from watchword.api.json import trimmed
from watchword.api.meta import Object, ObjectKey, Resource

Projection: TypeAlias = Callable[[Object], Object | None]
"""Returns what is worth keeping of an object; None when nothing is."""


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class ObjectHead(msgspec.Struct, rename="camel", gc=False):
    """What identifies an object, without its content."""

    metadata: _Metadata
    api_version: str = ""
    kind: str = ""

    @property
    def key(self) -> ObjectKey:
        """Return the object's key; namespaces are many times the same, so they share one string."""
        return ObjectKey(sys.intern(self.metadata.namespace), self.metadata.name)

    @property
    def version(self) -> str:
        """Return the object's resourceVersion."""
        return self.metadata.resource_version

    @property
    def labels(self) -> dict[str, str]:
        """Return the object's labels."""
        return self.metadata.labels or {}


_head = msgspec.json.Decoder(ObjectHead)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def head_of(raw: bytes) -> ObjectHead:
    """Read what identifies an object; raises `msgspec.MsgspecError` when nothing does."""
    return _head.decode(raw)


def without_managed_fields(raw: bytes) -> bytes:
    """Return the object without `metadata.managedFields`: often half of it, and of no use to a reader."""
    if b'"managedFields"' not in raw:
        return raw
    fields = _fields.decode(raw)
    metadata = _fields.decode(fields["metadata"])
    metadata.pop("managedFields", None)
    return trimmed(msgspec.json.encode({**fields, "metadata": metadata}))


def projected(raw: bytes, project: Projection) -> bytes | None:
    """Return what the projection keeps of an object, which always has its identity; None for nothing."""
    whole: Object = orjson.loads(raw)
    metadata = whole["metadata"]
    identity = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in metadata}
    kept = project(whole)
    if kept is None:
        return None
    return trimmed(orjson.dumps({**kept, "metadata": {**(kept.get("metadata") or {}), **identity}}))


def metadata_only(obj: Object) -> Object:
    """Keep names, labels, annotations, owners and deletion, and no content: a `Projection`."""
    return {"metadata": obj["metadata"]}


def decode(raw: bytes, resource: Resource) -> Object:
    """Return the whole object; items of a list come without the kind, so it is added."""
    obj: Object = orjson.loads(raw)
    obj.setdefault("apiVersion", resource.api_version)
    obj.setdefault("kind", resource.kind)
    return obj


@dataclass(frozen=True, slots=True)
class Delta:
    """One object before and after a change; decoded only when somebody looks."""

    resource: Resource
    key: ObjectKey
    old_raw: bytes | None
    new_raw: bytes | None

    @property
    def old(self) -> Object | None:
        """The object as it was, or None when it is new."""
        return None if self.old_raw is None else decode(self.old_raw, self.resource)

    @property
    def new(self) -> Object | None:
        """The object as it is, or None when it is gone."""
        return None if self.new_raw is None else decode(self.new_raw, self.resource)


def is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion lies after another; what cannot be compared counts as newer."""
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than
