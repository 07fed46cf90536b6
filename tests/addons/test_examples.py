"""What the documentation shows to authors of add-ons really runs."""

from __future__ import annotations

import asyncio
import doctest
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.addons.fleet import AddonFleet

import watchword.addons
from watchword.api.meta import ObjectKey
from watchword.api.names import ADDON_NAMESPACE, ConditionType
from watchword.api.resources import CONFIG_MAPS, MANIFEST_WORKS, NAMESPACES
from watchword.testing.builders import a_config_map
from watchword.testing.eventually import eventually

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
LINES = 40


def example(page: str) -> str:
    found = re.search(r"```python\n(.*?)```", (HOWTO / page).read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_whole_hub_side_is_about_forty_lines() -> None:
    lines = [line for line in example("write-an-addon.md").splitlines() if line.strip()]

    assert len(lines) <= LINES


def test_rights_of_the_guide_can_be_written_so() -> None:
    names: dict[str, Any] = {}

    exec(compile(example("addon-rbac.md"), "addon-rbac.md", "exec"), names)

    assert [grant.name for grant in names["weather"].grants] == ["status-writer", "stations"]


def test_summary_of_the_package_can_be_typed() -> None:
    result = doctest.testmod(watchword.addons)

    assert (result.failed, result.attempted) == (0, 3)


@pytest.mark.real_time
@pytest.mark.timeout(180)
async def test_hub_side_of_the_guide_runs_as_it_stands(addon_fleet: AddonFleet, tmp_path: Path) -> None:
    program = tmp_path / "weather.py"
    program.write_text(example("write-an-addon.md"))
    await addon_fleet.client.apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ADDON_NAMESPACE)))
    cluster = await addon_fleet.cluster()
    environment = {**os.environ, "KUBECONFIG": str(addon_fleet.plane.kubeconfig)}
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), env=environment)

    key = await addon_fleet.enable("weather", cluster)
    await addon_fleet.says(key, ConditionType.REGISTRATION_APPLIED)
    work = await eventually(addon_fleet.client, MANIFEST_WORKS, ObjectKey(cluster, "addon-weather-deploy-0"))
    hub = addon_fleet.as_token((await addon_fleet.secret_anywhere("weather-hub-kubeconfig"))["token"])
    await hub.create(CONFIG_MAPS, a_config_map("forecast", namespace=cluster, data={"sky": "blue"}))

    kinds = [manifest["kind"] for manifest in work["spec"]["workload"]["manifests"]]
    assert kinds == ["ServiceAccount", "Role", "RoleBinding", "Deployment"]
    process.terminate()
    await process.wait()
