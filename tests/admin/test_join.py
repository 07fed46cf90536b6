"""What `join` brings to a cluster: everything the agent needs, each thing once."""

from __future__ import annotations

import pytest

from watchword.admin.bootstrap_access import BootstrapAccess
from watchword.admin.join import ClusterMembership, join
from watchword.admin.unjoin import Unjoiner, find_membership
from watchword.api.meta import ObjectKey
from watchword.api.names import AGENT_NAMESPACE, BOOTSTRAP_KUBECONFIG_SECRET
from watchword.api.resources import KLUSTERLETS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.discovery.cluster_info import ClusterInfo
from watchword.pki.authority import Authority
from watchword.testing.plane import Plane


def an_access(plane: Plane) -> BootstrapAccess:
    authority = Authority.make("hub", now=plane.clock.now())
    return BootstrapAccess(ClusterInfo(("https://hub.test:6443",), (authority.certificate,)), Sensitive("a.b"))


@pytest.mark.parametrize("deploy", [pytest.param(True, id="with an operator"), pytest.param(False, id="without one")])
async def test_everything_is_applied_once(private_plane: Plane, deploy: bool) -> None:  # noqa: FBT001 - a column
    client = private_plane.client()

    applied = await join(client, ClusterMembership("edge"), an_access(private_plane), deploy=deploy)

    assert len(applied) == len(set(applied))
    assert applied[-1] == "klusterlet/klusterlet"  # all that carries it out is there before it
    assert await client.find(KLUSTERLETS, ObjectKey.cluster("klusterlet")) is not None
    assert await client.find(SECRETS, ObjectKey(AGENT_NAMESPACE, BOOTSTRAP_KUBECONFIG_SECRET)) is not None


async def test_a_rehearsed_unjoin_names_what_join_brought(private_plane: Plane) -> None:
    client = private_plane.client()
    await join(client, ClusterMembership("edge"), an_access(private_plane), deploy=True)
    membership = await find_membership(client, "klusterlet", "edge")
    assert membership is not None

    rehearsed = (await Unjoiner(client, private_plane.clock, dry_run=True).run(membership)).removed

    assert await client.find(KLUSTERLETS, ObjectKey.cluster("klusterlet")) is not None
    assert {
        "klusterlet/klusterlet",
        f"secret/{AGENT_NAMESPACE}/{BOOTSTRAP_KUBECONFIG_SECRET}",
        "deployment/open-cluster-management/watchword-operator",
    } <= set(rehearsed)
