"""What is served below an object: its kind and its verbs."""

from __future__ import annotations

from msgspec import Struct

from watchword.apiserver.model import ResourceKind


class Subresource(Struct, frozen=True):
    """One subresource; an empty kind is the parent's."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


_CHANGE = ("get", "patch", "update")
_KNOWN = {
    each.name: each
    for each in (
        Subresource("approval", _CHANGE),
        Subresource("binding", ("create",), kind="Binding"),
        Subresource("ephemeralcontainers", _CHANGE),
        Subresource("eviction", ("create",), "policy", "v1", "Eviction"),
        Subresource("finalize", ("update",)),
        Subresource("log", ("get",)),
        Subresource("scale", _CHANGE, "autoscaling", "v1", "Scale"),
        Subresource("status", _CHANGE),
        Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    )
}


def subresources_of(kind: ResourceKind) -> list[Subresource]:
    """Return the subresources of a kind by name."""
    return [_KNOWN.get(name, Subresource(name, _CHANGE)) for name in sorted(kind.subresources)]
