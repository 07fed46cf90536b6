"""What the guides show to users of managed service accounts really runs."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import orjson
import pytest
from tests.accounts.fleet import AccountsFleet

from watchword.accounts.exports import PROVIDER
from watchword.api import yaml
from watchword.api.accounts import copy_name
from watchword.api.meta import ObjectKey
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MANAGED_SERVICE_ACCOUNTS,
)
from watchword.cli.main import run
from watchword.testing.builders import a_cluster_role

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
GUIDE, CONSUMERS = "managed-service-accounts.md", "managed-service-accounts-consumers.md"


def example(page: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", (HOWTO / page).read_text(), re.DOTALL)
    assert found is not None
    return found[1]


async def test_account_of_the_guide_is_accepted_by_the_server(fleet: AccountsFleet) -> None:
    account = yaml.load(example(GUIDE, "yaml"))
    account["metadata"]["namespace"] = await fleet.plane.namespace()
    stored = await fleet.client.create(MANAGED_SERVICE_ACCOUNTS, account)
    assert stored["spec"]["rotation"]["validity"] == "24h"


@pytest.mark.parametrize("page", [GUIDE, CONSUMERS])
def test_commands_of_the_guides_can_be_parsed(page: str) -> None:
    lines = re.findall(r"^\$ watchword (\S+ \S+)", (HOWTO / page).read_text(), re.MULTILINE)
    verbs = {line for line in lines if not line.startswith("managed-serviceaccount")}
    assert verbs
    for verb in verbs:
        assert run([*verb.split(), "--help"]) == 0


def test_plugin_of_the_guide_is_that_of_the_exported_provider() -> None:
    (provider,) = orjson.loads(example(CONSUMERS, "json"))["providers"]
    assert provider["name"] == PROVIDER
    assert run([*provider["execConfig"]["args"][:2], "--help"]) == 0


async def a_readable_account(fleet: AccountsFleet) -> tuple[str, str]:
    """Return the namespace of an account that may list namespaces, and its cluster."""
    name = fleet.plane.unique("fleet")
    namespace = await fleet.bound_namespace(name)
    member = await fleet.cluster(labels={"set": name})
    await fleet.declare(namespace, "robot")
    role = fleet.plane.unique("namespace-reader")
    await fleet.client.create(CLUSTER_ROLES, a_cluster_role(role, verbs=["list"], of=["namespaces"]))
    binding = CLUSTER_ROLE_BINDINGS.manifest(
        ObjectKey.cluster(role),
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        subjects=[{"kind": "ServiceAccount", "namespace": member.namespace, "name": "robot"}],
    )
    await fleet.client.create(CLUSTER_ROLE_BINDINGS, binding)
    await fleet.secret(ObjectKey(namespace, copy_name(member.name, "robot")))
    return namespace, member.name


@pytest.mark.real_time
@pytest.mark.timeout(120)
async def test_program_of_the_guide_runs_as_it_stands(fleet: AccountsFleet, tmp_path: Path) -> None:
    namespace, cluster = await a_readable_account(fleet)
    program = tmp_path / "robot.py"
    program.write_text(example(CONSUMERS, "python"))
    own = {"ACCOUNT": "robot", "ACCOUNT_NAMESPACE": namespace, "CLUSTER": cluster}
    environment = {**os.environ, **own, "KUBECONFIG": str(fleet.plane.kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), env=environment, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    assert printed.decode().strip().endswith(f"as robot on ['{cluster}']")
