"""Where add-ons are enabled, how they are installed and removed, and how they fare."""

from __future__ import annotations

from typing import Any

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.events import is_told
from tests.helpers.fleet import allow_hub
from tests.helpers.leases import a_lease

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
    RBAC_GROUP,
    ROLE_BINDINGS,
    ROLES,
)
from watchword.registration.hub.cluster_rbac import rule
from watchword.testing.builders import a_cluster_role, a_config_map
from watchword.testing.eventually import eventually, is_gone

APPLIED = ConditionType.REGISTRATION_APPLIED
AVAILABLE = ConditionType.ADDON_AVAILABLE
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
HOOK_MARK = {"addon.open-cluster-management.io/addon-pre-delete": ""}
PERMISSION = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": ""}}


async def work_says(addon_fleet: AddonFleet, key: ObjectKey, *manifests: Object, **conditions: str) -> None:
    """Report about a work, as the cluster's agent does."""
    rows = [
        {"type": name, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name, status in conditions.items()
    ]
    status = {"conditions": rows, "resourceStatus": {"manifests": list(manifests)}}
    await addon_fleet.client.patch(MANIFEST_WORKS, key, {"status": status}, subresource="status")


def installing(addon_fleet: AddonFleet, *manifests: Object, **more: Any) -> AddonDefinition:
    return AddonDefinition(
        f"tool{addon_fleet.mark}", manifests=lambda _: list(manifests), install_namespace=addon_fleet.namespace, **more
    )


async def test_manifests_become_works_and_works_say_how_the_addon_fares(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    definition = installing(addon_fleet, a_config_map("settings", namespace=addon_fleet.namespace), health=BY_FEEDBACK)
    addon_fleet.start_addon(definition)
    addon = await addon_fleet.enable(definition.name, cluster)

    key = ObjectKey(cluster, f"addon-{definition.name}-deploy-0")
    work = await eventually(addon_fleet.client, MANIFEST_WORKS, key)
    await addon_fleet.says(addon, AVAILABLE, "Unknown", "WorkNotApplied")
    await work_says(addon_fleet, key, Applied="True", Available="True")

    await addon_fleet.says(addon, ConditionType.MANIFEST_APPLIED)
    await addon_fleet.says(addon, AVAILABLE, "True", "ProbeAvailable")
    assert [obj["metadata"]["name"] for obj in work["spec"]["workload"]["manifests"]] == ["settings"]
    label = f"feature.open-cluster-management.io/addon-{definition.name}"
    await eventually(
        addon_fleet.client,
        MANAGED_CLUSTERS,
        ObjectKey.cluster(cluster),
        lambda obj: labels_of(obj or {}).get(label) == "available",
    )


async def test_feature_label_that_a_user_removes_is_written_again(addon_fleet: AddonFleet) -> None:
    cluster = ObjectKey.cluster(await addon_fleet.cluster())
    definition = installing(addon_fleet, a_config_map("settings", namespace=addon_fleet.namespace))
    addon_fleet.start_addon(definition)
    await addon_fleet.enable(definition.name, cluster.name)
    label = f"feature.open-cluster-management.io/addon-{definition.name}"
    await eventually(addon_fleet.client, MANAGED_CLUSTERS, cluster, lambda obj: label in labels_of(obj or {}))

    removed = await addon_fleet.client.patch(MANAGED_CLUSTERS, cluster, {"metadata": {"labels": {label: None}}})

    assert label not in labels_of(removed)
    await eventually(addon_fleet.client, MANAGED_CLUSTERS, cluster, lambda obj: label in labels_of(obj or {}))


async def test_removed_addon_takes_its_works_with_it(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    definition = installing(addon_fleet, a_config_map("settings", namespace=addon_fleet.namespace))
    addon_fleet.start_addon(definition)
    addon = await addon_fleet.enable(definition.name, cluster)
    key = ObjectKey(cluster, f"addon-{definition.name}-deploy-0")
    await eventually(addon_fleet.client, MANIFEST_WORKS, key)

    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)

    await addon_fleet.gone(MANIFEST_WORKS, key)


async def test_hook_runs_before_the_addon_goes(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    job = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "clean", "namespace": addon_fleet.namespace, "annotations": HOOK_MARK},
    }  # fmt: skip
    definition = installing(addon_fleet, a_config_map("settings", namespace=addon_fleet.namespace), job)
    addon_fleet.start_addon(definition)
    addon = await addon_fleet.enable(definition.name, cluster)
    await addon_fleet.until(
        addon, lambda obj: Finalizer.ADDON_PRE_DELETE in ((obj or {})["metadata"].get("finalizers") or [])
    )

    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)
    await addon_fleet.says(addon, ConditionType.HOOK_COMPLETED, "False", "HookManifestIsNotCompleted")
    meta = {"ordinal": 0, "kind": "Job", "namespace": addon_fleet.namespace, "name": "clean"}
    value = {"name": "JobComplete", "fieldValue": {"type": "String", "string": "True"}}
    report = {"resourceMeta": meta, "conditions": [], "statusFeedback": {"values": [value]}}
    await work_says(addon_fleet, ObjectKey(cluster, f"addon-{definition.name}-pre-delete"), report, Applied="True")

    await addon_fleet.until(addon, is_gone)


async def test_health_follows_the_lease_on_the_cluster(addon_fleet: AddonFleet) -> None:
    addon = await addon_fleet.enable("reporter", await addon_fleet.cluster())
    await addon_fleet.says(addon, AVAILABLE, "Unknown", "ManagedClusterAddOnLeaseNotFound")

    lease = a_lease("reporter", namespace=addon_fleet.namespace, renewed_at=addon_fleet.plane.clock.now())
    await addon_fleet.client.create(LEASES, lease)

    await addon_fleet.says(addon, AVAILABLE, "True", "ManagedClusterAddOnLeaseUpdated")
    if addon_fleet.plane.name == "embedded":  # five minutes of real time elsewhere
        await addon_fleet.says(addon, AVAILABLE, "False", "ManagedClusterAddOnLeaseUpdateStopped", within=400)


async def with_template(addon_fleet: AddonFleet, cluster: str, role: str, **metadata: Any) -> ObjectKey:
    """Enable an add-on that is described by a template alone, with one role on the hub."""
    name = f"tmpl{addon_fleet.mark}"
    permission = {**PERMISSION, "currentCluster": {"clusterRoleName": role}}
    spec = {
        "addonName": name,
        "agentSpec": {
            "workload": {"manifests": [a_config_map("for-{{CLUSTER_NAME}}", namespace=addon_fleet.namespace)]}
        },
        "registration": [{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}],
    }
    await addon_fleet.client.create(ADDON_TEMPLATES, ADDON_TEMPLATES.manifest(ObjectKey.cluster(name), spec=spec))
    configs = [{"group": ADDON_TEMPLATES.group, "resource": ADDON_TEMPLATES.plural, "name": name}]
    kind = CLUSTER_MANAGEMENT_ADDONS.manifest(
        ObjectKey.cluster(name), metadata=metadata, spec={"defaultConfigs": configs}
    )
    await addon_fleet.client.create(CLUSTER_MANAGEMENT_ADDONS, kind)
    namespace = {"addon.open-cluster-management.io/v1alpha1-install-namespace": addon_fleet.namespace}
    addon = MANAGED_CLUSTER_ADDONS.manifest(ObjectKey(cluster, name), metadata={"annotations": namespace}, spec={})
    return ObjectKey.of(await addon_fleet.client.create(MANAGED_CLUSTER_ADDONS, addon))


async def test_template_needs_no_program(addon_fleet: AddonFleet) -> None:
    cluster, role = await addon_fleet.cluster(), f"reader{addon_fleet.mark}"
    await addon_fleet.client.create(
        CLUSTER_ROLES, a_cluster_role(role, verbs=["get"], of=["configmaps"], names=["mine"])
    )
    await allow_hub(addon_fleet.client, role, rule(RBAC_GROUP, "clusterroles", ["bind"], [role]))
    addon = await with_template(addon_fleet, cluster, role)

    await addon_fleet.says(addon, APPLIED)
    work = await eventually(addon_fleet.client, MANIFEST_WORKS, ObjectKey(cluster, f"addon-{addon.name}-deploy-0"))
    assert work["spec"]["workload"]["manifests"][0]["metadata"]["name"] == f"for-{cluster}"
    await addon_fleet.client.create(CONFIG_MAPS, a_config_map("mine", namespace=cluster))
    hub = addon_fleet.as_token((await addon_fleet.secret(addon))["token"])
    assert await hub.get(CONFIG_MAPS, ObjectKey(cluster, "mine"))


@pytest.mark.parametrize(
    "trusted", [pytest.param(False, id="refused"), pytest.param(True, id="trusted by the administrator by name")]
)
async def test_dangerous_role_is_bound_only_when_trusted(addon_fleet: AddonFleet, trusted: bool) -> None:  # noqa: FBT001 - a column
    cluster = await addon_fleet.cluster()
    await allow_hub(addon_fleet.client, "admin", rule(RBAC_GROUP, "clusterroles", ["bind"], ["cluster-admin"]))
    annotations = {"addon.watchword.dev/trusted-grants": "cluster-admin"} if trusted else {}
    addon = await with_template(addon_fleet, cluster, "cluster-admin", annotations=annotations)

    said = await addon_fleet.until(addon, lambda obj: _reason(obj) in ("PermissionRefused", "SetPermissionApplied"))

    names = [obj["roleRef"]["name"] for obj in (await addon_fleet.client.list(ROLE_BINDINGS, namespace=cluster)).items]
    assert (_reason(said), "cluster-admin" in names) == (
        ("SetPermissionApplied", True) if trusted else ("PermissionRefused", False)
    )
    if not trusted:
        await is_told(addon_fleet.client, addon.name, "PermissionRefused")


async def test_rights_are_written_once_the_role_that_they_name_exists(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    role = ROLES.manifest(ObjectKey(cluster, f"reader{addon_fleet.mark}"), rules=[rule("", "configmaps", ["get"])])
    grant = Grant("reads", role=role["metadata"]["name"], role_kind="Role")
    addon_fleet.start_addon(installing(addon_fleet, grants=(grant,)))
    addon = await addon_fleet.enable(f"tool{addon_fleet.mark}", cluster)
    await addon_fleet.says(addon, APPLIED, "False", "PermissionRefused")

    await addon_fleet.client.create(ROLES, role)

    await addon_fleet.says(addon, APPLIED, within=20)


async def test_rights_in_a_shared_namespace_are_one_for_each_cluster_and_go_with_it(addon_fleet: AddonFleet) -> None:
    shared = await addon_fleet.plane.namespace(f"shared{addon_fleet.mark}")
    rules = ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},)
    addon_fleet.start_addon(installing(addon_fleet, grants=(Grant("read", rules=rules, namespace=shared),)))
    keys = [await addon_fleet.enable(f"tool{addon_fleet.mark}", await addon_fleet.cluster()) for _ in range(3)]
    for key in keys:
        await addon_fleet.says(key, APPLIED)
    assert len((await addon_fleet.client.list(ROLE_BINDINGS, namespace=shared)).items) == 3

    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, keys[0])

    gone = ObjectKey(shared, f"open-cluster-management:{keys[0].namespace}:tool{addon_fleet.mark}:read:agent")
    await addon_fleet.gone(ROLE_BINDINGS, gone)
    assert len((await addon_fleet.client.list(ROLE_BINDINGS, namespace=shared)).items) == 2


def _reason(obj: Object | None) -> str:
    rows = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((row["reason"] for row in rows if row["type"] == APPLIED), "")


async def test_rights_are_written_once_the_name_is_free(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    rule: Object = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    foreign = ObjectKey(cluster, "open-cluster-management:reporter:reads:agent")
    await addon_fleet.client.create(ROLES, ROLES.manifest(foreign, rules=[]))
    grants = (Grant("reads", rules=(rule,)),)
    addon_fleet.start_addon(AddonDefinition("reporter", grants=grants, install_namespace=addon_fleet.namespace))
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.says(key, ConditionType.REGISTRATION_APPLIED, "False", "NameConflict")

    await addon_fleet.client.delete(ROLES, foreign)

    await addon_fleet.says(key, ConditionType.REGISTRATION_APPLIED, within=90)
