"""Objects as the cache stores them: raw bytes, decoded only as far as needed."""

import sys
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import msgspec
import orjson
from msgspec import Struct

from watchword.api.json import trimmed
from watchword.api.meta import Object, ObjectKey, Resource, mapping_at, uid_of

Projection: TypeAlias = Callable[[Object], Object | None]
"""Returns the part of an object that the cache keeps; None to drop it."""


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class ObjectHead(msgspec.Struct, rename="camel", gc=False):
    """The metadata that identifies an object."""

    metadata: _Metadata
    api_version: str = ""
    kind: str = ""

    @property
    def key(self) -> ObjectKey:
        """Return the object's key; equal namespaces share one string."""
        return ObjectKey(sys.intern(self.metadata.namespace), self.metadata.name)

    @property
    def version(self) -> str:
        return self.metadata.resource_version

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}


_head = msgspec.json.Decoder(ObjectHead)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def head_of(raw: bytes) -> ObjectHead:
    """Decode what identifies an object; raises `msgspec.MsgspecError` when that is impossible."""
    return _head.decode(raw)


def without_managed_fields(raw: bytes) -> bytes:
    """Return the object without `metadata.managedFields`, which is often half of it and not needed by readers."""
    if b'"managedFields"' not in raw:
        return raw
    fields = _fields.decode(raw)
    metadata = _fields.decode(fields["metadata"])
    metadata.pop("managedFields", None)
    return trimmed(msgspec.json.encode({**fields, "metadata": metadata}))


def projected(raw: bytes, project: Projection) -> bytes | None:
    """Return what the projection keeps of an object, always with its identity; None to drop it, as without a name."""
    whole: Object = orjson.loads(raw)
    metadata = mapping_at(whole, "metadata")
    identity = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in metadata}
    kept = project(whole) if "name" in identity else None
    if kept is None:
        return None
    return trimmed(orjson.dumps({**kept, "metadata": {**(kept.get("metadata") or {}), **identity}}))


def metadata_only(obj: Object) -> Object:
    """Keep names, labels, annotations, owners and deletion, but no content: a `Projection`."""
    return {"metadata": obj["metadata"]}


def decode(raw: bytes, resource: Resource) -> Object:
    """Return the decoded object; items of a list lack the kind, so it is added."""
    obj: Object = orjson.loads(raw)
    obj.setdefault("apiVersion", resource.api_version)
    obj.setdefault("kind", resource.kind)
    return obj


Facts: TypeAlias = Callable[[Object], object]
"""Returns what a controller reads of an object, to be compared."""


class Delta(Struct, frozen=True, dict=True):
    """One object before and after a change; decoded once for all handlers, which must not change it."""

    resource: Resource
    key: ObjectKey
    old_raw: bytes | None
    new_raw: bytes | None

    @cached_property
    def old(self) -> Object | None:
        return None if self.old_raw is None else decode(self.old_raw, self.resource)

    @cached_property
    def new(self) -> Object | None:
        return None if self.new_raw is None else decode(self.new_raw, self.resource)

    def changes(self, facts: Facts) -> bool:
        """Whether the facts differ before and after; always True for an object that is new, gone or another one."""
        if facts not in self._compared:
            self._compared[facts] = self._differ(facts)
        return self._compared[facts]

    @cached_property
    def _compared(self) -> dict[Facts, bool]:
        return {}

    def _differ(self, facts: Facts) -> bool:
        if self.old is None or self.new is None or uid_of(self.old) != uid_of(self.new):
            return True
        try:
            return facts(self.old) != facts(self.new)
        except Exception:  # noqa: BLE001 - an unexpected object: its reconcile reports what is wrong with it
            return True


def is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion lies after another; values that cannot be compared count as newer."""
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than
