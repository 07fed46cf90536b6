"""What several parts of an agent follow, named once, so that it is watched once."""

from __future__ import annotations

from watchword.api.meta import ObjectKey
from watchword.api.names import Label
from watchword.runtime.informer import Scope


def only(key: ObjectKey) -> Scope:
    """Return the scope of one object."""
    return Scope(key.namespace, fields=f"metadata.name={key.name}")


def requests_of(cluster: str) -> Scope:
    """Return the scope of the certificate requests of a cluster and of its add-ons."""
    return Scope(labels=f"{Label.CLUSTER_NAME}={cluster}")
