"""What the guides show to users of managed service accounts really runs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
from tests.accounts.cluster_profiles import install_cluster_profiles
from tests.accounts.fleet import AccountsFleet
from tests.accounts.guides import CONSUMERS, GUIDE, command, example
from tests.helpers.server_decision import grant

from watchword.accounts.exports import PROVIDER
from watchword.api import yaml
from watchword.api.accounts import copy_name
from watchword.api.meta import ObjectKey
from watchword.api.names import service_account_user
from watchword.api.resources import (
    CLUSTER_PROFILES,
    MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
)
from watchword.testing.eventually import eventually


async def test_account_of_the_guide_is_accepted_by_the_server(fleet: AccountsFleet) -> None:
    account = yaml.load(example(GUIDE, "yaml"))
    account["metadata"]["namespace"] = await fleet.plane.namespace()
    stored = await fleet.client.create(MANAGED_SERVICE_ACCOUNTS, account)
    assert stored["spec"]["rotation"]["validity"] == "24h"


async def a_readable_account(fleet: AccountsFleet) -> tuple[str, str]:
    """Return the namespace of an account that may list namespaces, and its cluster."""
    name = fleet.plane.unique("fleet")
    namespace = await fleet.bound_namespace(name)
    member = await fleet.cluster(labels={"set": name})
    await fleet.declare(namespace, "robot")
    role = fleet.plane.unique("namespace-reader")
    rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}
    await grant(fleet.client, ObjectKey.cluster(role), [rule], service_account_user(member.namespace, "robot"))
    await fleet.secret(ObjectKey(namespace, copy_name(member.name, "robot")))
    return namespace, member.name


async def run_program(*argv: str, fleet: AccountsFleet, **environment: str) -> bytes:
    """Run a program to its end as a user of the hub does, and return what it prints."""
    own = {**os.environ, "KUBECONFIG": str(fleet.plane.kubeconfig), **environment}
    process = await asyncio.create_subprocess_exec(*argv, env=own, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed


@asynccontextmanager
async def exporting(arguments: list[str], fleet: AccountsFleet) -> AsyncIterator[None]:
    """Run an export of the guide beside the test."""
    environment = {**os.environ, "KUBECONFIG": str(fleet.plane.kubeconfig)}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "watchword", *arguments, env=environment)
    try:
        yield
    finally:
        process.terminate()
        assert await process.wait() == 0


@pytest.mark.real_time
@pytest.mark.timeout(120)
async def test_program_of_the_guide_runs_as_it_stands(fleet: AccountsFleet, tmp_path: Path) -> None:
    namespace, cluster = await a_readable_account(fleet)
    program = tmp_path / "robot.py"
    program.write_text(example(CONSUMERS, "python"))
    own = {"ACCOUNT": "robot", "ACCOUNT_NAMESPACE": namespace, "CLUSTER": cluster}
    printed = await run_program(sys.executable, str(program), fleet=fleet, **own)
    assert printed.decode().strip().endswith(f"as robot on ['{cluster}']")


@pytest.mark.real_time
@pytest.mark.timeout(120)
async def test_kubeconfig_of_the_guide_runs_the_plugin(fleet: AccountsFleet, tmp_path: Path) -> None:
    namespace, cluster = await a_readable_account(fleet)
    path, program = tmp_path / "config", tmp_path / "watchword"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m watchword "$@"\n')
    program.chmod(0o700)
    names = {"edge_1": cluster, "team": namespace, "edge_1_kubeconfig": str(path)}
    arguments = command(CONSUMERS, "serviceaccount kubeconfig", **names)
    await run_program(str(program), *arguments, fleet=fleet)

    listing = "\n".join(
        (
            "import asyncio, pathlib",
            "from watchword.api.resources import NAMESPACES",
            "from watchword.kube.connect import connect",
            f"print(len(asyncio.run(connect(pathlib.Path({str(path)!r})).list(NAMESPACES)).items))",
        )
    )
    search = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert int(await run_program(sys.executable, "-c", listing, fleet=fleet, PATH=search)) > 0


@pytest.mark.real_time
@pytest.mark.timeout(120)
async def test_argo_cd_export_of_the_guide_writes_cluster_secrets(fleet: AccountsFleet) -> None:
    namespace, cluster = await a_readable_account(fleet)
    argo = await fleet.plane.namespace("argocd")
    arguments = command(CONSUMERS, "serviceaccount export argocd", team=namespace)
    arguments[-1] = argo
    async with exporting(arguments, fleet):
        written = await eventually(fleet.client, SECRETS, ObjectKey(argo, f"cluster-{cluster}"), within=60)
    assert written["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "cluster"


@pytest.mark.real_time
@pytest.mark.timeout(120)
async def test_cluster_profile_of_the_guide_names_the_plugin_that_prints_token_and_expiry(fleet: AccountsFleet) -> None:
    await install_cluster_profiles(fleet.client)
    namespace, cluster = await a_readable_account(fleet)
    inventory = await fleet.plane.namespace("inventory")
    arguments = command(CONSUMERS, "serviceaccount export clusterprofile", team=namespace)
    arguments[-1] = inventory
    async with exporting(arguments, fleet):
        provided = lambda obj: bool((obj or {}).get("status", {}).get("accessProviders"))  # noqa: E731 - a test
        found = await eventually(fleet.client, CLUSTER_PROFILES, ObjectKey(inventory, cluster), provided, within=60)
    (offered,) = found["status"]["accessProviders"]
    (configured,) = orjson.loads(example(CONSUMERS, "json"))["providers"]
    assert offered["name"] == configured["name"] == PROVIDER

    plugin = configured["execConfig"]
    config = offered["cluster"]["extensions"][0]["extension"]
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"cluster": {"config": config}}}
    wanted = [part if part != "team" else namespace for part in plugin["args"]]
    told = {"KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()}
    printed = orjson.loads(await run_program(sys.executable, "-m", "watchword", *wanted, fleet=fleet, **told))
    assert printed["status"]["token"]
    assert printed["status"]["expirationTimestamp"]
