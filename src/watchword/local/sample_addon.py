"""The sample add-on on a fleet of this machine: enabled where both ways to a credential can be seen."""

from __future__ import annotations

from contextlib import suppress

from watchword.addons.process import run_addon
from watchword.addons.sample.hub import NAME, SAMPLE
from watchword.admin.inventory import decide_addon_row
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS
from watchword.kube.errors import AlreadyExists
from watchword.local.control_plane import LocalControlPlane
from watchword.local.fleet import LocalFleet

ENABLED_ON = 2  # the first clusters: one for each driver


async def start_sample_addon(fleet: LocalFleet) -> list[LocalControlPlane]:
    """Run the add-on's hub side and enable it on the first clusters; return those."""
    members = fleet.clusters[:ENABLED_ON]
    fleet.supervisor.start(
        "sample add-on", lambda stop: run_addon(fleet.hub.client, SAMPLE, clock=fleet.clock, stop=stop)
    )
    for member in members:
        with suppress(AlreadyExists):  # a fleet that was up before
            key = ObjectKey(member.name, NAME)
            await fleet.hub.client.create(MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTER_ADDONS.manifest(key, spec={}))
    return members


def is_addon_ready(addon: Object | None) -> bool:
    """Whether an add-on has its credential, and shows that it works with it."""
    if addon is None:
        return False
    return decide_addon_row(addon).credential == "yes" and is_true(addon, ConditionType.ADDON_AVAILABLE)
