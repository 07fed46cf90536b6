"""Which object or collection of the hub's API a request is about."""

from __future__ import annotations

from urllib.parse import unquote

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.selectors import LabelSelector, SelectorError, parse_field_selector, parse_label_selector
from watchword.registration.grpc.client.channel_errors import make_refusal


class RequestTarget(Struct, frozen=True):
    """The parts of a path; those that it does not have are empty."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> ObjectKey:
        """The key of the object."""
        return ObjectKey(self.namespace, self.name)

    def __str__(self) -> str:
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{resource}/{self.subresource}" if self.subresource else resource


def parse_target(path: str) -> RequestTarget | None:
    """Read a path; None when it is not that of a resource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = [*rest, "", "", ""]
    return None if any(more[:-2]) else RequestTarget(group, version, plural, namespace, name, subresource)


class ObjectFilter(Struct, frozen=True):
    """Which objects of a collection a request is about."""

    namespace: str
    name: str  # empty: any
    labels: LabelSelector

    @classmethod
    def read(cls, target: RequestTarget, labels: str, fields: str) -> ObjectFilter:
        """Read the selectors of a request; a refusal when they select by anything but name and labels."""
        try:
            names = parse_field_selector(fields)
            if any(each.path != "metadata.name" or each.negated for each in names):
                raise SelectorError("over gRPC, objects are selected by metadata.name and by labels alone")
            return cls(target.namespace, names[0].value if names else "", parse_label_selector(labels))
        except SelectorError as cause:
            raise make_refusal(400, "BadRequest", str(cause)) from cause

    def matches(self, obj: Object) -> bool:
        """Whether an object is selected."""
        key = ObjectKey.of(obj)
        placed = self.namespace in ("", key.namespace) and self.name in ("", key.name)
        return placed and self.labels.matches(labels_of(obj))
