"""The removal of a hub ends when everything is gone, and names what stays."""

from __future__ import annotations

import pytest

from watchword.admin.apply import apply_all
from watchword.admin.errors import NotReady
from watchword.admin.hub_removal import HubRemover
from watchword.admin.workloads import FIELD_MANAGER, unneeded_operator_objects
from watchword.api.meta import ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_NAMESPACE
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    KLUSTERLETS,
    NAMESPACES,
    ROLES,
)
from watchword.kube.client import Client
from watchword.operator import rbac
from watchword.operator.bundles import operator_bundle
from watchword.operator.rendering import OPERATOR
from watchword.testing.builders import a_config_map, a_namespace
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # minutes of virtual time, and a hub is one of a kind


async def test_namespace_that_a_finalizer_holds_is_named_with_what_to_do_next(plane: Plane) -> None:
    client = plane.client()
    await client.create(NAMESPACES, a_namespace(HUB_NAMESPACE))
    held = a_config_map("held", namespace=HUB_NAMESPACE)
    held["metadata"]["finalizers"] = ["example.com/archive"]
    await client.create(CONFIG_MAPS, held)
    remover = HubRemover(client)

    with pytest.raises(NotReady) as stays:
        await remover.carry_out(await remover.plan(force=False))

    assert str(stays.value) == (
        f"Namespace {HUB_NAMESPACE} is being removed, still after 2m0s: "
        f"see what holds it with `kubectl get namespaces {HUB_NAMESPACE} -o yaml`"
    )


async def install_hub_that_manages_itself(client: Client) -> None:
    await apply_all(client, operator_bundle(), manager=FIELD_MANAGER)
    await client.create(CLUSTER_MANAGERS, CLUSTER_MANAGERS.manifest(ObjectKey.cluster("cluster-manager"), spec={}))
    await client.create(KLUSTERLETS, KLUSTERLETS.manifest(ObjectKey.cluster("klusterlet"), spec={}))


async def test_rights_of_the_hub_go_although_an_agent_keeps_the_operator(plane: Plane) -> None:
    client = plane.client()
    await install_hub_that_manages_itself(client)

    removed = {(resource, ObjectKey.of(obj)) for resource, obj in (await HubRemover(client).plan(force=False)).rows}

    assert {(ROLES, ObjectKey(place, rbac.HUB_TOKENS_ROLE)) for place in ("kube-system", "kube-public")} <= removed
    assert (CLUSTER_ROLES, ObjectKey.cluster(rbac.HUB_ROLE)) in removed
    kept = (CLUSTER_ROLES, ObjectKey.cluster(rbac.AGENT_ROLE)), (DEPLOYMENTS, OPERATOR)
    assert not removed & {*kept}


async def test_roles_of_agents_go_with_the_last_agent_of_a_hub(plane: Plane) -> None:
    client = plane.client()
    await install_hub_that_manages_itself(client)

    rows = await unneeded_operator_objects(client, AGENT_NAMESPACE, going="klusterlet")

    unneeded = {obj["metadata"]["name"] for resource, obj in rows if resource is CLUSTER_ROLES}
    assert unneeded == {rbac.AGENT_ROLE, rbac.AGENT_OWN_ROLE}
    assert DEPLOYMENTS not in {resource for resource, _ in rows}
