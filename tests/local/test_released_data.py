"""The data directory of an earlier release, killed during a rotation, is opened by the present code."""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from watchword.api.conditions import is_true
from watchword.api.http import Peer, Request
from watchword.api.meta import ObjectKey, annotations_of, uid_of
from watchword.api.names import AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET, Annotation, ConditionType
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTERS, SECRETS, SELF_SUBJECT_REVIEWS
from watchword.api.sensitive import Sensitive
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.apiserver.store.snapshot import CURRENT, read_snapshot
from watchword.credentials.credential_secret import decode_data
from watchword.kube.client import Client
from watchword.local.backup import back_up_directory
from watchword.local.data_directory import FleetDirectory
from watchword.pki.certificates import parse_certificate
from watchword.testing.builders import a_config_map

pytestmark = [pytest.mark.real_time]

ARCHIVE = Path(__file__).parents[1] / "data" / "fleet-0.1.0.tar.xz"
NOW = datetime(2026, 11, 15, 18, 10, tzinfo=UTC)  # shortly after the release was killed: no certificate has expired
UID = "f1822322-fbca-4dd2-9762-e7c8b04469eb"
USER = "system:open-cluster-management:cluster1:c98od"
CLUSTER = ObjectKey.cluster("cluster1")


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The data directory, as the release left it."""
    folder = tmp_path / "fleet"
    folder.mkdir(mode=0o700)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    for path in (folder / "hub", folder / "cluster1"):
        path.chmod(0o700)
    return folder


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Instance, Client]]:
    instance = Instance(InstanceSettings(folder, port=0), lambda: NOW)
    await instance.start()
    token = instance.material.admin_token.reveal()
    try:
        yield instance, Client.from_handler(instance.plane.handle, authorization=Sensitive(f"Bearer {token}"))
    finally:
        await instance.stop()


async def user_of(hub: Instance, certificate: bytes) -> str:
    """Return whom the hub recognises by a client certificate."""
    body = orjson.dumps({"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind})
    peer = Peer("127.0.0.1", (parse_certificate(certificate).der,))
    headers = (("Content-Type", "application/json"),)
    response = await hub.plane.handle(
        Request("POST", SELF_SUBJECT_REVIEWS.path(), headers=headers, body=body, peer=peer)
    )
    return str(orjson.loads(response.body)["status"]["userInfo"]["username"])


async def test_cluster_and_the_rotation_that_had_begun_are_there(released: Path) -> None:
    async with opened(released / "hub") as (_, hub):
        cluster = await hub.get(MANAGED_CLUSTERS, CLUSTER)

    assert uid_of(cluster) == UID
    assert cluster["spec"]["hubAcceptsClient"] is True
    assert is_true(cluster, ConditionType.JOINED)
    assert Annotation.ROTATION_REQUEST in annotations_of(cluster)


async def test_hub_honours_the_credential_that_the_release_issued(released: Path) -> None:
    async with opened(released / "cluster1") as (_, cluster):
        secret = await cluster.get(SECRETS, ObjectKey(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET))
    async with opened(released / "hub") as (hub, _):
        assert await user_of(hub, decode_data(secret)["tls.crt"]) == USER


async def test_revisions_go_on_and_the_file_is_migrated(released: Path) -> None:
    before = read_snapshot((await back_up_directory(released, NOW)).files["hub/state.db"], "hub")
    async with opened(released / "hub") as (_, hub):
        made = await hub.create(CONFIG_MAPS, a_config_map("made", namespace="default", data={}))
    after = read_snapshot((await back_up_directory(released, NOW)).files["hub/state.db"], "hub")

    assert int(made["metadata"]["resourceVersion"]) > before.revision
    assert after.version == CURRENT.version
    assert before.rows.keys() <= after.rows.keys()


def test_layout_of_the_fleet_is_read(released: Path) -> None:
    layout = FleetDirectory(released).recorded()

    assert layout is not None
    assert [address.name for address in layout.addresses] == ["hub", "cluster1"]
