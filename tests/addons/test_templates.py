"""Add-ons that a template describes: what reaches the cluster, and what follows when template or config change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.addons.fleet import AddonFleet

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import ConditionType
from watchword.api.resources import (
    ADDON_DEPLOYMENT_CONFIGS,
    ADDON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADDONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SECRETS,
)
from watchword.testing.builders import an_addon
from watchword.testing.eventually import eventually


@dataclass
class TemplateAddon:
    """One add-on on one cluster, described by a template whose Deployment runs in the fleet's namespace."""

    fleet: AddonFleet
    key: ObjectKey

    @property
    def config(self) -> ObjectKey:
        return ObjectKey(self.key.namespace, self.key.name)

    async def installed(self, is_so: Callable[[Object], bool] = lambda _: True) -> Object:
        """Wait until the Deployment in the add-on's work is so."""
        work = ObjectKey(self.key.namespace, f"addon-{self.key.name}-deploy-0")

        def holds(obj: Object | None) -> bool:
            return obj is not None and is_so(obj["spec"]["workload"]["manifests"][0])

        found = await eventually(self.fleet.client, MANIFEST_WORKS, work, holds)
        manifest: Object = found["spec"]["workload"]["manifests"][0]
        return manifest

    async def has_config(self, **spec: Any) -> None:
        manifest = ADDON_DEPLOYMENT_CONFIGS.manifest(self.config, spec={"agentInstallNamespace": "", **spec})
        await self.fleet.client.create(ADDON_DEPLOYMENT_CONFIGS, manifest)

    async def describes(self, **deployment: Any) -> None:
        spec = {"agentSpec": {"workload": {"manifests": [a_deployment(self.fleet.namespace, **deployment)]}}}
        await self.fleet.client.patch(ADDON_TEMPLATES, ObjectKey.cluster(self.key.name), {"spec": spec})


def a_deployment(namespace: str, **spec: Any) -> Object:
    pod = {"containers": [{"name": "agent", "image": "quay.io/example/agent:v1"}]}
    labels = {"matchLabels": {"app": "tool"}}
    template = {"metadata": {"labels": {"app": "tool"}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "agent", "namespace": namespace},
        "spec": {"selector": labels, "template": template, **spec},
    }


def reference(resource: Resource, key: ObjectKey) -> Object:
    row = {"group": resource.group, "resource": resource.plural, "name": key.name}
    return {**row, "namespace": key.namespace} if key.namespace else row


async def describe(addon_fleet: AddonFleet, name: str) -> None:
    spec = {
        "addonName": name,
        "agentSpec": {"workload": {"manifests": [a_deployment(addon_fleet.namespace, replicas=3)]}},
        "registration": [{"type": "KubeClient", "kubeClient": {"hubPermissions": []}}],
    }
    await addon_fleet.client.create(ADDON_TEMPLATES, ADDON_TEMPLATES.manifest(ObjectKey.cluster(name), spec=spec))
    configs = [reference(ADDON_TEMPLATES, ObjectKey.cluster(name))]
    kind = CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(name), spec={"defaultConfigs": configs})
    await addon_fleet.client.create(CLUSTER_MANAGEMENT_ADDONS, kind)


async def enable(addon_fleet: AddonFleet, *, with_config: bool) -> TemplateAddon:
    cluster, name = await addon_fleet.cluster(), f"described{addon_fleet.mark}"
    await describe(addon_fleet, name)
    addon = an_addon(name, cluster=cluster)
    made = TemplateAddon(addon_fleet, ObjectKey.of(addon))
    if with_config:
        addon["spec"] = {"configs": [reference(ADDON_DEPLOYMENT_CONFIGS, made.config)]}
    await addon_fleet.client.create(MANAGED_CLUSTER_ADDONS, addon)
    return made


@pytest.fixture
async def described(addon_fleet: AddonFleet) -> TemplateAddon:
    """An add-on without a config."""
    return await enable(addon_fleet, with_config=False)


@pytest.fixture
async def configured(addon_fleet: AddonFleet) -> TemplateAddon:
    """An add-on that names a config, which does not exist yet."""
    return await enable(addon_fleet, with_config=True)


def pod_of(deployment: Object) -> Object:
    pod: Object = deployment["spec"]["template"]["spec"]
    return pod


async def test_credential_lies_where_the_pods_mount_it(described: TemplateAddon) -> None:
    deployment = await described.installed()

    [volume] = pod_of(deployment)["volumes"]
    key = ObjectKey(deployment["metadata"]["namespace"], volume["secret"]["secretName"])
    secret = await eventually(described.fleet.client, SECRETS, key)
    assert "kubeconfig" in secret["data"]


async def test_field_that_the_template_no_longer_has_goes(described: TemplateAddon) -> None:
    await described.installed(lambda obj: obj["spec"].get("replicas") == 3)

    await described.describes()

    await described.installed(lambda obj: "replicas" not in obj["spec"])


async def test_change_of_a_config_reaches_the_cluster(configured: TemplateAddon) -> None:
    await configured.has_config(nodePlacement={"nodeSelector": {"disk": "ssd"}})
    await configured.installed(lambda obj: pod_of(obj).get("nodeSelector") == {"disk": "ssd"})

    patch = {"spec": {"nodePlacement": {"nodeSelector": {"disk": "nvme"}}}}
    await configured.fleet.client.patch(ADDON_DEPLOYMENT_CONFIGS, configured.config, patch)

    await configured.installed(lambda obj: pod_of(obj)["nodeSelector"] == {"disk": "nvme"})


async def test_nothing_is_installed_before_the_config_exists(configured: TemplateAddon) -> None:
    said = await configured.fleet.says(configured.key, ConditionType.MANIFEST_APPLIED, "False", "ConfigurationNotFound")
    assert f"there is no AddOnDeploymentConfig {configured.config}: create it" in said.message
    work = ObjectKey(configured.key.namespace, f"addon-{configured.key.name}-deploy-0")
    assert await configured.fleet.client.find(MANIFEST_WORKS, work) is None

    await configured.has_config()

    await configured.installed()


async def test_default_config_of_the_kind_is_followed(described: TemplateAddon) -> None:
    await described.installed(lambda obj: "tolerations" not in pod_of(obj))
    tolerations = [{"key": "infra", "operator": "Exists"}]
    await described.has_config(nodePlacement={"tolerations": tolerations})
    kind = ObjectKey.cluster(described.key.name)
    template = reference(ADDON_TEMPLATES, kind)

    configs = [template, reference(ADDON_DEPLOYMENT_CONFIGS, described.config)]
    await described.fleet.client.patch(CLUSTER_MANAGEMENT_ADDONS, kind, {"spec": {"defaultConfigs": configs}})

    await described.installed(lambda obj: pod_of(obj).get("tolerations") == tolerations)


async def test_registries_of_a_cluster_are_followed(described: TemplateAddon) -> None:
    await described.installed()
    mirror = '{"registries":[{"source":"quay.io","mirror":"mirror.test"}]}'
    annotations = {"open-cluster-management.io/image-registries": mirror}

    cluster = ObjectKey.cluster(described.key.namespace)
    await described.fleet.client.patch(MANAGED_CLUSTERS, cluster, {"metadata": {"annotations": annotations}})

    await described.installed(lambda obj: pod_of(obj)["containers"][0]["image"] == "mirror.test/example/agent:v1")


async def test_config_that_makes_its_template_large_is_refused_and_others_are_installed(
    configured: TemplateAddon,
) -> None:
    await configured.describes(note="{{LONG}}" * 10_000)
    await configured.has_config(customizedVariables=[{"name": "LONG", "value": "x" * 1000}])

    said = await configured.fleet.says(configured.key, ConditionType.MANIFEST_APPLIED, "False", "ConfigurationTooLarge")

    assert "shorten them" in said.message
    await configured.fleet.client.patch(
        ADDON_DEPLOYMENT_CONFIGS, configured.config, {"spec": {"customizedVariables": [{"name": "LONG", "value": "x"}]}}
    )
    await configured.installed(lambda obj: obj["spec"].get("note") == "x" * 10_000)


async def test_variables_of_a_config_are_text_and_name_no_other_cluster(configured: TemplateAddon) -> None:
    await configured.describes(note="{{QUOTED}} {{NESTED}} {{CLUSTER_NAME}}")
    variables = {"QUOTED": '"},"replicas":9,"x":{"', "NESTED": "{{CLUSTER_NAME}}", "CLUSTER_NAME": "victim"}
    await configured.has_config(customizedVariables=[{"name": key, "value": text} for key, text in variables.items()])

    found = await configured.installed(lambda obj: "note" in obj["spec"])

    assert found["spec"]["note"] == f'"}},"replicas":9,"x":{{" {{{{CLUSTER_NAME}}}} {configured.key.namespace}'
    assert "replicas" not in found["spec"]
