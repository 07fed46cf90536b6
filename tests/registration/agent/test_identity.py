"""A cluster is the same cluster on every hub, and the same agent after every restart."""

from __future__ import annotations

from watchword.credentials.credential_secret import AGENT_NAME, CLUSTER_NAME
from watchword.registration.agent.options import AgentOptions, restore_identity
from watchword.testing.builders import a_namespace, a_secret

SYSTEM = {**a_namespace("kube-system"), "metadata": {"name": "kube-system", "uid": "7f3c"}}


def test_one_uid_stands_for_the_cluster_on_every_hub() -> None:
    one = restore_identity(SYSTEM, None, AgentOptions(cluster_name="edge-1", namespace="first"))
    other = restore_identity(SYSTEM, None, AgentOptions(cluster_name="lager", namespace="second"))

    assert one.uid == other.uid == "7f3c"
    assert one.subject.user != other.subject.user


def test_names_on_record_are_taken_up_again() -> None:
    options = AgentOptions(cluster_name="", namespace="agent")
    secret = a_secret(options.hub_secret, namespace="agent", data={CLUSTER_NAME: "edge-1", AGENT_NAME: "x7k2m"})

    identity = restore_identity(SYSTEM, secret, options)

    assert identity.subject.user == "system:open-cluster-management:edge-1:x7k2m"
    assert identity.secret_key == options.secret_key
