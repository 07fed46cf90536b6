"""The hub can tell whether an add-on uses the token that was last issued to it."""

from __future__ import annotations

import asyncio

import pytest
from tests.addons.fleet import AddonFleet

from watchword.addons.lease import AddonLease, UsedCredential
from watchword.api.credential_report import CredentialUse
from watchword.api.meta import ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTER_ADDONS
from watchword.health.hub_reader import read_hub_facts
from watchword.health.inventory import build_inventory


@pytest.mark.planes("embedded")  # in virtual time: the agent reports a minute later
async def test_addon_that_keeps_its_first_token_is_shown_until_it_uses_the_new_one(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    addon = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(addon)
    holder = f"add-on reporter on {cluster}"

    await _renew_lease(addon_fleet, first["token"])
    patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "please"}}}
    await addon_fleet.client.patch(MANAGED_CLUSTER_ADDONS, addon, patch)
    second = await addon_fleet.secret(addon, lambda data: data["token"] != first["token"])
    await addon_fleet.refreshed(addon)
    await asyncio.sleep(60)
    before = await _use_by(addon_fleet, holder)
    await _renew_lease(addon_fleet, second["token"])
    await asyncio.sleep(60)

    assert before is CredentialUse.PREVIOUS
    assert await _use_by(addon_fleet, holder) is CredentialUse.CURRENT


async def _renew_lease(addon_fleet: AddonFleet, token: bytes) -> None:
    """Renew the lease of the add-on as an agent that has this token for the hub."""
    clock = addon_fleet.plane.clock
    used = UsedCredential(addon_fleet.as_token(token), clock)
    lease = AddonLease(addon_fleet.client, ObjectKey(addon_fleet.namespace, "reporter"), clock)
    await lease.renew(credential_id=await used.current())


async def _use_by(addon_fleet: AddonFleet, holder: str) -> CredentialUse:
    inventory = build_inventory(await read_hub_facts(addon_fleet.client), now=addon_fleet.plane.clock.now())
    (row,) = [row for row in inventory.credentials if row.holder == holder]
    return row.use
