"""An acceptance is for one driver: neither the hub nor the agent takes it for another."""

from __future__ import annotations

import asyncio

import pytest
from tests.emulators.memory_aws import NAME
from tests.helpers.events import is_told
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, BOOTSTRAP_USER
from tests.registration.aws_irsa.aws_fleet import HUB, SETTINGS, AwsFleet, arn_of
from tests.registration.test_join import request_with_another_key
from tests.security.compromised_agent import taken_over

from watchword.admin.accept import ClusterAcceptor, HubAdmin
from watchword.admin.errors import OperationRefused
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_MANAGERS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.credentials.certificates.requests import is_pending
from watchword.credentials.credential_secret import decode_data
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden
from watchword.operator.cluster_manager import CLUSTER_MANAGER
from watchword.registration.aws_irsa.options import HUB_CLUSTER_ARN, MANAGED_ARN, MANAGED_CLUSTER_ARN
from watchword.registration.catalog import CATALOG
from watchword.testing.eventually import eventually

pytestmark = pytest.mark.planes("embedded")

ACCEPTED = ConditionType.HUB_ACCEPTED


async def test_certificate_is_not_issued_to_a_cluster_accepted_by_its_role(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub({**SETTINGS, **AUTOMATIC}, drivers=("csr", NAME), auto=True)
    identity, client = await aws_fleet.accepted(), aws_fleet.members.client

    csr = await request_with_another_key(joining(aws_fleet), identity.cluster)

    await is_told(client, csr, "DriverNotAccepted")
    assert is_pending(await client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(csr)))


async def test_earlier_certificate_has_no_rights_on_a_cluster_accepted_by_its_role(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub({**SETTINGS, **AUTOMATIC}, drivers=("csr", NAME), auto=True)
    name, members = aws_fleet.members.name(), aws_fleet.members
    agent = members.start_agent(name)
    await members.joined(name)
    holder = await taken_over(members, name)
    await members.stop(agent)
    await members.accept(name, accepted=False)
    await members.condition(name, ACCEPTED, "False")

    await aws_fleet.annotate(name, **{MANAGED_ARN: str(arn_of("edge-1"))})
    await members.accept(name)

    await members.condition(name, ACCEPTED, "True")
    with pytest.raises(Forbidden):
        await holder.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))


async def test_accept_approves_no_request_on_a_hub_without_the_driver(aws_fleet: AwsFleet) -> None:
    client, name = aws_fleet.members.client, await aws_fleet.ask(HUB, team="platform")
    csr = await request_with_another_key(joining(aws_fleet), name)
    spec = {"registrationConfiguration": {"registrationDrivers": [{"authType": "awsirsa"}]}}
    await client.create(CLUSTER_MANAGERS, CLUSTER_MANAGERS.manifest(ObjectKey.cluster(CLUSTER_MANAGER), spec=spec))
    acceptor = ClusterAcceptor(HubAdmin(client, aws_fleet.members.plane.clock), ApprovalTerms(anyone=True))

    with pytest.raises(OperationRefused, match="driver csr, which this hub does not have enabled"):
        await acceptor.accept(name)

    assert is_pending(await client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(csr)))


async def test_agent_keeps_its_certificate_until_the_hub_releases_its_driver(aws_fleet: AwsFleet) -> None:
    aws_fleet.start_hub({**SETTINGS, **AUTOMATIC}, drivers=("csr", NAME), auto=True)
    name, members = aws_fleet.members.name(), aws_fleet.members
    agent = members.start_agent(name)
    await members.joined(name)
    await members.stop(agent)
    held = await secret_of(aws_fleet, name)
    managed = arn_of("edge-1")
    settings = {HUB_CLUSTER_ARN.flag: str(HUB), MANAGED_CLUSTER_ARN.flag: str(managed)}

    members.start_agent(name, registration_auth=NAME, settings=settings)

    await eventually(members.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), lambda found: claims(found, managed))
    await asyncio.sleep(3600)
    assert await secret_of(aws_fleet, name) == held
    await members.condition(name, ConditionType.AVAILABLE, "True")

    await members.accept(name, accepted=False)
    await members.condition(name, ACCEPTED, "False")
    await members.accept(name)

    await members.condition(name, ACCEPTED, "True")
    found = await members.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert annotations_of(found)[Annotation.ACCEPTED_DRIVER] == NAME
    await eventually(
        members.client,
        SECRETS,
        ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"),
        lambda secret: CATALOG.holder_of(decode_data(secret)) == NAME,
    )


def joining(aws_fleet: AwsFleet) -> Client:
    return aws_fleet.members.plane.fresh_client(BOOTSTRAP_USER, (MANAGED_CLUSTER_GROUP,))


async def secret_of(aws_fleet: AwsFleet, name: str) -> dict[str, bytes]:
    return decode_data(await aws_fleet.members.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")))


def claims(found: Object | None, managed: object) -> bool:
    return annotations_of(found or {}).get(MANAGED_ARN) == str(managed)
