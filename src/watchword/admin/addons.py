"""Enables and disables add-ons on clusters as the hub's administrator wishes."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta

from msgspec import Struct, field

from watchword.accounts.grants import GRANTS
from watchword.accounts.hub.definition import FIELD_MANAGER, manifests
from watchword.admin.apply import list_if_served
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.lookup import no_namespace_of
from watchword.admin.wait import ObjectWaiter
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME
from watchword.api.addon import SERVED_IN_HUB, SERVED_IN_PROCESS
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, annotations_of, uid_of
from watchword.api.names import HUB_NAMESPACE, IMAGE, Annotation
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    NAMESPACES,
)
from watchword.discovery.discover import Progress, ignore_progress
from watchword.health.inventory import decide_addon_row
from watchword.health.states import InventoryHealth
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden, NotFound
from watchword.operator.bundles import hub_service_rights, manager_bundle
from watchword.processes.hub import HUB_LEASE
from watchword.runtime.ensure import delete_object
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
            await self._delete_all(kind, await list_if_served(self.client, kind), patience)
        await self._delete_all(MANAGED_CLUSTER_ADDONS, addons, patience)
        for resource, obj in reversed(accounts_bundle()):
            await self._remove(resource, ObjectKey.of(obj))
        await self._remove(CONFIG_MAPS, GRANTS)
        return sorted(obj["metadata"]["namespace"] for obj in addons)

    async def _delete_all(self, resource: Resource, found: Sequence[Object], patience: timedelta) -> None:
        for obj in found:
            await delete_object(self.client, resource, obj)
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
            return await self.client.find(LEASES, HUB_LEASE) is not None
        except Forbidden:
            return True  # a user who may not look is not warned


class AddonAdmin(Struct, frozen=True):
    """Operations on add-ons of a hub; a dry run sends requests and changes nothing."""

    client: Client
    progress: Progress = field(default=ignore_progress)
    dry_run: bool = False

    async def available_addons(self) -> list[str]:
        """Return the add-ons that the hub has, enabled or not; none when the user may not list them."""
        try:
            listed = await self.client.list(CLUSTER_MANAGEMENT_ADDONS)
        except (Forbidden, NotFound):
            return []
        return sorted(each["metadata"]["name"] for each in listed.items)

    async def require_known(self, names: Iterable[str]) -> None:
        """Raise `NotFoundOnHub` for a name that no manager describes and no cluster has."""
        try:
            enabled = {each["metadata"]["name"] for each in (await self.client.list(MANAGED_CLUSTER_ADDONS)).items}
        except (Forbidden, NotFound):
            return  # a user who may not list add-ons cannot be told
        known = enabled.union(await self.available_addons(), [ADDON_NAME])
        for name in names:
            if name not in known:
                raise NotFoundOnHub(
                    f"this hub has no add-on {name}: it has {', '.join(sorted(known))}; to enable it before its "
                    "manager is installed, give --force"
                )

    async def enable(self, key: ObjectKey, namespace: str = "") -> bool:
        """Enable an add-on on a cluster; return whether it was new. Raise `NotFoundOnHub` without the cluster."""
        metadata = {"annotations": {Annotation.INSTALL_NAMESPACE: namespace}} if namespace else {}
        addon = MANAGED_CLUSTER_ADDONS.manifest(key, metadata=metadata, spec={})
        try:
            await self.client.create(MANAGED_CLUSTER_ADDONS, addon, dry_run=self.dry_run)
        except AlreadyExists:
            return False
        except NotFound as cause:
            raise no_namespace_of(key.namespace) from cause
        return True

    async def disable(self, key: ObjectKey) -> Object | None:
        """Disable an add-on on a cluster; return what was there, None when nothing was."""
        found = await self.client.find(MANAGED_CLUSTER_ADDONS, key)
        if found is not None and not self.dry_run:
            with suppress(NotFound):  # another writer was faster
                await self.client.delete(MANAGED_CLUSTER_ADDONS, key)
        return found

    async def wait_until_available(self, key: ObjectKey, waiter: ObjectWaiter) -> None:
        advice = f"`watchword addon show {key.name} --cluster {key.namespace}` says how far it came"
        await waiter.until(MANAGED_CLUSTER_ADDONS, key, validate_addon_available, advice=advice)

    async def wait_until_removed(self, key: ObjectKey, waiter: ObjectWaiter) -> None:
        advice = "check that the cluster's agent runs; the hub waits for it until the cluster is deleted"
        await waiter.until_gone(MANAGED_CLUSTER_ADDONS, key, advice=advice)


def is_reinstalled_by_strategy(addon: Object) -> bool:
    return Annotation.ADDON_INSTALLED_BY in annotations_of(addon)


def validate_addon_available(found: Object | None) -> str:
    if found is None:
        return "the add-on does not exist"
    row = decide_addon_row(found)
    what = f"add-on {row.name} on {row.cluster}"
    if row.health is not InventoryHealth.GOOD:
        return f"{what}: {row.note}"
    return "" if row.available == "yes" else f"{what} has not reported that it is available"
