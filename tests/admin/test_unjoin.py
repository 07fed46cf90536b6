"""An agent without a Klusterlet leaves its hub: with its add-ons' credentials, and with nothing of others."""

from __future__ import annotations

import pytest

from watchword.admin.unjoin import ExistingMembership, Unjoiner, find_membership
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_KUBECONFIG_SECRET, Label
from watchword.api.resources import NAMESPACES, SECRETS
from watchword.api.yaml import dump
from watchword.testing.builders import a_secret
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

V1BETA1 = "client.authentication.k8s.io/v1beta1"


def a_credential(name: str, namespace: str, cluster: str) -> Object:
    return a_secret(name, namespace=namespace, data={"cluster-name": cluster, "agent-name": "a"})


def an_addon_credential(name: str, namespace: str, cluster: str) -> Object:
    labels = {Label.CLUSTER_NAME: cluster, Label.ADDON_NAME: name}
    return a_secret(f"{name}-hub-kubeconfig", namespace=namespace, data={"token": "t"}, labels=labels)


async def leave(plane: Plane, namespace: str, cluster: str) -> None:
    stay = await find_membership(plane.client(), "nobody", cluster, namespace)
    assert stay is not None
    await Unjoiner(plane.client(), plane.clock, purge_operator=False).run(stay)


async def test_the_credentials_of_its_add_ons_go_with_it(plane: Plane) -> None:
    own, addons = await plane.namespace("agent"), await plane.namespace("addons")
    for secret in (
        a_credential(HUB_KUBECONFIG_SECRET, own, own),
        an_addon_credential("reporter", addons, own),
        an_addon_credential("other", addons, "another-cluster"),
    ):
        await plane.client().create(SECRETS, secret)

    await leave(plane, own, own)

    left = (await plane.client().list(SECRETS, namespace=addons, labels=Label.ADDON_NAME)).items
    assert [secret["metadata"]["name"] for secret in left] == ["other-hub-kubeconfig"]
    await eventually(plane.client(), SECRETS, ObjectKey(own, HUB_KUBECONFIG_SECRET), is_gone)


async def test_namespace_with_another_agent_is_kept(plane: Plane) -> None:
    own = await plane.namespace("agent")
    for name, cluster in ((HUB_KUBECONFIG_SECRET, own), ("hub-of-another", "another-cluster")):
        await plane.client().create(SECRETS, a_credential(name, own, cluster))

    await leave(plane, own, own)

    namespace = await plane.client().get(NAMESPACES, ObjectKey.cluster(own))
    assert "deletionTimestamp" not in namespace["metadata"]
    assert await plane.client().find(SECRETS, ObjectKey(own, HUB_KUBECONFIG_SECRET)) is None
    assert await plane.client().find(SECRETS, ObjectKey(own, "hub-of-another")) is not None


@pytest.mark.parametrize(
    ("user", "longest"),
    [
        pytest.param({"token": "t"}, 5.0, id="a credential that is there"),
        pytest.param(
            {"exec": {"apiVersion": V1BETA1, "command": "aws", "args": []}}, 30.0, id="one that a plugin gives"
        ),
        pytest.param({}, 5.0, id="none"),
    ],
)
def test_hub_is_asked_for_as_long_as_a_plugin_may_take(user: Object, longest: float) -> None:
    text = {
        "current-context": "hub",
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "agent"}}],
        "clusters": [{"name": "hub", "cluster": {"server": "https://hub.test:6443"}}],
        "users": [{"name": "agent", "user": user}],
    }
    membership = ExistingMembership("edge", "agent", None, {"kubeconfig": dump(text).encode()})

    assert membership.retry.attempt_timeout == longest
