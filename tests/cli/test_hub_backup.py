"""Backup, restore and removal of a hub, by the command line."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from tests.helpers.events import is_told

from watchword.admin.backup_archive import BackupKey, read_backup
from watchword.api.bootstrap import token_secret_key
from watchword.api.meta import ObjectKey, annotations_of, uid_of
from watchword.api.names import HUB_KUBECONFIG_SECRET, HUB_NAMESPACE, Annotation, Label
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.cli.main import run
from watchword.discovery.token_secret import TokenRecord, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.testing.builders import a_cluster

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet, Member

# A hub is one of a kind, and other tests share a real server.
pytestmark = [pytest.mark.real_time, pytest.mark.planes("embedded"), pytest.mark.timeout(120)]

EDGE = ObjectKey.cluster("edge-1")
KINDS = (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    ROLES,
    ROLE_BINDINGS,
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    DEPLOYMENTS,
    LEASES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)


class OtherCluster:
    """Another control plane, on which commands run."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.client = connect(instance.kubeconfig)

    async def run(self, *argv: str) -> int:
        return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(self.instance.kubeconfig)])


@pytest_asyncio.fixture
async def other(tmp_path: Path) -> AsyncIterator[OtherCluster]:
    instance = Instance(InstanceSettings(tmp_path / "other", port=0), lambda: datetime.now(UTC))
    await instance.start()
    cluster = OtherCluster(instance)
    yield cluster
    await cluster.client.close()
    await instance.stop()


async def a_hub(fleet: Fleet) -> str:
    """Make a hub with an accepted cluster, and save it; return the file."""
    await fleet.init("--no-probe")
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(EDGE.name, accepted=True))
    file = str(fleet.folder / "backup")
    await fleet.run("backup", file, "--hub", "--plain")
    return file


async def everything(client: Client) -> set[str]:
    found = [(kind, await client.list(kind)) for kind in KINDS]
    return {f"{kind.kind}/{ObjectKey.of(obj)}" for kind, page in found for obj in page.items}


async def test_backup_of_a_hub_is_not_written_in_plain_text_unasked(cli_fleet: Fleet) -> None:
    shown = await cli_fleet.run("backup", str(cli_fleet.folder / "backup"), "--hub", code=2)

    assert "the backup of a hub holds Secrets: give --key-file" in shown
    assert not (cli_fleet.folder / "backup").exists()


async def test_cluster_that_is_no_hub_has_no_backup(cli_fleet: Fleet) -> None:
    shown = await cli_fleet.run("backup", str(cli_fleet.folder / "backup"), "--hub", "--plain", code=2)

    assert "this cluster is not a hub" in shown


async def test_encrypted_backup_of_a_hub_holds_no_token_in_plain_text(cli_fleet: Fleet) -> None:
    key = cli_fleet.folder / "key"
    key.write_bytes(base64.b64encode(bytes(range(32))))
    key.chmod(0o600)
    arguments = await cli_fleet.init("--no-probe")
    file = cli_fleet.folder / "backup"

    await cli_fleet.run("backup", str(file), "--hub", "--key-file", str(key))

    token = next(word for word in arguments if "." in word and len(word) == 23).partition(".")[2]
    assert base64.b64encode(token.encode()) not in file.read_bytes()
    assert token.encode() not in file.read_bytes()


async def test_backup_of_a_hub_holds_no_token_of_an_account(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe")
    await cli_fleet.client.create(MANAGED_CLUSTERS, a_cluster(EDGE.name))
    namespace = await cli_fleet.plane.namespace("edge")
    labels = {Label.MANAGED_ACCOUNT: "true"}
    token = SECRETS.manifest(ObjectKey(namespace, "robot"), metadata={"labels": labels}, stringData={"token": "canary"})
    await cli_fleet.client.create(SECRETS, token)
    file = cli_fleet.folder / "backup"

    await cli_fleet.run("backup", str(file), "--hub", "--plain")

    content = b"".join(read_backup(file, BackupKey()).files.values())
    assert EDGE.name.encode() in content
    assert b"canary" not in content
    assert base64.b64encode(b"canary") not in content


async def test_hub_is_restored_on_another_cluster(cli_fleet: Fleet, other: OtherCluster) -> None:
    await cli_fleet.init("--no-probe")
    await cli_fleet.client.create(NAMESPACES, NAMESPACES.manifest(EDGE))
    await cli_fleet.client.create(MANAGED_CLUSTERS, a_cluster(EDGE.name, accepted=True))
    work = MANIFEST_WORKS.manifest(ObjectKey(EDGE.name, "mine"), spec={"workload": {"manifests": []}})
    await cli_fleet.client.create(MANIFEST_WORKS, work)
    await cli_fleet.run("backup", str(cli_fleet.folder / "backup"), "--hub", "--plain")

    assert await other.run("restore", str(cli_fleet.folder / "backup"), "--hub") == 0

    assert (await other.client.get(MANAGED_CLUSTERS, EDGE))["spec"]["hubAcceptsClient"] is True
    assert (await other.client.get(MANIFEST_WORKS, ObjectKey.of(work)))["spec"]["workload"] == {"manifests": []}
    assert (await other.client.get(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager")))["spec"]
    assert await other.run("init", "--no-deploy", "--no-probe") == 0


async def test_existing_hub_is_not_overwritten_unasked(cli_fleet: Fleet) -> None:
    file = await a_hub(cli_fleet)

    assert "is a hub already" in await cli_fleet.run("restore", file, "--hub", code=4)
    assert "give --yes" in await cli_fleet.run("restore", file, "--hub", "--replace", code=2)


async def test_cluster_that_was_deleted_since_the_backup_is_named_before_it_exists_again(cli_fleet: Fleet) -> None:
    file = await a_hub(cli_fleet)
    await cli_fleet.client.delete(MANAGED_CLUSTERS, EDGE)

    shown = await cli_fleet.run("restore", file, "--hub", "--replace", "--dry-run")
    assert "deleted since the backup, exist again:\n  managedcluster/edge-1" in shown
    assert await cli_fleet.client.find(MANAGED_CLUSTERS, EDGE) is None
    await cli_fleet.run("restore", file, "--hub", "--replace", "--yes")
    assert (await cli_fleet.client.get(MANAGED_CLUSTERS, EDGE))["spec"]["hubAcceptsClient"] is False


async def test_join_token_that_was_deleted_since_the_backup_is_restored_on_request_alone(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe")
    record = TokenRecord(BootstrapToken.generate())
    await cli_fleet.client.create(SECRETS, write_token_secret(record))
    file, key = str(cli_fleet.folder / "backup"), token_secret_key(record.token.id)
    await cli_fleet.run("backup", file, "--hub", "--plain")
    await cli_fleet.client.delete(SECRETS, key)

    shown = await cli_fleet.run("restore", file, "--hub", "--replace", "--yes")
    assert f"secret/{key}: deleted since the backup: create another token, or give --undo-revocations" in shown
    assert await cli_fleet.client.find(SECRETS, key) is None
    await cli_fleet.run("restore", file, "--hub", "--replace", "--yes", "--undo-revocations")
    assert await cli_fleet.client.find(SECRETS, key) is not None


async def test_cluster_that_was_denied_since_the_backup_stays_denied(cli_fleet: Fleet) -> None:
    file = await a_hub(cli_fleet)
    await cli_fleet.run("deny", "--clusters", EDGE.name)

    shown = await cli_fleet.run("restore", file, "--hub", "--replace", "--yes")
    await is_told(cli_fleet.client, HUB_NAMESPACE, "HubRestored")

    assert "managedcluster/edge-1: denied since the backup, and stays denied" in shown
    assert (await cli_fleet.client.get(MANAGED_CLUSTERS, EDGE))["spec"]["hubAcceptsClient"] is False


async def test_name_that_another_key_took_over_since_the_backup_stays_with_it(cli_fleet: Fleet) -> None:
    bare, client = ObjectKey.cluster("bare"), cli_fleet.client
    old = {Annotation.FIRST_KEY: "agent old 2026-01-01T00:00:00Z", "example.com/color": "blue"}
    new = {Annotation.FIRST_KEY: "agent new 2026-02-01T00:00:00Z", "example.com/color": "red"}
    await cli_fleet.init("--no-probe")
    await client.create(MANAGED_CLUSTERS, a_cluster(EDGE.name, accepted=True))
    await client.create(MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(bare))  # its agent wrote no spec
    await client.patch(MANAGED_CLUSTERS, EDGE, {"metadata": {"annotations": old}})
    file = str(cli_fleet.folder / "backup")
    await cli_fleet.run("backup", file, "--hub", "--plain")
    await client.patch(MANAGED_CLUSTERS, EDGE, {"metadata": {"annotations": new}})
    await client.delete(MANAGED_CLUSTERS, bare)

    await cli_fleet.run("restore", file, "--hub", "--replace", "--yes")

    restored = annotations_of(await client.get(MANAGED_CLUSTERS, EDGE))
    assert restored[Annotation.FIRST_KEY] == new[Annotation.FIRST_KEY]
    assert restored["example.com/color"] == "blue"
    assert await client.find(MANAGED_CLUSTERS, bare) is not None


async def test_expired_join_token_is_not_restored(
    cli_fleet: Fleet, other: OtherCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    await cli_fleet.init("--no-probe")
    record = TokenRecord(BootstrapToken.generate(), expires=datetime.now(UTC) - timedelta(hours=1))
    await cli_fleet.client.create(SECRETS, write_token_secret(record))
    await cli_fleet.run("backup", str(cli_fleet.folder / "backup"), "--hub", "--plain")

    assert await other.run("restore", str(cli_fleet.folder / "backup"), "--hub") == 0

    name = f"bootstrap-token-{record.token.id}"
    assert f"secret/kube-system/{name}: the token has expired" in capsys.readouterr().out
    assert await other.client.find(SECRETS, ObjectKey("kube-system", name)) is None


async def test_agent_goes_on_with_its_certificate_after_its_hub_was_removed_and_restored(member: Member) -> None:
    fleet = member.fleet
    await member.asks()
    await fleet.run("accept", "--clusters", member.name, "--wait")
    await member.joined()
    before = await fleet.client.get(SECRETS, ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET))
    uid = uid_of(await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name)))
    file = str(fleet.folder / "backup")
    await fleet.run("backup", file, "--hub", "--plain")

    fleet.tasks[0].cancel()  # the hub
    await fleet.run("clean", "--force", "--yes")
    await fleet.run("restore", file, "--hub", "--replace", "--yes", "--undo-revocations")
    await fleet.init("--no-probe")
    fleet.start_hub()

    assert uid_of(await member.joined()) != uid
    after = await fleet.client.get(SECRETS, ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET))
    assert after["data"]["tls.crt"] == before["data"]["tls.crt"]


async def test_nothing_is_left_of_a_hub_that_was_removed(cli_fleet: Fleet) -> None:
    before = await everything(cli_fleet.client)
    await cli_fleet.run("init", "--no-probe")
    added = await everything(cli_fleet.client) - before

    await cli_fleet.run("clean", "--delete-kinds", "--yes")

    assert len(added) > 40
    assert await everything(cli_fleet.client) - before == set()
    await is_told(cli_fleet.client, HUB_NAMESPACE, "HubRemoved")


async def test_hub_with_clusters_is_not_removed_unasked(cli_fleet: Fleet) -> None:
    await a_hub(cli_fleet)
    before = await everything(cli_fleet.client)

    assert "1 cluster is in this hub (edge-1)" in await cli_fleet.run("clean", "--yes", code=4)
    shown = await cli_fleet.run("clean", "--force", "--dry-run")
    assert "give --yes" in await cli_fleet.run("clean", "--force", code=2)

    assert "remove managedcluster/edge-1" in shown
    assert await everything(cli_fleet.client) == before


async def test_cluster_without_a_hub_has_nothing_to_remove(cli_fleet: Fleet) -> None:
    assert "there is no hub on this cluster" in await cli_fleet.run("clean", "--yes")


async def test_kinds_and_cluster_info_of_another_tool_stay(cli_fleet: Fleet) -> None:
    info = CONFIG_MAPS.manifest(ObjectKey("kube-public", "cluster-info"), data={"kubeconfig": "of kubeadm"})
    await cli_fleet.run("init", "--no-probe", "--no-deploy")
    await cli_fleet.client.delete(CONFIG_MAPS, ObjectKey.of(info))
    await cli_fleet.client.create(CONFIG_MAPS, info)

    shown = await cli_fleet.run("clean", "--yes")

    assert "keep the kinds (CustomResourceDefinitions): give --delete-kinds to remove them" in shown
    assert await cli_fleet.client.find(CONFIG_MAPS, ObjectKey.of(info)) is not None
    assert (await cli_fleet.client.list(MANAGED_CLUSTERS)).items == []
