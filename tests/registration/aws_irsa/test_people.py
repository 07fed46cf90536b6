"""A person makes and deletes identities with AWS credentials of their own."""

from __future__ import annotations

import asyncio

import pytest
from tests.registration.aws_irsa.aws_fleet import HUB, AwsFleet, arn_of, in_mode

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.registration.aws_irsa.errors import AwsRefused, RoleTaken, StillAccepted
from watchword.registration.aws_irsa.hub import prepare_acceptance, revoke_identities
from watchword.registration.aws_irsa.identity import ClusterIdentity
from watchword.registration.driver import AcceptanceContext

pytestmark = pytest.mark.planes("embedded")  # hours of virtual time

BY_PEOPLE = in_mode("accept")


async def prepare(fleet: AwsFleet, name: str, *, dry_run: bool = False) -> ClusterIdentity:
    client = fleet.members.client
    cluster = await client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    context = AcceptanceContext(client=client, cluster=cluster, settings=BY_PEOPLE, dry_run=dry_run)
    await prepare_acceptance(context, api=fleet.aws)
    return ClusterIdentity(name, cluster["metadata"]["uid"], HUB, arn_of("edge-1"))


async def test_identity_is_made_before_the_cluster_is_accepted(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub(BY_PEOPLE)
    name = await aws_fleet.ask(arn_of("edge-1"))

    identity = await prepare(aws_fleet, name)
    await aws_fleet.members.accept(name)

    await aws_fleet.members.condition(name, ConditionType.HUB_ACCEPTED, "True")
    assert aws_fleet.is_in_aws(identity)


async def test_second_run_repairs_and_a_dry_run_asks_nothing(aws_fleet: AwsFleet) -> None:
    name = await aws_fleet.ask(arn_of("edge-1"))
    await prepare(aws_fleet, name, dry_run=True)
    assert aws_fleet.aws.requests.total() == 0

    identity = await prepare(aws_fleet, name)
    aws_fleet.role(identity).policies.clear()
    await prepare(aws_fleet, name)

    assert aws_fleet.is_in_aws(identity)


async def test_interrupted_run_is_completed_by_the_next(aws_fleet: AwsFleet) -> None:
    name = await aws_fleet.ask(arn_of("edge-1"))
    aws_fleet.aws.denied = frozenset({"create_access_entry"})
    with pytest.raises(AwsRefused):
        await prepare(aws_fleet, name)

    aws_fleet.aws.denied = frozenset()
    identity = await prepare(aws_fleet, name)

    assert aws_fleet.is_in_aws(identity)


async def test_second_cluster_for_a_role_is_refused(aws_fleet: AwsFleet) -> None:
    first = await aws_fleet.ask(arn_of("edge-1"))
    await prepare(aws_fleet, first)
    second = await aws_fleet.ask(arn_of("edge-1", region="us-east-1"))

    with pytest.raises(RoleTaken, match=f"belongs to cluster {first}"):
        await prepare(aws_fleet, second)


async def test_hub_waits_for_the_person_who_deletes_the_role(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub(BY_PEOPLE)
    name = await aws_fleet.ask(arn_of("edge-1"))
    await prepare(aws_fleet, name)
    await aws_fleet.members.accept(name)
    await aws_fleet.members.condition(name, ConditionType.HUB_ACCEPTED, "True")
    client = aws_fleet.members.client
    with pytest.raises(StillAccepted, match="watchword deny"):
        await revoke_identities(client, name, api=aws_fleet.aws)

    await client.delete(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    row = await aws_fleet.reported(name, "IdentityMissing")

    assert f"`watchword aws revoke {name}`" in row["message"]
    assert await revoke_identities(client, name, api=aws_fleet.aws)
    await asyncio.sleep(600)
    await aws_fleet.is_gone(name)
    assert (aws_fleet.aws.roles, aws_fleet.aws.entries) == ({}, {})
    assert await revoke_identities(client, name, api=aws_fleet.aws) == []
