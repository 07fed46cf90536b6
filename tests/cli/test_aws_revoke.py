"""`watchword aws revoke` deletes the role of a cluster that has no rights any more, and no other."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Fleet

from watchword.api.meta import uid_of
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.cli._exit_codes import ExitCode
from watchword.registration.aws_irsa.documents import EksClusterArn
from watchword.registration.aws_irsa.identity import ClusterIdentity, IdentityPhase, IdentityRecord
from watchword.testing.builders import a_cluster

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]

HUB = EksClusterArn("aws", "us-west-2", "111122223333", "fleet-hub")


async def test_cluster_without_role_is_named(cli_fleet: Fleet) -> None:
    assert await cli_fleet.run("aws", "revoke", "edge-unknown") == "cluster edge-unknown has no IAM role\n"


async def test_role_of_a_cluster_with_rights_is_kept(cli_fleet: Fleet) -> None:
    await cli_fleet.run("init", "--no-deploy", "--no-probe", "--token", "")
    name, client = cli_fleet.unique("edge"), cli_fleet.client
    cluster = await client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
    managed = EksClusterArn("aws", "eu-central-1", "444455556666", name)
    record = IdentityRecord(ClusterIdentity(name, uid_of(cluster), HUB, managed), IdentityPhase.READY)
    stored = await client.create(LEASES, record.manifest())

    said = await cli_fleet.run("aws", "revoke", name, code=ExitCode.REFUSED)

    assert f"take them first with `watchword deny {name} --wait`" in said
    assert await client.get(LEASES, record.key) == stored
    await client.delete(LEASES, record.key)
