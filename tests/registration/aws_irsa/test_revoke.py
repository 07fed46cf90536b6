"""A cluster that registers by IAM is revoked like any other."""

from __future__ import annotations

from datetime import timedelta

from tests.registration.aws_irsa.aws_fleet import AwsFleet
from tests.registration.aws_irsa.test_hub_identities import has_no_identity_condition

from watchword.admin.accept import HubAdmin
from watchword.admin.revoke.kinds import plan_cluster
from watchword.admin.revoke.revocation import RefusalMeasurement
from watchword.api.meta import ObjectKey
from watchword.api.names import cluster_group_plain
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.testing.eventually import eventually


async def test_revoked_cluster_loses_its_rights_and_its_role(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted()
    client = aws_fleet.members.client
    admin = HubAdmin(client, aws_fleet.members.plane.clock)
    planned = await plan_cluster(admin, identity.cluster)
    before = [await probe.is_refused() for probe in planned.probes]

    assert await planned.act()
    refusals = await RefusalMeasurement(timedelta(minutes=1), 0.0).run(planned.probes)
    assert before == [False, False]
    assert cluster_group_plain(identity.cluster) in [row.holder for row in refusals if row.seconds is not None]
    await eventually(client, MANAGED_CLUSTERS, ObjectKey.cluster(identity.cluster), has_no_identity_condition)
    assert (aws_fleet.aws.roles, aws_fleet.aws.entries) == ({}, {})
