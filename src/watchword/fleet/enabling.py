"""Enables and disables add-ons on clusters as the hub's administrator wishes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, MANAGED_CLUSTER_ADDONS
from watchword.discovery.waiting import Progress, in_silence
from watchword.fleet.errors import Refused
from watchword.fleet.health import Health
from watchword.fleet.inventory import judge_addon
from watchword.fleet.watching import Watcher
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden, NotFound


@dataclass(frozen=True, slots=True)
class AddonDesk:
    """What people do to add-ons on a hub; a rehearsal asks the server and changes nothing."""

    client: Client
    progress: Progress = field(default=in_silence)
    dry_run: bool = False

    async def offered(self) -> list[str]:
        """Return the add-ons that the hub has, enabled or not; none when this person may not see them."""
        try:
            listed = await self.client.list(CLUSTER_MANAGEMENT_ADDONS)
        except (Forbidden, NotFound):
            return []
        return sorted(each["metadata"]["name"] for each in listed.items)

    async def unheard_of(self, names: Iterable[str]) -> list[str]:
        """Return the names that nobody has used here: neither described by a manager nor enabled anywhere."""
        try:
            enabled = {each["metadata"]["name"] for each in (await self.client.list(MANAGED_CLUSTER_ADDONS)).items}
        except Forbidden:
            return []  # who may not look around may know better
        known = enabled.union(await self.offered())
        return [name for name in dict.fromkeys(names) if name not in known]

    async def enable(self, key: ObjectKey, namespace: str = "") -> bool:
        """Enable an add-on on a cluster; return whether that was news. `Refused` where there is no such cluster."""
        metadata = {"annotations": {Annotation.INSTALL_NAMESPACE: namespace}} if namespace else {}
        addon = MANAGED_CLUSTER_ADDONS.manifest(key, metadata=metadata, spec={})
        try:
            await self.client.create(MANAGED_CLUSTER_ADDONS, addon, dry_run=self.dry_run)
        except AlreadyExists:
            return False
        except NotFound as cause:  # the namespace, which every accepted cluster has
            raise Refused(
                f"there is no cluster {key.namespace}, or it is not accepted: `watchword clusters` lists all"
            ) from cause
        return True

    async def disable(self, key: ObjectKey) -> Object | None:
        """Disable an add-on on a cluster; return what was there, None when nothing was."""
        found = await self.client.find(MANAGED_CLUSTER_ADDONS, key)
        if found is not None and not self.dry_run:
            with suppress(NotFound):  # somebody was faster
                await self.client.delete(MANAGED_CLUSTER_ADDONS, key)
        return found

    async def at_work(self, key: ObjectKey, patience: timedelta) -> None:
        """Return once the add-on has its credential and is available; `TooLate` otherwise."""
        advice = f"`watchword addon show {key.name} --cluster {key.namespace}` says how far it came"
        await Watcher(self.client, patience, self.progress).until(
            MANAGED_CLUSTER_ADDONS, key, judge_at_work, advice=advice
        )

    async def gone(self, key: ObjectKey, patience: timedelta) -> None:
        """Return once nothing is left of the add-on; `TooLate` otherwise."""
        advice = "does the cluster's agent run? The hub drops what waits for it once the cluster counts as silent"
        await Watcher(self.client, patience, self.progress).until(
            MANAGED_CLUSTER_ADDONS, key, judge_gone, advice=advice
        )


def returns_by_itself(addon: Object) -> bool:
    """Whether an install strategy put the add-on there, and will again."""
    return Annotation.ADDON_INSTALLED_BY in annotations_of(addon)


def judge_at_work(found: Object | None) -> str:
    """Say what an add-on still lacks; empty when it is at work."""
    if found is None:
        return "the add-on is not there"
    row = judge_addon(found)
    what = f"add-on {row.name} on {row.cluster}"
    if row.health is not Health.GOOD:
        return f"{what}: {row.note or 'not well yet'}"
    return "" if row.available == "yes" else f"{what} has not said that it is available"


def judge_gone(found: Object | None) -> str:
    """Say what is left of an add-on that was disabled; empty when nothing is."""
    return "" if found is None else "what the add-on installed is being removed from the cluster"
