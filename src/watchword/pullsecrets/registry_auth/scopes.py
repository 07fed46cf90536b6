"""What a registry client asks for, and the right in Kubernetes that allows it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from watchword.api.meta import ObjectKey, Resource
from watchword.kube.access_reviews import ResourceAccess

IMAGE_STREAMS = Resource("image.openshift.io", "v1", "imagestreams", "ImageStream")
"""The resource in whose `layers` subresource OpenShift expresses the rights to images.

RBAC needs no such resource to be served, so the roles system:image-puller and system:image-pusher work everywhere.
"""

VERBS = {"pull": "get", "push": "update", "delete": "delete"}
MAXIMUM_SCOPES = 32
REPOSITORY = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+", re.ASCII)


class Scope(Struct, frozen=True):
    """Actions on one resource of a registry."""

    type: str
    name: str
    actions: tuple[str, ...]

    def claim(self) -> dict[str, object]:
        """Return it as the `access` claim of a registry token has it."""
        return {"type": self.type, "name": self.name, "actions": list(self.actions)}


def parse_scopes(values: Iterable[str]) -> list[Scope]:
    """Read the scope parameters; several may stand in one, separated by spaces. Unreadable ones ask for nothing."""
    words = [word for value in values for word in value.split()][:MAXIMUM_SCOPES]
    return [scope for word in words if (scope := _parse(word)) is not None]


def required_access(scope: Scope, action: str) -> ResourceAccess | None:
    """Return the right that an action needs; None when no right allows it.

    The first part of a repository's name is the namespace, the rest is the image stream.
    """
    if scope.type != "repository" or action not in VERBS or not REPOSITORY.fullmatch(scope.name):
        return None
    namespace, _, name = scope.name.partition("/")
    return ResourceAccess(VERBS[action], IMAGE_STREAMS, ObjectKey(namespace, name), "layers")


def _parse(word: str) -> Scope | None:
    kind, _, rest = word.partition(":")
    name, _, actions = rest.rpartition(":")  # a name may hold the port of its registry
    if not kind or not name:
        return None
    named = tuple(dict.fromkeys(action for action in actions.split(",") if action))
    return Scope(kind, name, tuple(VERBS) if named == ("*",) else named)
