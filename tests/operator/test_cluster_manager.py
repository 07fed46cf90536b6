"""A ClusterManager becomes the hub's controllers and the clean-up of clusters, and goes without a trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.operator.conftest import Operated
from tests.operator.test_klusterlet import says

from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_NAMESPACE
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CLUSTER_ROLE_BINDINGS,
    CRON_JOBS,
    DEPLOYMENTS,
    KLUSTERLETS,
    NAMESPACES,
)
from watchword.testing.eventually import is_gone

HUB = "cluster-manager-controller"


async def test_a_cluster_manager_becomes_a_hub(operated: Operated) -> None:
    await operated.has(CLUSTER_MANAGERS, "cluster-manager", spec={})

    manager = await operated.until(CLUSTER_MANAGERS, "cluster-manager", says("Applied", "True"))

    assert says("Progressing", "True")(manager)
    assert says("HubRegistrationDegraded", "True", "UnavailablePods")(manager)
    hub = await operated.admin.get(DEPLOYMENTS, ObjectKey(HUB_NAMESPACE, HUB))
    assert hub["spec"]["template"]["spec"]["containers"][0]["args"][0] == "hub"
    assert await operated.find(CRON_JOBS, "cluster-cleaner", HUB_NAMESPACE) is not None
    await _remove(operated)


@pytest.mark.parametrize("operated", ["registry.test/w:7"], indirect=True)
async def test_hub_runs_the_image_of_the_operator_where_its_resource_names_none(operated: Operated) -> None:
    await operated.has(CLUSTER_MANAGERS, "cluster-manager", spec={})

    await operated.until(CLUSTER_MANAGERS, "cluster-manager", says("Applied", "True"))

    hub = await operated.admin.get(DEPLOYMENTS, ObjectKey(HUB_NAMESPACE, HUB))
    assert hub["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.test/w:7"
    await _remove(operated)


async def test_another_image_of_the_operator_is_rolled_out_to_hub_and_agent(operated: Operated) -> None:
    await operated.has(CLUSTER_MANAGERS, "cluster-manager", spec={})
    await operated.has(KLUSTERLETS, "klusterlet", spec={"clusterName": "edge"})
    await operated.until(CLUSTER_MANAGERS, "cluster-manager", says("Applied", "True"))
    await operated.until(KLUSTERLETS, "klusterlet", says("Applied", "True"))

    await operated.install("registry.test/w:8")

    await operated.until(DEPLOYMENTS, HUB, runs("registry.test/w:8"), HUB_NAMESPACE)
    await operated.until(DEPLOYMENTS, "klusterlet-agent", runs("registry.test/w:8"), AGENT_NAMESPACE)
    await operated.admin.delete(KLUSTERLETS, ObjectKey.cluster("klusterlet"))
    await operated.until(KLUSTERLETS, "klusterlet", is_gone)
    await _remove(operated)


def runs(image: str) -> Callable[[Object | None], bool]:
    return lambda found: found is not None and found["spec"]["template"]["spec"]["containers"][0]["image"] == image


async def test_namespace_of_the_hub_that_is_gone_is_named_with_what_to_do(operated: Operated) -> None:
    await operated.has(CLUSTER_MANAGERS, "cluster-manager", spec={})
    await operated.until(CLUSTER_MANAGERS, "cluster-manager", says("Applied", "True"))

    await operated.admin.delete(NAMESPACES, ObjectKey.cluster(HUB_NAMESPACE))
    manager = await operated.until(CLUSTER_MANAGERS, "cluster-manager", tells_of("is gone"))

    condition = find_condition(manager or {}, "Applied")
    assert condition is not None
    assert condition.message == (
        f"the namespace {HUB_NAMESPACE} is gone, and with it the rights of the operator in it: "
        "run `watchword init` again"
    )


def tells_of(text: str) -> Callable[[Object | None], bool]:
    return lambda found: text in ((find_condition(found or {}, "Applied") or Condition.true("", "")).message or "")


async def test_an_unknown_driver_is_a_condition(operated: Operated) -> None:
    spec = {"registrationConfiguration": {"registrationDrivers": [{"authType": "magic"}]}}
    await operated.has(CLUSTER_MANAGERS, "cluster-manager", spec=spec)

    manager = await operated.until(CLUSTER_MANAGERS, "cluster-manager", says("Applied", "False"))

    condition = find_condition(manager, "Applied")
    assert condition is not None
    assert condition.reason == "UnknownRegistrationDriver"
    await operated.admin.delete(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"))


async def test_a_deleted_cluster_manager_leaves_nothing(operated: Operated) -> None:
    await operated.has(CLUSTER_MANAGERS, "cluster-manager", spec={})
    await operated.until(CLUSTER_MANAGERS, "cluster-manager", says("Applied", "True"))

    await _remove(operated)

    assert await operated.find(DEPLOYMENTS, HUB, HUB_NAMESPACE) is None
    assert await operated.find(CRON_JOBS, "cluster-cleaner", HUB_NAMESPACE) is None
    names = [obj["metadata"]["name"] for obj in (await operated.admin.list(CLUSTER_ROLE_BINDINGS)).items]
    assert [name for name in names if "operated:cluster-manager" in name] == []


async def _remove(operated: Operated) -> None:
    await operated.admin.delete(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"))
    await operated.until(CLUSTER_MANAGERS, "cluster-manager", lambda found: found is None)
