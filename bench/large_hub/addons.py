"""The add-ons of the measured fleet: described by templates, half of their credentials certificates, half tokens."""

from __future__ import annotations

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, Label
from watchword.api.resources import ADDON_TEMPLATES, CLUSTER_MANAGEMENT_ADDONS, CLUSTER_ROLES
from watchword.kube.client import Client
from watchword.testing.builders import a_cluster_role

ROLE = "rig-addon"
DRIVERS = ("csr", "token")


def addon_names(count: int) -> list[str]:
    """Return the names of so many add-ons."""
    return [f"addon-{number}" for number in range(count)]


def driver_of(addon: str) -> str:
    """Return by which driver an add-on registers: one after the other."""
    return DRIVERS[int(addon.rpartition("-")[2]) % len(DRIVERS)]


async def describe_addons(client: Client, addons: list[str]) -> None:
    """Create the templates, the list of add-ons and the role that each add-on has in its cluster's namespace."""
    role = a_cluster_role(ROLE, verbs=("get", "list", "watch"), of=("configmaps",))
    role["metadata"]["labels"] = {Label.ADDON_GRANTABLE: "true"}  # without it the hub may not bind the role
    await client.create(CLUSTER_ROLES, role)
    for name in addons:
        await client.create(ADDON_TEMPLATES, ADDON_TEMPLATES.manifest(ObjectKey.cluster(name), spec=_template(name)))
        template = {"group": ADDON_TEMPLATES.group, "resource": ADDON_TEMPLATES.plural, "name": name}
        spec = {"installStrategy": {"type": "Manual"}, "defaultConfigs": [template]}
        await client.create(
            CLUSTER_MANAGEMENT_ADDONS, CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(name), spec=spec)
        )


def _template(name: str) -> Object:
    permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": ROLE}}
    return {
        "addonName": name,
        "agentSpec": {"workload": {"manifests": [_deployment(name)]}},
        "registration": [{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}],
    }


def _deployment(name: str) -> Object:
    labels = {"app": name}
    container = {"name": "agent", "image": f"registry.test/{name}:v1", "args": ["run", "--hub-kubeconfig=/hub"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": ADDON_NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def applied_work_status(work: Object, *, at: str) -> Object:
    """Return the status of a ManifestWork whose one Deployment is applied and has a ready replica."""
    generation = work["metadata"].get("generation", 1)

    def row(type_: str, reason: str) -> Object:
        said = {"type": type_, "status": "True", "reason": reason, "message": "all manifests are in place"}
        return {**said, "observedGeneration": generation, "lastTransitionTime": at}

    conditions = [row("Applied", "AppliedManifestWorkComplete"), row("Available", "ResourcesAvailable")]
    manifest = work["spec"]["workload"]["manifests"][0]
    meta = {
        "ordinal": 0,
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
        "resource": "deployments",
        "name": manifest["metadata"]["name"],
        "namespace": manifest["metadata"]["namespace"],
    }
    ready = {"name": "ReadyReplicas", "fieldValue": {"type": "Integer", "integer": 1}}
    applied = {"resourceMeta": meta, "conditions": conditions, "statusFeedback": {"values": [ready]}}
    return {"conditions": conditions, "resourceStatus": {"manifests": [applied]}}
