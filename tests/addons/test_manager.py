"""Where add-ons are enabled, how they are installed and removed, and how they fare."""

from __future__ import annotations

from typing import Any

import pytest
from tests.addons.fleet import AddonFleet

from watchword.addons.definition import BY_FEEDBACK, AddonDefinition, Grant
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import ConditionType, Finalizer
from watchword.api.resources import (
    ADDON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADDONS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    ROLE_BINDINGS,
)
from watchword.testing.builders import a_cluster_role, a_config_map, a_lease
from watchword.testing.eventually import eventually, is_gone

APPLIED = ConditionType.REGISTRATION_APPLIED
AVAILABLE = ConditionType.ADDON_AVAILABLE
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
HOOK_MARK = {"addon.open-cluster-management.io/addon-pre-delete": ""}
PERMISSION = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": ""}}


async def work_says(fleet: AddonFleet, key: ObjectKey, *manifests: Object, **conditions: str) -> None:
    """Report about a work, as the cluster's agent does."""
    rows = [
        {"type": name, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name, status in conditions.items()
    ]
    status = {"conditions": rows, "resourceStatus": {"manifests": list(manifests)}}
    await fleet.client.patch(MANIFEST_WORKS, key, {"status": status}, subresource="status")


def installing(fleet: AddonFleet, *manifests: Object, **more: Any) -> AddonDefinition:
    return AddonDefinition(
        f"tool{fleet.mark}", manifests=lambda _: list(manifests), install_namespace=fleet.namespace, **more
    )


async def test_manifests_become_works_and_works_say_how_the_addon_fares(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    definition = installing(fleet, a_config_map("settings", namespace=fleet.namespace), health=BY_FEEDBACK)
    fleet.start_addon(definition)
    addon = await fleet.enable(definition.name, cluster)

    key = ObjectKey(cluster, f"addon-{definition.name}-deploy-0")
    work = await eventually(fleet.client, MANIFEST_WORKS, key)
    await fleet.says(addon, AVAILABLE, "Unknown", "WorkNotApplied")
    await work_says(fleet, key, Applied="True", Available="True")

    await fleet.says(addon, ConditionType.MANIFEST_APPLIED)
    await fleet.says(addon, AVAILABLE, "True", "ProbeAvailable")
    assert [obj["metadata"]["name"] for obj in work["spec"]["workload"]["manifests"]] == ["settings"]
    label = f"feature.open-cluster-management.io/addon-{definition.name}"
    await eventually(
        fleet.client,
        MANAGED_CLUSTERS,
        ObjectKey.cluster(cluster),
        lambda obj: labels_of(obj or {}).get(label) == "available",
    )


async def test_removed_addon_takes_its_works_with_it(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    definition = installing(fleet, a_config_map("settings", namespace=fleet.namespace))
    fleet.start_addon(definition)
    addon = await fleet.enable(definition.name, cluster)
    key = ObjectKey(cluster, f"addon-{definition.name}-deploy-0")
    await eventually(fleet.client, MANIFEST_WORKS, key)

    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)

    await fleet.gone(MANIFEST_WORKS, key)


async def test_hook_runs_before_the_addon_goes(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    job = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "clean", "namespace": fleet.namespace, "annotations": HOOK_MARK},
    }  # fmt: skip
    definition = installing(fleet, a_config_map("settings", namespace=fleet.namespace), job)
    fleet.start_addon(definition)
    addon = await fleet.enable(definition.name, cluster)
    await fleet.until(
        addon, lambda obj: Finalizer.ADDON_PRE_DELETE in ((obj or {})["metadata"].get("finalizers") or [])
    )

    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)
    await fleet.says(addon, ConditionType.HOOK_COMPLETED, "False", "HookManifestIsNotCompleted")
    meta = {"ordinal": 0, "kind": "Job", "namespace": fleet.namespace, "name": "clean"}
    value = {"name": "JobComplete", "fieldValue": {"type": "String", "string": "True"}}
    report = {"resourceMeta": meta, "conditions": [], "statusFeedback": {"values": [value]}}
    await work_says(fleet, ObjectKey(cluster, f"addon-{definition.name}-pre-delete"), report, Applied="True")

    await fleet.until(addon, is_gone)


async def test_health_follows_the_lease_on_the_cluster(fleet: AddonFleet) -> None:
    addon = await fleet.enable("reporter", await fleet.cluster())
    await fleet.says(addon, AVAILABLE, "Unknown", "ManagedClusterAddOnLeaseNotFound")

    lease = a_lease("reporter", namespace=fleet.namespace, renewed_at=fleet.plane.clock.now())
    await fleet.client.create(LEASES, lease)

    await fleet.says(addon, AVAILABLE, "True", "ManagedClusterAddOnLeaseUpdated")
    if fleet.plane.name == "embedded":  # five minutes of real time elsewhere
        await fleet.says(addon, AVAILABLE, "False", "ManagedClusterAddOnLeaseUpdateStopped", within=400)


async def with_template(fleet: AddonFleet, cluster: str, role: str, **metadata: Any) -> ObjectKey:
    """Enable an add-on that is described by a template alone, with one role on the hub."""
    name = f"tmpl{fleet.mark}"
    permission = {**PERMISSION, "currentCluster": {"clusterRoleName": role}}
    spec = {
        "addonName": name,
        "agentSpec": {"workload": {"manifests": [a_config_map("for-{{CLUSTER_NAME}}", namespace=fleet.namespace)]}},
        "registration": [{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}],
    }
    await fleet.client.create(ADDON_TEMPLATES, ADDON_TEMPLATES.manifest(ObjectKey.cluster(name), spec=spec))
    configs = [{"group": ADDON_TEMPLATES.group, "resource": ADDON_TEMPLATES.plural, "name": name}]
    kind = CLUSTER_MANAGEMENT_ADDONS.manifest(
        ObjectKey.cluster(name), metadata=metadata, spec={"defaultConfigs": configs}
    )
    await fleet.client.create(CLUSTER_MANAGEMENT_ADDONS, kind)
    namespace = {"addon.open-cluster-management.io/v1alpha1-install-namespace": fleet.namespace}
    addon = MANAGED_CLUSTER_ADDONS.manifest(ObjectKey(cluster, name), metadata={"annotations": namespace}, spec={})
    return ObjectKey.of(await fleet.client.create(MANAGED_CLUSTER_ADDONS, addon))


async def test_template_needs_no_program(fleet: AddonFleet) -> None:
    cluster, role = await fleet.cluster(), f"reader{fleet.mark}"
    await fleet.client.create(CLUSTER_ROLES, a_cluster_role(role, verbs=["get"], of=["configmaps"], names=["mine"]))
    addon = await with_template(fleet, cluster, role)

    await fleet.says(addon, APPLIED)
    work = await eventually(fleet.client, MANIFEST_WORKS, ObjectKey(cluster, f"addon-{addon.name}-deploy-0"))
    assert work["spec"]["workload"]["manifests"][0]["metadata"]["name"] == f"for-{cluster}"
    await fleet.client.create(CONFIG_MAPS, a_config_map("mine", namespace=cluster))
    hub = fleet.as_token((await fleet.secret(addon))["token"])
    assert await hub.get(CONFIG_MAPS, ObjectKey(cluster, "mine"))


@pytest.mark.parametrize(
    "trusted", [pytest.param(False, id="refused"), pytest.param(True, id="trusted by the administrator by name")]
)
async def test_dangerous_role_is_bound_only_when_trusted(fleet: AddonFleet, trusted: bool) -> None:  # noqa: FBT001 - a column
    cluster = await fleet.cluster()
    annotations = {"addon.watchword.dev/trusted-grants": "cluster-admin"} if trusted else {}
    addon = await with_template(fleet, cluster, "cluster-admin", annotations=annotations)

    said = await fleet.until(addon, lambda obj: _reason(obj) in ("PermissionRefused", "SetPermissionApplied"))

    names = [obj["roleRef"]["name"] for obj in (await fleet.client.list(ROLE_BINDINGS, namespace=cluster)).items]
    assert (_reason(said), "cluster-admin" in names) == (
        ("SetPermissionApplied", True) if trusted else ("PermissionRefused", False)
    )


async def test_rights_in_a_shared_namespace_are_one_for_each_cluster_and_go_with_it(fleet: AddonFleet) -> None:
    shared = await fleet.plane.namespace(f"shared{fleet.mark}")
    rules = ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},)
    fleet.start_addon(installing(fleet, grants=(Grant("read", rules=rules, namespace=shared),)))
    keys = [await fleet.enable(f"tool{fleet.mark}", await fleet.cluster()) for _ in range(3)]
    for key in keys:
        await fleet.says(key, APPLIED)
    assert len((await fleet.client.list(ROLE_BINDINGS, namespace=shared)).items) == 3

    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, keys[0])

    gone = ObjectKey(shared, f"open-cluster-management:{keys[0].namespace}:tool{fleet.mark}:read:agent")
    await fleet.gone(ROLE_BINDINGS, gone)
    assert len((await fleet.client.list(ROLE_BINDINGS, namespace=shared)).items) == 2


def _reason(obj: Object | None) -> str:
    rows = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((row["reason"] for row in rows if row["type"] == APPLIED), "")
