"""What the hub refuses about IAM identities, and how it says so."""

from __future__ import annotations

import asyncio

import pytest
from tests.emulators.memory_aws import NAME, MemoryRole
from tests.helpers.events import is_told
from tests.registration.aws_irsa.aws_fleet import HUB, AwsFleet, arn_of, in_mode, with_pattern

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CONFIG_MAPS, LEASES, MANAGED_CLUSTERS
from watchword.registration.aws_irsa.documents import RoleTags, hub_role
from watchword.registration.aws_irsa.hub import DRIFT_PERIOD
from watchword.registration.aws_irsa.identity import ClusterIdentity, record_key
from watchword.registration.aws_irsa.options import MANAGED_ARN, OCM_MANAGED_ARN, OCM_ROLE_SUFFIX
from watchword.registration.aws_irsa.role_mapping import AWS_AUTH

pytestmark = pytest.mark.planes("embedded")  # hours of virtual time

ACCEPTED = ConditionType.HUB_ACCEPTED


async def test_later_change_of_the_annotation_is_reported_and_has_no_effect(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity, victim = await aws_fleet.accepted("edge-1"), await aws_fleet.accepted("edge-2")

    await aws_fleet.annotate(identity.cluster, **{MANAGED_ARN: str(victim.managed)})

    row = await aws_fleet.reported(identity.cluster, "IdentityChangeRefused", "True")
    assert f"was accepted as {identity.managed}" in row["message"]
    await asyncio.sleep(2 * DRIFT_PERIOD.total_seconds())
    assert aws_fleet.is_in_aws(identity)
    await aws_fleet.members.remove(identity.cluster)
    assert aws_fleet.is_in_aws(victim)
    assert identity.role.name not in aws_fleet.aws.roles


async def test_cluster_that_hides_its_driver_keeps_it(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub(drivers=("csr", NAME))
    identity = await aws_fleet.accepted()

    await aws_fleet.annotate(identity.cluster, **{MANAGED_ARN: None})
    await aws_fleet.reported(identity.cluster, "IdentityChangeRefused", "True")
    await aws_fleet.members.remove(identity.cluster)

    assert aws_fleet.aws.roles == {}


async def test_cluster_accepted_by_certificate_gets_no_role_by_annotation(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub(drivers=("csr", NAME))
    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True, team="platform")
    await aws_fleet.members.condition(name, ACCEPTED, "True")

    await aws_fleet.annotate(name, **{MANAGED_ARN: str(arn_of("edge-1"))})
    await asyncio.sleep(300)

    assert aws_fleet.aws.requests.total() == 0
    await aws_fleet.members.condition(name, ACCEPTED, "True")
    await is_told(aws_fleet.members.client, name, "DriverChangeRefused")


@pytest.mark.parametrize("region", ["eu-central-1", "us-east-1"])
async def test_two_clusters_never_share_a_role(aws_fleet: AwsFleet, region: str) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted("edge-1")

    second = await aws_fleet.ask(arn_of("edge-1", region=region), accepted=True)

    row = await aws_fleet.reported(second, "RoleTaken", type_=ACCEPTED)
    assert f"belongs to cluster {identity.cluster}" in row["message"]
    await aws_fleet.members.remove(second)
    assert aws_fleet.is_in_aws(identity)


async def test_record_that_another_program_wrote_is_left_as_it_is(aws_fleet: AwsFleet) -> None:
    key = record_key(ClusterIdentity("edge", "uid", HUB, arn_of("edge-1")))
    client = aws_fleet.members.client
    foreign = await client.create(LEASES, LEASES.manifest(key, spec={"holderIdentity": "another program"}))
    aws_fleet.start_hub()

    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True)

    row = await aws_fleet.reported(name, "RoleTaken", type_=ACCEPTED)
    assert f"Lease {key} cannot be read" in row["message"]
    assert await client.get(LEASES, key) == foreign
    assert aws_fleet.aws.roles == {}


async def test_new_cluster_of_a_name_waits_for_the_role_of_the_old_one(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    identity = await aws_fleet.accepted("edge-1")
    aws_fleet.aws.reachable = False
    client, key = aws_fleet.members.client, ObjectKey.cluster(identity.cluster)
    await client.delete(MANAGED_CLUSTERS, key)
    await aws_fleet.reported(identity.cluster, "AwsUnreachable")
    await client.patch(MANAGED_CLUSTERS, key, {"metadata": {"finalizers": None}})
    await aws_fleet.is_gone(identity.cluster)

    await aws_fleet.ask(arn_of("edge-2"), accepted=True, name=identity.cluster)
    await aws_fleet.reported(identity.cluster, "EarlierIdentityGoing", type_=ACCEPTED)

    aws_fleet.aws.reachable = True
    await asyncio.sleep(400)
    await aws_fleet.members.condition(identity.cluster, ACCEPTED, "True")
    assert set(aws_fleet.aws.roles) == {hub_role(HUB, arn_of("edge-2")).name}


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({MANAGED_ARN: "arn:aws:eks:eu-central-1:444455556666:cluster"}, id="no name"),
        pytest.param({MANAGED_ARN: "arn:aws-cn:eks:cn-north-1:444455556666:cluster/edge-1"}, id="other partition"),
        pytest.param({MANAGED_ARN: "arn:aws:eks:eu-central-1:444455556666:cluster/a#b"}, id="delimiter"),
        pytest.param({MANAGED_ARN: "x" * 10_000}, id="ten kilobytes"),
        pytest.param({OCM_ROLE_SUFFIX: "0" * 32}, id="suffix alone"),
        pytest.param({MANAGED_ARN: str(arn_of("a")), OCM_MANAGED_ARN: str(arn_of("b"))}, id="two ARNs"),
    ],
)
async def test_annotations_that_name_no_eks_cluster_are_refused(
    aws_fleet: AwsFleet, annotations: dict[str, str]
) -> None:
    aws_fleet.start_hub()

    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True, **annotations)

    await aws_fleet.reported(name, "InvalidManagedClusterArn", type_=ACCEPTED)
    assert aws_fleet.aws.requests.total() == 0


async def test_agent_of_another_hub_is_accepted_and_told(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    managed = arn_of("edge-1")

    name = await aws_fleet.ask(managed, accepted=True, **{OCM_MANAGED_ARN: str(managed), OCM_ROLE_SUFFIX: "0" * 32})
    said = await aws_fleet.reported(name, "OtherHubNamed", "True")
    await aws_fleet.annotate(name, **{OCM_ROLE_SUFFIX: RoleTags.of(HUB, managed).identifier})

    assert str(HUB) in said["message"]
    await aws_fleet.reported(name, "AwsIdentityReady", "True")


async def test_annotations_of_open_cluster_management_are_accepted(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub()
    managed = arn_of("edge-1")
    notes = {OCM_MANAGED_ARN: str(managed), OCM_ROLE_SUFFIX: RoleTags.of(HUB, managed).identifier}

    name = await aws_fleet.ask(managed, accepted=True, **notes)

    await aws_fleet.members.condition(name, ACCEPTED, "True")


async def test_role_of_open_cluster_management_is_adopted_by_its_trust_policy(aws_fleet: AwsFleet) -> None:
    managed = arn_of("edge-1")
    role = hub_role(HUB, managed)
    aws_fleet.aws.roles[role.name] = MemoryRole(role.arn, role.trust, {"team": "fleet"}, 0.0)  # without a policy
    aws_fleet.start_hub()

    name = await aws_fleet.ask(managed, accepted=True)

    await aws_fleet.members.condition(name, ACCEPTED, "True")
    adopted = aws_fleet.aws.roles[role.name]
    assert adopted.tags == {"team": "fleet", **role.tags}
    assert adopted.policies == {role.name: role.access}


async def test_role_without_the_tags_of_the_cluster_is_left_as_it_is(aws_fleet: AwsFleet) -> None:
    role = hub_role(HUB, arn_of("edge-1"))
    foreign = aws_fleet.aws.roles[role.name] = MemoryRole(role.arn, {"Statement": []}, {}, 0.0)
    aws_fleet.start_hub()

    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True)

    await aws_fleet.reported(name, "ForeignRole")
    assert (foreign.trust, foreign.tags, foreign.policies) == ({"Statement": []}, {}, {})


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        pytest.param({"reachable": False}, "AwsUnreachable", id="no answer"),
        pytest.param({"denied": frozenset({"create_role"})}, "AwsRefused", id="no permission"),
        pytest.param({"account": "999900001111"}, "WrongAwsAccount", id="other account"),
        pytest.param({"lag": 10_000.0}, "WaitingForIam", id="IAM never settles"),
        pytest.param(
            {
                "absent_principals": frozenset(
                    {hub_role(HUB, arn_of("edge-1")).trust["Statement"][0]["Principal"]["AWS"]}
                )
            },
            "AgentRoleMissing",
            id="the agent's role is missing",
        ),
    ],
)
async def test_failure_is_a_condition_and_ends_by_itself(
    aws_fleet: AwsFleet, problem: dict[str, object], reason: str
) -> None:
    healthy = {name: getattr(aws_fleet.aws, name) for name in problem}
    for name, value in problem.items():
        setattr(aws_fleet.aws, name, value)
    aws_fleet.start_hub()
    cluster = await aws_fleet.ask(arn_of("edge-1"), accepted=True)
    await asyncio.sleep(120)

    await aws_fleet.reported(cluster, reason)
    for name, value in healthy.items():
        setattr(aws_fleet.aws, name, value)
    for role in aws_fleet.aws.roles.values():
        role.visible_from = 0.0
    await asyncio.sleep(300)

    await aws_fleet.members.condition(cluster, ACCEPTED, "True")


async def test_unreadable_config_map_is_reported_and_left_as_it_is(aws_fleet: AwsFleet) -> None:
    aws_fleet.aws.authentication_mode = "CONFIG_MAP"
    client, broken = aws_fleet.members.client, "- rolearn: [unclosed\n"
    await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(AWS_AUTH, data={"mapRoles": broken}))
    aws_fleet.start_hub()
    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True)

    row = await aws_fleet.reported(name, "AwsAuthUnreadable")

    assert "kubectl -n kube-system edit configmap aws-auth" in row["message"]
    assert (await client.get(CONFIG_MAPS, AWS_AUTH))["data"] == {"mapRoles": broken}
    await client.delete(CONFIG_MAPS, AWS_AUTH)
    await asyncio.sleep(300)
    await aws_fleet.members.condition(name, ACCEPTED, "True")


async def test_hub_that_only_verifies_writes_nothing_to_aws(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub(in_mode("external"))
    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True)

    row = await aws_fleet.reported(name, "IdentityMissing")

    assert "this hub only verifies it" in row["message"]
    assert not [operation for operation in aws_fleet.aws.requests if operation.split(":")[1].startswith("create")]


async def test_identity_made_outside_is_accepted_and_left_behind(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub(in_mode("external"))
    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True)
    await aws_fleet.reported(name, "IdentityMissing")
    role = hub_role(HUB, arn_of("edge-1"))
    made = MemoryRole(role.arn, role.trust, dict(role.tags), 0.0, {role.name: role.access})
    aws_fleet.aws.roles[role.name] = made
    user, group = f"open-cluster-management:{name}:agent", f"open-cluster-management:{name}"
    aws_fleet.aws.entries[role.arn] = {"kubernetesGroups": [group], "username": user, "type": "STANDARD"}

    await asyncio.sleep(200)
    await aws_fleet.members.condition(name, ACCEPTED, "True")
    await aws_fleet.members.remove(name)

    assert (aws_fleet.aws.roles, set(aws_fleet.aws.entries)) == ({role.name: made}, {role.arn})


async def test_hub_that_leaves_identities_to_people_says_what_to_run(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub(in_mode("accept"))
    name = await aws_fleet.ask(arn_of("edge-1"), accepted=True)

    row = await aws_fleet.reported(name, "AwsIdentityMissing", type_=ACCEPTED)

    assert f"`watchword accept {name}`" in row["message"]
    assert aws_fleet.aws.requests.total() == 0


@pytest.mark.parametrize(
    ("pattern", "accepted"),
    [
        pytest.param(r"arn:aws:eks:eu-central-1:444455556666:cluster/edge-\d", True, id="whole ARN"),
        pytest.param(r"arn:aws:eks:eu-central-1:444455556666:cluster/edge", False, id="beginning only"),
        pytest.param(r"cluster/edge-1", False, id="end only"),
        pytest.param(r"arn:aws:eks:.*:999900001111:cluster/.*", False, id="other account"),
    ],
)
async def test_pattern_accepts_whole_arns_only(aws_fleet: AwsFleet, pattern: str, *, accepted: bool) -> None:
    aws_fleet.start_hub(with_pattern(pattern), auto=True)

    name = await aws_fleet.ask(arn_of("edge-1"))
    await asyncio.sleep(60)

    found = await aws_fleet.members.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert found["spec"]["hubAcceptsClient"] is accepted


async def test_pattern_has_no_effect_without_its_feature_gate(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub(with_pattern(".*"))

    name = await aws_fleet.ask(arn_of("edge-1"))
    await asyncio.sleep(60)

    found = await aws_fleet.members.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert found["spec"]["hubAcceptsClient"] is False
