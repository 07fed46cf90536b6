"""Enables and disables add-ons on clusters as the hub's administrator wishes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

from msgspec import Struct, field

from watchword.admin.errors import OperationRefused
from watchword.admin.health import InventoryHealth
from watchword.admin.inventory import decide_addon_row
from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, MANAGED_CLUSTER_ADDONS
from watchword.discovery.polling import Progress, ignore_progress
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden, NotFound


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

    async def find_unknown(self, names: Iterable[str]) -> list[str]:
        """Return the unknown names: neither described by a manager nor enabled anywhere."""
        try:
            enabled = {each["metadata"]["name"] for each in (await self.client.list(MANAGED_CLUSTER_ADDONS)).items}
        except Forbidden:
            return []  # a user who may not list add-ons is not warned
        known = enabled.union(await self.available_addons())
        return [name for name in dict.fromkeys(names) if name not in known]

    async def enable(self, key: ObjectKey, namespace: str = "") -> bool:
        """Enable an add-on on a cluster; return whether it was new. Raise `OperationRefused` without the cluster."""
        metadata = {"annotations": {Annotation.INSTALL_NAMESPACE: namespace}} if namespace else {}
        addon = MANAGED_CLUSTER_ADDONS.manifest(key, metadata=metadata, spec={})
        try:
            await self.client.create(MANAGED_CLUSTER_ADDONS, addon, dry_run=self.dry_run)
        except AlreadyExists:
            return False
        except NotFound as cause:  # the namespace, which every accepted cluster has
            raise OperationRefused(
                f"there is no cluster {key.namespace}, or it is not accepted: `watchword clusters` lists all"
            ) from cause
        return True

    async def disable(self, key: ObjectKey) -> Object | None:
        """Disable an add-on on a cluster; return what was there, None when nothing was."""
        found = await self.client.find(MANAGED_CLUSTER_ADDONS, key)
        if found is not None and not self.dry_run:
            with suppress(NotFound):  # another writer was faster
                await self.client.delete(MANAGED_CLUSTER_ADDONS, key)
        return found

    async def wait_until_available(self, key: ObjectKey, patience: timedelta) -> None:
        """Return once the add-on has its credential and is available; `NotReady` otherwise."""
        advice = f"`watchword addon show {key.name} --cluster {key.namespace}` says how far it came"
        await ObjectWaiter(self.client, patience, self.progress).until(
            MANAGED_CLUSTER_ADDONS, key, validate_addon_available, advice=advice
        )

    async def wait_until_removed(self, key: ObjectKey, patience: timedelta) -> None:
        """Return once nothing is left of the add-on; `NotReady` otherwise."""
        advice = "does the cluster's agent run? The hub drops what waits for it once the cluster counts as silent"
        await ObjectWaiter(self.client, patience, self.progress).until(
            MANAGED_CLUSTER_ADDONS, key, validate_addon_removed, advice=advice
        )


def is_reinstalled_by_strategy(addon: Object) -> bool:
    """Whether an install strategy put the add-on there, and will again."""
    return Annotation.ADDON_INSTALLED_BY in annotations_of(addon)


def validate_addon_available(found: Object | None) -> str:
    """Return what an add-on still lacks; empty when it is at work."""
    if found is None:
        return "the add-on is not there"
    row = decide_addon_row(found)
    what = f"add-on {row.name} on {row.cluster}"
    if row.health is not InventoryHealth.GOOD:
        return f"{what}: {row.note or 'not well yet'}"
    return "" if row.available == "yes" else f"{what} has not said that it is available"


def validate_addon_removed(found: Object | None) -> str:
    """Return what is left of an add-on that was disabled; empty when nothing is."""
    return "" if found is None else "what the add-on installed is being removed from the cluster"
