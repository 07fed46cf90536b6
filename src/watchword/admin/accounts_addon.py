"""Installs managed service accounts on a hub, and takes them away again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct, field

from watchword.accounts.grants import GRANTS
from watchword.accounts.hub.installation import FIELD_MANAGER, manifests
from watchword.admin.wait import ObjectWaiter
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME
from watchword.api.addon import SERVED_IN_HUB, SERVED_IN_PROCESS
from watchword.api.images import IMAGE
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, uid_of
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    NAMESPACES,
)
from watchword.discovery.polling import Progress, ignore_progress
from watchword.hub.process import LEASE
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, NotFound
from watchword.operator.account_manifests import hub_service_rights, manager_bundle
from watchword.runtime.manifests import apply_manifests, is_own_definition


def accounts_bundle(*, standalone: bool = False, image: str = IMAGE) -> list[Manifest]:
    """Return everything that accounts need on a hub; the entry in the list of add-ons comes last, and starts it."""
    rights = manager_bundle(image=image) if standalone else hub_service_rights()
    rows = manifests(served=SERVED_IN_PROCESS if standalone else SERVED_IN_HUB)
    return [*rows[:-1], *rights, rows[-1]]


class AccountsAddonAdmin(Struct, frozen=True):
    """Installs and uninstalls the add-on of managed service accounts."""

    client: Client
    progress: Progress = field(default=ignore_progress)

    async def install(self) -> bool:
        """Apply what the hub needs to serve accounts, unless a manager has done so; return whether it was missing."""
        if await self.client.find(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(ADDON_NAME)) is not None:
            return False
        await apply_manifests(self.client, accounts_bundle(), manager=FIELD_MANAGER)
        if not await self._has_hub():
            self.progress(
                f"no hub of watchword runs in {HUB_NAMESPACE}: run `watchword hub`, or apply what "
                f"`watchword manifests {ADDON_NAME} --standalone` prints"
            )
        return True

    async def uninstall(self, patience: timedelta) -> list[str]:
        """Disable the add-on everywhere, revoke all accounts, remove what was installed; return the clusters."""
        addons = [
            obj
            for obj in (await self.client.list(MANAGED_CLUSTER_ADDONS)).items
            if obj["metadata"]["name"] == ADDON_NAME
        ]
        for kind in ACCOUNT_KINDS:
            await self._delete_all(kind, await self._all_of(kind), patience)
        await self._delete_all(MANAGED_CLUSTER_ADDONS, addons, patience)
        for resource, obj in reversed(accounts_bundle()):
            await self._remove(resource, ObjectKey.of(obj))
        await self._remove(CONFIG_MAPS, GRANTS)
        return sorted(obj["metadata"]["namespace"] for obj in addons)

    async def _all_of(self, kind: Resource) -> Sequence[Object]:
        try:
            return (await self.client.list(kind)).items
        except NotFound:
            return []

    async def _delete_all(self, resource: Resource, found: Sequence[Object], patience: timedelta) -> None:
        for obj in found:
            try:
                await self.client.delete(resource, ObjectKey.of(obj), uid=uid_of(obj))
            except NotFound:
                continue
        waiter = ObjectWaiter(self.client, patience, self.progress)
        advice = "bring its cluster back, or give up with `watchword serviceaccount delete NAME -n NAMESPACE --abandon`"
        for obj in found:
            await waiter.until_gone(resource, ObjectKey.of(obj), advice=advice)

    async def _remove(self, resource: Resource, key: ObjectKey) -> None:
        found = await self.client.find(resource, key)
        foreign = found is not None and resource is CUSTOM_RESOURCE_DEFINITIONS
        if found is None or resource is NAMESPACES or (foreign and not is_own_definition(found, FIELD_MANAGER)):
            return
        await self.client.delete(resource, key, uid=uid_of(found))

    async def _has_hub(self) -> bool:
        try:
            return await self.client.find(LEASES, LEASE) is not None
        except Forbidden:
            return True  # a user who may not look is not warned
