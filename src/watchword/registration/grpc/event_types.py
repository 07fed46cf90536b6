"""The types of events: which kind of object, which part of it, and what to do with it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from watchword.api.meta import Resource
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from watchword.registration.grpc.errors import UnknownEventType

HEARTBEAT = "io.open-cluster-management.cloudevents.heartbeat"
"""The type of the event that shows that a stream is alive; it contains nothing."""

_LONGEST_TYPE = 256


class DataType(StrEnum):
    """The kinds of objects that travel, by the names that Open Cluster Management publishes."""

    MANAGED_CLUSTER = "cluster.open-cluster-management.io.v1.managedclusters"
    ADDON = "addon.open-cluster-management.io.v1beta1.managedclusteraddons"
    ADDON_V1ALPHA1 = "addon.open-cluster-management.io.v1alpha1.managedclusteraddons"
    CERTIFICATE_REQUEST = "certificates.k8s.io.v1.certificatesigningrequests"
    LEASE = "coordination.k8s.io.v1.leases"
    EVENT = "events.k8s.io.v1.events"
    TOKEN_REQUEST = "authentication.k8s.io.v1.tokenrequests"  # noqa: S105 - the name of a kind
    MANIFEST_BUNDLE = "io.open-cluster-management.works.v1alpha1.manifestbundles"


class SubResource(StrEnum):
    """Which part of an object an event contains."""

    SPEC = "spec"
    STATUS = "status"


class Action(StrEnum):
    """What is to be done."""

    CREATE = "create_request"
    UPDATE = "update_request"
    DELETE = "delete_request"
    WATCH = "watch_request"
    RESYNC_REQUEST = "resync_request"
    RESYNC_RESPONSE = "resync_response"


RESOURCES: dict[DataType, Resource] = {
    DataType.MANAGED_CLUSTER: MANAGED_CLUSTERS,
    DataType.ADDON: MANAGED_CLUSTER_ADDONS,
    DataType.ADDON_V1ALPHA1: Resource(
        MANAGED_CLUSTER_ADDONS.group, "v1alpha1", MANAGED_CLUSTER_ADDONS.plural, MANAGED_CLUSTER_ADDONS.kind
    ),
    DataType.CERTIFICATE_REQUEST: CERTIFICATE_SIGNING_REQUESTS,
    DataType.LEASE: LEASES,
    DataType.EVENT: EVENTS,
    DataType.MANIFEST_BUNDLE: MANIFEST_WORKS,
}
"""What the hub's API server serves for a data type; a TokenRequest is a subresource of a ServiceAccount."""


class EventType(Struct, frozen=True):
    """The type of one event."""

    data_type: DataType
    subresource: SubResource
    action: Action

    def __str__(self) -> str:
        return f"{self.data_type}.{self.subresource}.{self.action}"

    @classmethod
    def parse(cls, text: str) -> EventType:
        """Read the type of an event; `UnknownEventType` when any part of it is unknown."""
        parts = text.rsplit(".", 2) if len(text) <= _LONGEST_TYPE else []
        if len(parts) != 3:
            raise UnknownEventType("the type of the event is not <data type>.<subresource>.<action>")
        data_type = parse_data_type(parts[0])
        try:
            return cls(data_type, SubResource(parts[1]), Action(parts[2]))
        except ValueError as cause:
            raise UnknownEventType(
                f"the subresource or the action of an event for {data_type} is unknown: send an event that "
                "the protocol defines"
            ) from cause


def parse_data_type(text: str) -> DataType:
    """Read a data type; `UnknownEventType` when there is none of that name."""
    try:
        return DataType(text)
    except ValueError as cause:
        known = ", ".join(DataType)
        raise UnknownEventType(f"the data type is unknown: choose one of {known}") from cause
