"""An agent that the hub does not know asks to join, also when its role or a kind of its cluster is missing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, PlaneConnector, pass_through, run_fleet
from tests.registration.aws_irsa.aws_fleet import HUB, arn_of

from watchword.api.meta import ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import CLUSTER_CLAIMS, CUSTOM_RESOURCE_DEFINITIONS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.credential_secret import encode_data, hub_kubeconfig
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.kube.transport import Transport
from watchword.registration.aws_irsa.agent import TokenSource
from watchword.registration.aws_irsa.options import HUB_CLUSTER_ARN, MANAGED_ARN, MANAGED_CLUSTER_ARN, ClusterPair
from watchword.testing.eventually import eventually
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")


async def test_agent_joins_from_a_cluster_without_cluster_claims(private_plane: Plane) -> None:
    async with run_fleet(private_plane) as fleet:
        await fleet.client.delete(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.cluster(CLUSTER_CLAIMS.group_resource))
        name = fleet.name()
        fleet.start_hub(AUTOMATIC)

        fleet.start_agent(name)

        await fleet.joined(name)


class RefusedTransport:
    """A transport whose exec plugin fails: the role that it assumes is gone."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    async def send(self, _request: object) -> None:
        raise ConfigError("the credential plugin aws failed with exit code 254")

    def stream(self, _request: object) -> None:
        raise ConfigError("the credential plugin aws failed with exit code 254")

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class RoleConnector(PlaneConnector):
    """Joins with the bootstrap credential; the cluster's own role is gone."""

    def own(self, data: SecretData) -> Transport:
        return RefusedTransport(self.joining())  # type: ignore[return-value]  # it answers nothing


async def test_agent_whose_role_is_gone_asks_again(fleet: FleetHarness) -> None:
    name = fleet.name()
    settings = {HUB_CLUSTER_ARN.flag: str(HUB), MANAGED_CLUSTER_ARN.flag: str(arn_of("edge-1"))}
    entry = UserEntry(plugin=TokenSource.of(ClusterPair.read(settings)).exec_entry())
    held = {KUBECONFIG: hub_kubeconfig(ClusterEntry("https://hub.example.com", ca_data=b"ca"), entry)}
    key = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")
    await fleet.client.create(SECRETS, SECRETS.manifest(key, data=encode_data(held)))

    fleet.start_agent(
        name,
        connector=RoleConnector(fleet.plane, through=pass_through),
        registration_auth="aws-irsa",
        settings=settings,
    )

    found = await eventually(fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), within=3600)
    assert annotations_of(found)[MANAGED_ARN] == str(arn_of("edge-1"))
    assert Annotation.ACCEPTED_DRIVER not in annotations_of(found)
