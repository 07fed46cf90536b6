"""A joining cluster needs no more rights than Open Cluster Management's agent needs."""

from __future__ import annotations

from dataclasses import dataclass

from tests.helpers.fleet import FleetHarness, PlaneConnector
from tests.helpers.server_decision import grant

from watchword.api.meta import ObjectKey
from watchword.kube.transport import Transport
from watchword.registration.csr.driver import USERS

RULES = [
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclusters"],
        "verbs": ["get", "create", "list", "update"],
    },
    {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "list", "watch"],
    },
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclustersets/join"],
        "verbs": ["create"],
    },
]


@dataclass
class ConnectorAs(PlaneConnector):
    """Joins as one user without groups."""

    user: str = ""

    def joining(self) -> Transport:
        return self.plane.fresh_client(self.user).transport


async def test_an_agent_joins_though_it_may_not_watch_managed_clusters(fleet: FleetHarness) -> None:
    name = fleet.name()
    user = f"bootstrap-of-{name}"
    await grant(fleet.client, ObjectKey.cluster(user), RULES, user)
    fleet.start_hub({USERS.flag: user})

    fleet.start_agent(name, connector=ConnectorAs(fleet.plane, user=user))

    await fleet.joined(name)
