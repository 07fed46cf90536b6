"""`watchword revoke addon`: an add-on of either driver is refused at once, also while its hooks hold it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.addons.fleet import AddonFleet, account_of

from watchword.addons.definition import AddonDefinition, Grant
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTER_ADDONS
from watchword.cli.main import run
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, Unauthorized
from watchword.testing.builders import a_config_map

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180), pytest.mark.usefixtures("logs_in_file")]
READING: Object = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
HOOK = "example.test/hook"
Output = pytest.CaptureFixture[str]


async def watchword(addon_fleet: AddonFleet, *argv: str) -> int:
    return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(addon_fleet.plane.kubeconfig)])


async def revoke(addon_fleet: AddonFleet, output: Output, *argv: str) -> dict[str, Any]:
    output.readouterr()
    told = await watchword(addon_fleet, "revoke", "addon", *argv, "--yes", "--wait", "-o", "json")
    shown = output.readouterr()
    assert told == 0, shown.err
    (row,) = json.loads(shown.out)["revocations"]
    found: dict[str, Any] = row
    return found


async def enabled(addon_fleet: AddonFleet, name: str, auth: str) -> tuple[ObjectKey, Client]:
    """Enable an add-on that may read ConfigMaps; return its key and a client with its credential."""
    definition = AddonDefinition(
        name, grants=(Grant("read", rules=(READING,)),), install_namespace=addon_fleet.namespace
    )
    addon_fleet.start_addon(definition)
    cluster = await addon_fleet.cluster(auth=auth)
    key = await addon_fleet.enable(name, cluster)
    await addon_fleet.says(key, ConditionType.REGISTRATION_APPLIED)
    data = await addon_fleet.secret(key)
    await addon_fleet.client.create(CONFIG_MAPS, a_config_map("settings", namespace=cluster))
    holder = addon_fleet.as_token(data["token"]) if "token" in data else addon_fleet.as_certificate(data)
    await read_settings(holder, key)
    return key, holder


async def read_settings(holder: Client, key: ObjectKey) -> None:
    await holder.get(CONFIG_MAPS, ObjectKey(key.namespace, "settings"))


@pytest.mark.parametrize("auth", ["csr", "token"])
async def test_revoked_addon_is_refused_and_another_is_not(addon_fleet: AddonFleet, auth: str, capsys: Output) -> None:
    key, holder = await enabled(addon_fleet, f"tool{addon_fleet.mark or '-x'}", auth)
    other_key, other = await enabled(addon_fleet, f"other{addon_fleet.mark or '-x'}", auth)
    assert await watchword(addon_fleet, "revoke", "addon", str(key), "--dry-run") == 0
    assert f"delete ManagedClusterAddOn {key}" in capsys.readouterr().out
    await read_settings(holder, key)

    row = await revoke(addon_fleet, capsys, str(key))
    assert row["changed"]
    assert row["refusals"]
    assert all(refusal["seconds"] is not None for refusal in row["refusals"])
    with pytest.raises((Forbidden, Unauthorized)):
        await read_settings(holder, key)
    await read_settings(other, other_key)


async def test_addon_that_a_hook_holds_loses_its_rights_at_once(addon_fleet: AddonFleet, capsys: Output) -> None:
    key, holder = await enabled(addon_fleet, f"tool{addon_fleet.mark or '-x'}", "token")
    await addon_fleet.client.patch(MANAGED_CLUSTER_ADDONS, key, {"metadata": {"finalizers": [HOOK]}})

    row = await revoke(addon_fleet, capsys, str(key))
    assert f"tokens of ServiceAccount {account_of(key)}" in [refusal["holder"] for refusal in row["refusals"]]
    assert await addon_fleet.client.find(MANAGED_CLUSTER_ADDONS, key) is not None
    with pytest.raises((Forbidden, Unauthorized)):
        await read_settings(holder, key)
    assert not (await revoke(addon_fleet, capsys, str(key)))["changed"]
    await addon_fleet.client.patch(MANAGED_CLUSTER_ADDONS, key, {"metadata": {"finalizers": None}})
