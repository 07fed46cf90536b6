"""The sample add-on on a fleet of this machine: enabled where both ways to a credential can be seen."""

from __future__ import annotations

from contextlib import suppress

from watchword.addons.process import run_addon
from watchword.addons.sample.hub import NAME, SAMPLE
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS
from watchword.fleet.inventory import judge_addon
from watchword.fleet.local.member import Member
from watchword.fleet.local.site import Site
from watchword.kube.errors import AlreadyExists

ENABLED_ON = 2  # the first clusters: one for each driver


async def start_sample(site: Site) -> list[Member]:
    """Run the add-on's hub side and enable it on the first clusters; return those."""
    members = site.clusters[:ENABLED_ON]
    site.crew.start("sample add-on", lambda stop: run_addon(site.hub.client, SAMPLE, clock=site.clock, stop=stop))
    for member in members:
        with suppress(AlreadyExists):  # a fleet that was up before
            key = ObjectKey(member.name, NAME)
            await site.hub.client.create(MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTER_ADDONS.manifest(key, spec={}))
    return members


def is_served(addon: Object | None) -> bool:
    """Whether an add-on has its credential, and shows that it works with it."""
    if addon is None:
        return False
    return judge_addon(addon).credential == "yes" and is_true(addon, ConditionType.ADDON_AVAILABLE)
