"""Turns manifest bundles into ManifestWorks, and the status of a work into events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import orjson

from watchword.api.meta import Object, finalizers_of, is_deleting, uid_of
from watchword.api.names import Finalizer
from watchword.registration.grpc.client.object_events import ObjectCodec, Publication
from watchword.registration.grpc.cloud_events import Attribute, AttributeValue, CloudEvent
from watchword.registration.grpc.errors import MalformedEvent
from watchword.registration.grpc.event_types import DataType, EventType

SOURCE = "kube"
DELETED = "Deleted"
_FIELDS = {"deleteOption": "deleteOption", "manifestConfigs": "manifestConfigs", "executer": "executor"}


class WorkCodec(ObjectCodec, frozen=True):
    """Reads the spec of works and writes their status: the two travel apart, and the version is the generation."""

    data_type: DataType = DataType.MANIFEST_BUNDLE
    sequence: Callable[[], int] = time.time_ns  # grows from one status to the next, over restarts, too

    @property
    def returns_writes(self) -> bool:
        """Whether the hub sends a work again after the agent wrote its status."""
        return False

    def read_object(self, event: CloudEvent) -> Object | None:
        """Return the work in an event, None when the event only names it."""
        text = event.text(Attribute.METADATA)
        if not text:
            return None
        work: Object = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        work["metadata"] = self._metadata(event, text)
        if not event.data:
            return work
        bundle = event.json()
        spec: Object = {"workload": {"manifests": bundle.get("manifests") or []}}
        spec |= {name: bundle[field] for field, name in _FIELDS.items() if bundle.get(field) is not None}
        status = bundle.get("status")  # OCM's server does not send it
        return {**work, "spec": spec, **({"status": status} if isinstance(status, dict) else {})}

    def merge(self, stored: Object, received: Object) -> Object:
        """Keep the status, which only this agent writes, and the spec of a work whose deletion came without it."""
        merged = {**received, "spec": received.get("spec", stored.get("spec", {}))}
        return {**merged, "status": stored["status"]} if "status" in stored else merged

    def _metadata(self, event: CloudEvent, text: str) -> Object:
        try:
            metadata = orjson.loads(text)
        except orjson.JSONDecodeError as cause:
            raise MalformedEvent("the metadata of the work is not JSON") from cause
        if not isinstance(metadata, dict):
            raise MalformedEvent("the metadata of the work is not a JSON object")
        uid = event.text(Attribute.RESOURCE_ID) or str(metadata.get("uid") or "")
        kept = {name: value for name, value in metadata.items() if name != "managedFields"}
        return {
            **kept,
            "name": str(metadata.get("name") or uid),
            "namespace": event.text(Attribute.CLUSTER_NAME),
            "uid": uid,
            "generation": event.number(Attribute.RESOURCE_VERSION),
        }

    def read_version(self, event: CloudEvent, found: Object | None) -> str:
        """Return the generation: a work has no other version on the way."""
        return str(event.extensions.get(Attribute.RESOURCE_VERSION, "")) if found is not None else ""

    def encode(self, type_: EventType, obj: Object, extensions: Mapping[str, AttributeValue]) -> Publication:
        """Return the status of a work; that its objects are gone is a condition of its own."""
        metadata = obj["metadata"]
        status = obj.get("status") or {}
        rows = list(status.get("conditions") or ())
        if is_deleting(obj) and Finalizer.MANIFEST_WORK not in finalizers_of(obj):
            rows.append(_deleted(metadata))
        manifests = (status.get("resourceStatus") or {}).get("manifests") or []
        data = {"conditions": rows, "resourceStatus": manifests}
        known: dict[str, AttributeValue] = {
            Attribute.RESOURCE_ID: uid_of(obj),
            Attribute.RESOURCE_VERSION: int(metadata.get("generation") or 0),
            Attribute.SEQUENCE_ID: str(self.sequence()),
            Attribute.ORIGINAL_SOURCE: SOURCE,
            Attribute.STATUS_HASH: sha256(orjson.dumps(data)).hexdigest(),
            Attribute.METADATA: orjson.dumps(_without_version(metadata)).decode(),
        }
        return Publication(str(type_), {**extensions, **known}, data)


def _deleted(metadata: Mapping[str, Any]) -> Object:
    return {
        "type": DELETED,
        "status": "True",
        "reason": "ManifestsDeleted",
        "message": f"The manifests are deleted from the cluster {metadata.get('namespace')}",
        "lastTransitionTime": metadata.get("deletionTimestamp"),
    }


def _without_version(metadata: Mapping[str, Any]) -> Object:
    return {name: value for name, value in metadata.items() if name != "resourceVersion"}
