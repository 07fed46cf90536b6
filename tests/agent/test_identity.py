"""A cluster is the same cluster on every hub, and the same agent after every restart."""

from __future__ import annotations

from watchword.agent.identity import recall_identity
from watchword.agent.options import AgentOptions
from watchword.agent.secret_data import AGENT_NAME, CLUSTER_NAME
from watchword.api.resources import SECRETS
from watchword.testing.builders import a_secret
from watchword.testing.plane import Plane


async def test_one_uid_stands_for_the_cluster_on_every_hub(plane: Plane) -> None:
    first, second = await plane.namespace(), await plane.namespace()

    one = await recall_identity(plane.client(), AgentOptions(cluster_name="edge-1", namespace=first))
    other = await recall_identity(plane.client(), AgentOptions(cluster_name="lager", namespace=second))

    assert one.uid == other.uid != ""
    assert one.subject.user != other.subject.user


async def test_names_on_record_are_taken_up_again(plane: Plane) -> None:
    namespace = await plane.namespace()
    options = AgentOptions(cluster_name="", namespace=namespace)
    held = {CLUSTER_NAME: "edge-1", AGENT_NAME: "x7k2m"}
    await plane.client().create(SECRETS, a_secret(options.hub_secret, namespace=namespace, data=held))

    identity = await recall_identity(plane.client(), options)

    assert identity.subject.user == "system:open-cluster-management:edge-1:x7k2m"
