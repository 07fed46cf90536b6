"""An accepted cluster gets an IAM role that is mapped to its group, and loses both with its acceptance."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers.events import is_told
from tests.registration.aws_irsa.aws_fleet import SETTINGS, AwsFleet, arn_of

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType, cluster_group, cluster_group_plain
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, MANAGED_CLUSTERS
from watchword.registration.aws_irsa.hub import DRIFT_PERIOD
from watchword.registration.aws_irsa.options import TAGS
from watchword.registration.aws_irsa.role_mapping import AWS_AUTH, read_entries
from watchword.testing.eventually import eventually, is_gone

pytestmark = pytest.mark.planes("embedded")  # hours of virtual time


async def test_accepted_cluster_has_role_policy_tags_and_access_entry(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()

    identity = await aws_fleet.accepted()

    assert aws_fleet.is_in_aws(identity)
    binding = ObjectKey.cluster(f"open-cluster-management:managedcluster:{identity.cluster}")
    found = await aws_fleet.members.client.get(CLUSTER_ROLE_BINDINGS, binding)
    names = {subject["name"] for subject in found["subjects"]}
    assert names == {identity.user, cluster_group_plain(identity.cluster)}


async def test_role_is_told_when_it_is_made_and_when_it_is_deleted(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()

    identity = await aws_fleet.accepted()
    await is_told(aws_fleet.members.client, identity.cluster, "AwsIdentityCreated")
    await aws_fleet.members.remove(identity.cluster)

    await is_told(aws_fleet.members.client, identity.cluster, "AwsIdentityRevoked")


async def test_acceptance_costs_two_requests_to_iam(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()

    await aws_fleet.accepted()

    assert aws_fleet.aws.iam_requests == 2


async def test_hub_without_access_entries_maps_by_config_map(aws_fleet: AwsFleet) -> None:
    aws_fleet.aws.authentication_mode = "CONFIG_MAP"
    aws_fleet.start_hub()

    identity = await aws_fleet.accepted()

    found = await aws_fleet.members.client.get(CONFIG_MAPS, AWS_AUTH)
    own = [row for row in read_entries(found["data"]["mapRoles"]) if row["rolearn"] == identity.role.arn]
    assert own == [
        {"rolearn": identity.role.arn, "username": identity.user, "groups": [cluster_group(identity.cluster)]}
    ]
    assert aws_fleet.aws.entries == {}
    await aws_fleet.members.remove(identity.cluster)
    left = await aws_fleet.members.client.get(CONFIG_MAPS, AWS_AUTH)
    assert identity.role.arn not in left["data"]["mapRoles"]


async def test_cluster_is_not_accepted_while_iam_has_not_settled(aws_fleet: AwsFleet) -> None:
    aws_fleet.aws.lag = 12.0
    aws_fleet.start_hub()
    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True)

    await aws_fleet.reported(name, "AwsIdentityPending", type_=ConditionType.HUB_ACCEPTED)

    await aws_fleet.members.condition(name, ConditionType.HUB_ACCEPTED, "True")
    assert len(aws_fleet.aws.roles) == 1


async def test_drift_of_role_and_entry_is_repaired(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted()
    role = aws_fleet.role(identity)
    role.trust = {"Version": "2012-10-17", "Statement": []}
    role.tags["managed_cluster_name"] = "edge-2"
    role.policies.clear()
    aws_fleet.aws.entries[identity.role.arn]["kubernetesGroups"] = ["admins"]

    await asyncio.sleep(DRIFT_PERIOD.total_seconds() + 10)

    assert aws_fleet.is_in_aws(identity)
    await is_told(aws_fleet.members.client, identity.cluster, "AwsIdentityRepaired")


async def test_role_has_the_tags_that_the_hub_is_configured_with(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub({**SETTINGS, TAGS.flag: "cost-center=42,team=fleet=west"})
    identity = await aws_fleet.accepted()
    wanted = {**identity.role.tags, "cost-center": "42", "team": "fleet=west"}
    assert aws_fleet.role(identity).tags == wanted
    del aws_fleet.role(identity).tags["team"]

    await asyncio.sleep(DRIFT_PERIOD.total_seconds() + 10)

    assert aws_fleet.role(identity).tags == wanted
    del aws_fleet.role(identity).tags["team"]  # a tag that does not name the cluster does not decide whose role it is
    await aws_fleet.members.remove(identity.cluster)
    assert aws_fleet.aws.roles == {}


async def test_role_that_was_deleted_is_created_again(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted()
    aws_fleet.aws.roles.clear()
    aws_fleet.aws.entries.clear()

    await asyncio.sleep(DRIFT_PERIOD.total_seconds() + 60)

    assert aws_fleet.is_in_aws(identity)


async def test_changes_of_a_cluster_are_no_reason_to_ask_aws(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted()
    before = aws_fleet.aws.requests.total()

    for number in range(20):
        await aws_fleet.annotate(identity.cluster, counted=str(number))
    await asyncio.sleep(60)

    assert aws_fleet.aws.requests.total() == before


async def test_denied_cluster_loses_entry_policies_and_role(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted()
    aws_fleet.role(identity).policies["audit"] = {}
    aws_fleet.role(identity).attached.append("arn:aws:iam::aws:policy/ReadOnlyAccess")

    await aws_fleet.members.accept(identity.cluster, accepted=False)

    await aws_fleet.members.condition(identity.cluster, ConditionType.HUB_ACCEPTED, "False")
    await eventually(
        aws_fleet.members.client, MANAGED_CLUSTERS, ObjectKey.cluster(identity.cluster), has_no_identity_condition
    )
    assert (aws_fleet.aws.roles, aws_fleet.aws.entries) == ({}, {})


def has_no_identity_condition(found: object) -> bool:
    rows = found["status"]["conditions"] if isinstance(found, dict) else []
    return all(row["type"] != "AwsIdentityReady" for row in rows)


async def test_denied_cluster_returns_with_a_new_role(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted()
    await aws_fleet.members.accept(identity.cluster, accepted=False)
    await aws_fleet.members.condition(identity.cluster, ConditionType.HUB_ACCEPTED, "False")

    await aws_fleet.members.accept(identity.cluster)

    await aws_fleet.members.condition(identity.cluster, ConditionType.HUB_ACCEPTED, "True")
    assert aws_fleet.is_in_aws(identity)


async def test_deleted_cluster_is_kept_until_aws_has_confirmed(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted()
    aws_fleet.aws.reachable = False
    client, key = aws_fleet.members.client, ObjectKey.cluster(identity.cluster)

    await client.delete(MANAGED_CLUSTERS, key)
    waiting = await aws_fleet.reported(identity.cluster, "ResourceRemaining", "True", ConditionType.DELETING)
    await aws_fleet.reported(identity.cluster, "AwsUnreachable")

    assert identity.role.arn in waiting["message"]
    binding = ObjectKey.cluster(f"open-cluster-management:managedcluster:{identity.cluster}")
    await eventually(client, CLUSTER_ROLE_BINDINGS, binding, is_gone)  # its rights did not wait for AWS
    aws_fleet.aws.reachable = True
    await eventually(client, MANAGED_CLUSTERS, key, is_gone, within=600)
    assert (aws_fleet.aws.roles, aws_fleet.aws.entries) == ({}, {})


async def test_role_of_a_cluster_whose_record_vanished_is_deleted(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted()
    client, key = aws_fleet.members.client, ObjectKey.cluster(identity.cluster)
    aws_fleet.aws.reachable = False
    await client.delete(MANAGED_CLUSTERS, key)
    await aws_fleet.reported(identity.cluster, "AwsUnreachable")

    await client.patch(MANAGED_CLUSTERS, key, {"metadata": {"finalizers": None}})
    await aws_fleet.is_gone(identity.cluster)
    aws_fleet.aws.reachable = True
    await asyncio.sleep(300)

    assert (aws_fleet.aws.roles, aws_fleet.aws.entries) == ({}, {})
