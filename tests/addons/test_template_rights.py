"""Rights that a template names, on a hub with the rights of its published manifests and no more."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.fleet import AUTOMATIC
from tests.helpers.server_decision import grant

from watchword.api import yaml
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, HUB_NAMESPACE, HUB_SERVICE_ACCOUNT, ConditionType, Label
from watchword.api.resources import (
    ADDON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADDONS,
    CLUSTER_MANAGERS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    NAMESPACES,
    RBAC_GROUP,
    ROLE_BINDINGS,
    ROLES,
)
from watchword.kube.errors import Forbidden
from watchword.operator.bundles import BundleOptions, operator_bundle
from watchword.operator.cluster_manager import hub_manifests
from watchword.operator.rendering import role_with_binding
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers

GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "addon-rbac.md"
APPLIED = ConditionType.REGISTRATION_APPLIED
ACCOUNT = f"system:serviceaccount:{HUB_NAMESPACE}:{HUB_SERVICE_ACCOUNT}"
RIGHTS = (NAMESPACES, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)


@pytest.fixture
async def deployed(addon_fleet: AddonFleet) -> AddonFleet:
    """A fleet whose hub has the account and the rights that `init` gives it."""
    await addon_fleet.plane.controllers("clusterrole-aggregation-controller")
    await addon_fleet.members.stop(addon_fleet.hub)
    await addon_fleet.client.apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ADDON_NAMESPACE)))
    manager = CLUSTER_MANAGERS.manifest(ObjectKey.cluster("cluster-manager"), spec={})
    for resource, obj in (*operator_bundle(BundleOptions(for_agent=False)), *hub_manifests(manager)):
        if resource in RIGHTS:
            await addon_fleet.client.apply(resource, obj, force=True)
    hub = addon_fleet.plane.fresh_client(ACCOUNT, ("system:serviceaccounts", "system:authenticated"))
    options = HubOptions(settings=AUTOMATIC, auto_approval=True, elect=False, install=False)
    work = run_hub(hub, options, clock=addon_fleet.plane.clock, random=Random(7), extensions=[hub_addon_controllers])
    addon_fleet.members.tasks.append(asyncio.create_task(work))
    return addon_fleet


def shown_in_the_guide(name: str) -> list[Object]:
    """Return role, template and kind of the guide's example, for an add-on of this name."""
    found = re.search(r"## In an AddOnTemplate.*?```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return [yaml.load(part) for part in found[1].replace("weather", name).split("---\n")]


async def test_template_gives_what_the_administrator_labelled(deployed: AddonFleet) -> None:
    name = deployed.plane.unique("weather")
    role, template, kind = shown_in_the_guide(name)
    await deployed.client.apply(CLUSTER_ROLES, {**role, "metadata": {"name": role["metadata"]["name"]}})
    await deployed.client.apply(ADDON_TEMPLATES, template)
    await deployed.client.apply(CLUSTER_MANAGEMENT_ADDONS, kind)
    key = await deployed.enable(name, await deployed.cluster())

    said = await deployed.says(key, APPLIED, "False", "SetPermissionFailed")
    assert f"kubectl label clusterrole {name}-reporter {Label.ADDON_GRANTABLE}=true" in said.message

    await deployed.client.apply(CLUSTER_ROLES, role)

    await deployed.says(key, APPLIED, within=120)
    agent = deployed.as_token((await deployed.secret_anywhere(f"{name}-hub-kubeconfig"))["token"])
    report = CONFIG_MAPS.manifest(ObjectKey(key.namespace, name), data={"sky": "clear"})
    assert (await agent.create(CONFIG_MAPS, report))["data"] == {"sky": "clear"}


async def test_command_that_is_named_for_a_role_suffices(deployed: AddonFleet) -> None:
    name, namespace = deployed.plane.unique("stations"), deployed.namespace
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    await deployed.client.create(ROLES, ROLES.manifest(ObjectKey(namespace, name), rules=rules))
    reference = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": name}
    single = {"namespace": namespace, "roleRef": reference}
    _, template, kind = shown_in_the_guide(name)
    permission = {"type": "SingleNamespace", "singleNamespace": single}
    template["spec"]["registration"][0]["kubeClient"]["hubPermissions"] = [permission]
    await deployed.client.apply(ADDON_TEMPLATES, template)
    await deployed.client.apply(CLUSTER_MANAGEMENT_ADDONS, kind)
    key = await deployed.enable(name, await deployed.cluster())

    said = await deployed.says(key, APPLIED, "False", "SetPermissionFailed")
    assert f"-n {namespace} --verb=bind --resource=roles --resource-name={name} && kubectl create" in said.message

    bind = ObjectKey(namespace, f"{name}-bind")
    rule = {"apiGroups": [RBAC_GROUP], "resources": ["roles"], "verbs": ["bind"], "resourceNames": [name]}
    for resource, obj in role_with_binding(bind, [rule], ObjectKey(HUB_NAMESPACE, HUB_SERVICE_ACCOUNT)):
        await deployed.client.create(resource, obj)

    await deployed.says(key, APPLIED, within=120)


async def test_author_of_templates_cannot_extend_the_list(deployed: AddonFleet) -> None:
    author = ObjectKey.cluster(deployed.plane.unique("author"))
    rule = {"apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "verbs": ["get", "update", "patch"]}
    await grant(deployed.client, author, [rule], author.name)
    labels = {"metadata": {"labels": {Label.ADDON_GRANTABLE: "true"}}}

    with pytest.raises(Forbidden):
        await deployed.plane.client(author.name).patch(CLUSTER_ROLES, ObjectKey.cluster("cluster-admin"), labels)
