"""Collects what a hub needs to be restored on this cluster or on another one."""

from collections.abc import Iterable
from datetime import datetime

import orjson
from msgspec import Struct

from watchword.accounts.grants import GRANTS
from watchword.admin.apply import list_if_served
from watchword.admin.backup_archive import Backup, BackupContent, BackupHeader, Subject
from watchword.admin.errors import InvalidInput
from watchword.api import resources
from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.bootstrap import TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, annotations_of, is_deleting, labels_of
from watchword.api.names import HUB_NAMESPACE
from watchword.api.pull_secrets import SERVICE_ACCOUNT_TOKEN_TYPE
from watchword.kube.client import Client
from watchword.registration.hub.cluster_rbac import PREFIX

OBJECTS_FILE = "objects.json"
FLEET_KINDS: tuple[Resource, ...] = (
    resources.CLUSTER_MANAGERS,
    resources.MANAGED_CLUSTER_SETS,
    resources.MANAGED_CLUSTERS,
    resources.MANAGED_CLUSTER_SET_BINDINGS,
    resources.ADDON_DEPLOYMENT_CONFIGS,
    resources.ADDON_TEMPLATES,
    resources.CLUSTER_MANAGEMENT_ADDONS,
    resources.MANAGED_CLUSTER_ADDONS,
    resources.MANIFEST_WORKS,
    *ACCOUNT_KINDS,
)
"""Kinds whose objects are all in a backup, in the order in which they can be restored."""
SAVED_KINDS: tuple[Resource, ...] = (
    resources.NAMESPACES,
    resources.LEASES,
    resources.SECRETS,
    resources.CONFIG_MAPS,
    *FLEET_KINDS,
)
_SYSTEM_FIELDS = ("apiVersion", "kind", "metadata", "status")


class HubBackup(Struct, frozen=True):
    """Reads a hub. Tokens of managed service accounts are left out: agents write new ones."""

    client: Client

    async def run(self, now: datetime) -> Backup:
        """Return the backup; `InvalidInput` when the cluster is no hub."""
        fleet = [row for kind in FLEET_KINDS for row in await self._all_of(kind)]
        if not any(kind is resources.MANAGED_CLUSTERS or kind is resources.CLUSTER_MANAGERS for kind, _ in fleet):
            raise InvalidInput("this cluster is not a hub: choose the hub with --kubeconfig or --context")
        rows = [*await self._hub_state(), *fleet]
        rows = [*await self._namespaces(rows), *rows]
        objects = [clean(obj, kind) for kind, obj in rows]
        header = BackupHeader(Subject.HUB, now, (BackupContent("hub", len(objects)),))
        return Backup(header, {OBJECTS_FILE: orjson.dumps(objects)})

    async def _all_of(self, kind: Resource, namespace: str = "", fields: str = "") -> list[Manifest]:
        found = await list_if_served(self.client, kind, namespace=namespace, fields=fields)
        return [(kind, obj) for obj in found if not is_deleting(obj) and not is_derived(kind, obj)]

    async def _hub_state(self) -> list[Manifest]:
        """Return the join tokens, the keys of the hub's servers, the grants, and the names of deleted clusters."""
        tokens = await self._all_of(resources.SECRETS, TOKEN_SECRET_NAMESPACE, f"type={TOKEN_SECRET_TYPE}")
        secrets = await self._all_of(resources.SECRETS, HUB_NAMESPACE)
        grants = await self.client.find(resources.CONFIG_MAPS, GRANTS)
        leases = await self._all_of(resources.LEASES, HUB_NAMESPACE)
        return [
            *(row for row in leases if row[1]["metadata"]["name"].startswith(PREFIX)),
            *tokens,
            *secrets,
            *([(resources.CONFIG_MAPS, grants)] if grants is not None else []),
        ]

    async def _namespaces(self, rows: Iterable[Manifest]) -> list[Manifest]:
        names = sorted({ObjectKey.of(obj).namespace for _, obj in rows} - {"", "kube-system", "default"})
        found = [await self.client.find(resources.NAMESPACES, ObjectKey.cluster(name)) for name in names]
        return [(resources.NAMESPACES, obj) for obj in found if obj is not None and not is_deleting(obj)]


def is_derived(kind: Resource, obj: Object) -> bool:
    """Whether a controller makes the object anew: the works of add-ons, and tokens of ServiceAccounts."""
    if kind is resources.MANIFEST_WORKS:
        return bool(obj["metadata"].get("ownerReferences"))
    return kind is resources.SECRETS and obj.get("type") == SERVICE_ACCOUNT_TOKEN_TYPE


def clean(obj: Object, kind: Resource) -> Object:
    """Return what a person could have written: without status, and without what a server sets."""
    metadata = {"labels": labels_of(obj), "annotations": annotations_of(obj)}
    fields = {name: value for name, value in obj.items() if name not in _SYSTEM_FIELDS}
    if kind is resources.NAMESPACES:
        fields = {}
    return kind.manifest(ObjectKey.of(obj), metadata={key: value for key, value in metadata.items() if value}, **fields)
