"""What several parts of an agent follow, named once, so that it is watched once."""

from __future__ import annotations

from watchword.api.meta import ObjectKey
from watchword.api.names import Label
from watchword.runtime.informer import WatchScope


def single_object_scope(key: ObjectKey) -> WatchScope:
    """Return the scope of one object."""
    return WatchScope(key.namespace, fields=f"metadata.name={key.name}")


def csr_scope(cluster: str) -> WatchScope:
    """Return the scope of the certificate requests of a cluster and of its add-ons."""
    return WatchScope(labels=f"{Label.CLUSTER_NAME}={cluster}")
