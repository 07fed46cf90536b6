"""`watchword addon` and the sample add-on, from the command line and over sockets."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.fleet import PlaneConnector

from watchword.addons.sample.hub import NAME, REPORT
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, ConditionType
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, CONFIG_MAPS, MANAGED_CLUSTER_ADDONS, NAMESPACES
from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import run
from watchword.testing.credentials import write_private
from watchword.testing.eventually import eventually

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180), pytest.mark.usefixtures("logs_in_file")]
Output = pytest.CaptureFixture[str]


async def watchword(addon_fleet: AddonFleet, *argv: str, code: int = 0) -> None:
    assert await asyncio.to_thread(run, [*argv, "--kubeconfig", str(addon_fleet.plane.kubeconfig)]) == code


async def offer(addon_fleet: AddonFleet, name: str) -> None:
    await addon_fleet.client.apply(
        CLUSTER_MANAGEMENT_ADDONS, CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(name))
    )


async def test_addon_is_enabled_listed_and_disabled(addon_fleet: AddonFleet, capsys: Output) -> None:
    cluster = await addon_fleet.cluster()
    await offer(addon_fleet, "reporter")
    await watchword(
        addon_fleet, "addon", "enable", "reporter", "--clusters", cluster, "--namespace", addon_fleet.namespace
    )
    await watchword(addon_fleet, "addon", "enable", "--names", "reporter", "--clusters", cluster)
    said = capsys.readouterr().out
    assert f"add-on reporter enabled on {cluster}" in said
    assert f"add-on reporter is enabled on {cluster} already" in said
    key = ObjectKey(cluster, "reporter")
    await addon_fleet.register(key)
    await addon_fleet.refreshed(key)
    capsys.readouterr()

    await watchword(addon_fleet, "addon", "list", "--cluster", cluster)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["reporter", cluster, "Unknown", "token", "good"]
    await watchword(addon_fleet, "addon", "disable", "reporter", "other", "--clusters", cluster, "--wait")
    assert f"add-on other is not enabled on {cluster}" in capsys.readouterr().out
    assert await addon_fleet.client.find(MANAGED_CLUSTER_ADDONS, key) is None


async def test_an_addon_on_offer_is_listed_before_it_is_enabled_anywhere(
    addon_fleet: AddonFleet, capsys: Output
) -> None:
    await offer(addon_fleet, f"idle{addon_fleet.mark}")

    await watchword(addon_fleet, "addon", "list")

    assert [f"idle{addon_fleet.mark}", "-", "-", "-", "-"] in [
        row.split() for row in capsys.readouterr().out.splitlines()
    ]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        pytest.param(
            ["enable", "managed-serviceaccount", "-c", "nowhere", "--dry-run"], "no cluster nowhere", id="no cluster"
        ),
        pytest.param(["enable", "nope", "-c", "nowhere"], "this hub has no add-on nope", id="unknown add-on"),
        pytest.param(["show", "reporter", "--cluster", "nowhere"], "there is no add-on reporter", id="not enabled"),
    ],
)
async def test_what_cannot_be_enabled_or_shown_is_named(
    argv: list[str], sentence: str, addon_fleet: AddonFleet, capsys: Output
) -> None:
    await watchword(addon_fleet, "addon", *argv, code=ExitCode.NOT_FOUND)

    assert sentence in capsys.readouterr().err


async def test_enabling_an_addon_without_a_manager_by_force_times_out(addon_fleet: AddonFleet, capsys: Output) -> None:
    cluster, name = await addon_fleet.cluster(), f"misspelt{addon_fleet.mark}"

    argv = ["addon", "enable", name, "-c", cluster, "--force", "--wait", "--timeout", "1s"]
    await watchword(addon_fleet, *argv, code=ExitCode.UNREACHABLE)

    said = capsys.readouterr().err
    assert f"`watchword addon show {name} --cluster {cluster}` says how far it came" in said


async def test_addon_is_shown_with_its_credential_and_conditions(addon_fleet: AddonFleet, capsys: Output) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.refreshed(key)
    capsys.readouterr()

    await watchword(addon_fleet, "addon", "show", "reporter", "--cluster", cluster)
    shown = capsys.readouterr().out
    await watchword(addon_fleet, "addon", "show", "reporter", "--cluster", cluster, "-o", "json")
    as_json = json.loads(capsys.readouterr().out)

    user = f"system:serviceaccount:{cluster}:{cluster}-reporter-agent"
    assert f"Credential: reporter-hub-kubeconfig, for the hub, by token, as {user}" in shown
    assert "AddonTokenRefreshed: True (AddonTokenRefreshed)" in shown
    assert as_json["metadata"]["name"] == "reporter"


async def test_sample_addon_runs_on_what_lies_in_its_secret(addon_fleet: AddonFleet, tmp_path: Path) -> None:
    cluster = addon_fleet.members.name(f"edge{addon_fleet.mark}")
    addon_fleet.connectors[cluster] = PlaneConnector(addon_fleet.plane, server=addon_fleet.plane.server)
    await addon_fleet.start_agent(cluster)
    await addon_fleet.members.joined(cluster)
    await addon_fleet.client.apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ADDON_NAMESPACE)))
    manager = await _start("sample-addon", "--manager", "--kubeconfig", str(addon_fleet.plane.kubeconfig))
    addon = await addon_fleet.enable(NAME, cluster)
    await addon_fleet.says(addon, ConditionType.REGISTRATION_APPLIED)
    for name, content in (await addon_fleet.secret_anywhere(f"{NAME}-hub-kubeconfig")).items():
        write_private(tmp_path / name, content)

    agent = await _start("sample-addon", "--hub-kubeconfig", str(tmp_path / "kubeconfig"), "--every", "0.1")

    def has_beaten(obj: Object | None) -> bool:
        return int(((obj or {}).get("data") or {}).get("beats") or 0) > 2

    report = await eventually(addon_fleet.client, CONFIG_MAPS, ObjectKey(cluster, REPORT), has_beaten)
    assert report["data"]["cluster"] == cluster
    for process in (agent, manager):
        process.terminate()
        assert await process.wait() == 0


async def _start(*argv: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "watchword", *argv)
