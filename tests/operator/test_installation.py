"""Settings of an installation reach the pods, and API servers accept the objects that they make."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from watchword.admin.workloads import delete_deployed
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CRON_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    KLUSTERLETS,
    NAMESPACES,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    POD_MONITORS,
    SERVICE_ACCOUNTS,
    SERVICE_MONITORS,
)
from watchword.operator.bundles import install_crds
from watchword.operator.cluster_manager import hub_manifests
from watchword.operator.installation import ValuesError, read_installation
from watchword.operator.klusterlet import agent_manifests
from watchword.testing.plane import Plane

VALUES = {
    "imagePullSecrets": [{"name": "first"}],
    "nodePlacement": {"nodeSelector": {"role": "infra"}, "tolerations": [{"key": "role", "operator": "Exists"}]},
    "networkPolicy": {"enabled": True},
    "podMonitor": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "operator": {"replicas": 2, "resources": {"limits": {"memory": "1Gi"}}},
    "hub": {"replicas": 3, "resources": {"limits": {"memory": "2Gi"}}},
    "agent": {"clusterName": "edge", "resources": {"limits": {"memory": "3Gi"}}},
    "pullSecrets": {"onlyUsed": True, "registries": ["registry.example"]},
}
NO_KINDS_OF_THE_EMBEDDED = (NETWORK_POLICIES, POD_DISRUPTION_BUDGETS)
SETTINGS = read_installation(VALUES)


def the_only(resource: object, rows: list[Manifest]) -> Object:
    (found,) = [obj for kind, obj in rows if kind is resource]
    return found


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(SETTINGS.hub_rows(), id="hub"),
        pytest.param(SETTINGS.agent_rows(), id="agent"),
        pytest.param(SETTINGS.pull_secret_rows(), id="pull secrets"),
    ],
)
async def test_server_accepts_every_object_in_a_dry_run(plane: Plane, rows: list[Manifest]) -> None:
    client = plane.client()
    await install_crds(client)
    for resource, obj in rows:
        if resource is NAMESPACES:
            await client.apply(resource, obj, force=True)

    # Monitors are no kinds of Kubernetes, and the embedded control plane has no network to make policies for.
    monitors = (POD_MONITORS, SERVICE_MONITORS)
    unserved = (CUSTOM_RESOURCE_DEFINITIONS, *monitors, *(NO_KINDS_OF_THE_EMBEDDED if plane.name == "embedded" else ()))
    for resource, obj in rows:
        if resource not in unserved:
            await client.apply(resource, obj, manager="rehearsal", force=True, dry_run=True)


@pytest.mark.parametrize(
    ("deployment", "replicas", "memory"),
    [
        pytest.param(the_only(DEPLOYMENTS, SETTINGS.hub_rows()), 2, "1Gi", id="operator"),
        pytest.param(
            the_only(DEPLOYMENTS, hub_manifests(the_only(CLUSTER_MANAGERS, SETTINGS.hub_rows()))),
            3,
            "2Gi",
            id="hub",
        ),
        pytest.param(
            the_only(DEPLOYMENTS, agent_manifests(the_only(KLUSTERLETS, SETTINGS.agent_rows()))),
            1,
            "3Gi",
            id="agent",
        ),
    ],
)
def test_settings_reach_the_pods(deployment: Object, replicas: int, memory: str) -> None:
    pod = deployment["spec"]["template"]["spec"]

    assert deployment["spec"]["replicas"] == replicas
    assert pod["containers"][0]["resources"] == {"limits": {"memory": memory}}
    assert (pod["nodeSelector"], pod["imagePullSecrets"]) == ({"role": "infra"}, [{"name": "first"}])
    assert pod["tolerations"] == [{"key": "role", "operator": "Exists"}]


def test_clean_up_of_clusters_runs_where_the_hub_runs_and_ends() -> None:
    job = the_only(CRON_JOBS, hub_manifests(the_only(CLUSTER_MANAGERS, SETTINGS.hub_rows())))["spec"]["jobTemplate"]

    pod = job["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod["imagePullSecrets"]) == ({"role": "infra"}, [{"name": "first"}])
    assert pod["tolerations"] == [{"key": "role", "operator": "Exists"}]
    assert job["spec"]["activeDeadlineSeconds"] == 300


def test_servers_of_drivers_have_the_replicas_of_the_hub() -> None:
    manager = CLUSTER_MANAGERS.manifest(
        ObjectKey.cluster("cluster-manager"),
        metadata={"annotations": {Annotation.REPLICAS: "2"}},
        spec={"registrationConfiguration": {"registrationDrivers": [{"authType": "grpc"}]}},
    )

    deployments = [obj["spec"] for resource, obj in hub_manifests(manager) if resource is DEPLOYMENTS]

    assert [spec["replicas"] for spec in deployments] == [2, 2]


def test_tokens_are_mounted_by_the_pods_that_ask_for_them_alone() -> None:
    rows = [*SETTINGS.hub_rows(), *SETTINGS.agent_rows(), *SETTINGS.pull_secret_rows()]
    rows += [*hub_manifests(the_only(CLUSTER_MANAGERS, rows)), *agent_manifests(the_only(KLUSTERLETS, rows))]

    accounts = [obj for resource, obj in rows if resource is SERVICE_ACCOUNTS]
    pods = [obj["spec"]["template"]["spec"] for resource, obj in rows if resource is DEPLOYMENTS]

    assert {obj["automountServiceAccountToken"] for obj in accounts} == {False}
    assert {pod["automountServiceAccountToken"] for pod in pods} == {True}


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "²"])
def test_number_of_replicas_that_is_none_means_one(text: str) -> None:
    manager = CLUSTER_MANAGERS.manifest(
        ObjectKey.cluster("cluster-manager"), metadata={"annotations": {Annotation.REPLICAS: text}}
    )

    assert the_only(DEPLOYMENTS, hub_manifests(manager))["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(["hub"], "the values are no mapping", id="a list"),
        pytest.param({"hbu": {}}, "there is no value hbu", id="an unknown section"),
        pytest.param({"hub": True}, "hub is no mapping", id="a section that is none"),
        pytest.param({"imagePullSecrets": ["first"]}, "imagePullSecrets is no list of names", id="names alone"),
    ],
)
def test_values_of_another_form_are_refused(values: Any, message: str) -> None:
    with pytest.raises(ValuesError, match=message):
        read_installation(values)


async def test_deletion_of_what_is_not_there_ends_at_once(plane: Plane) -> None:
    client = plane.client()
    await install_crds(client)

    assert await delete_deployed(client, [(KLUSTERLETS, "klusterlet")], timedelta(seconds=1)) == []
