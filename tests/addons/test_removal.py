"""Whatever is removed, an add-on or its cluster, by either driver: nothing is left of it on either side."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.events import is_told

from watchword.addons.definition import AddonDefinition, Grant
from watchword.addons.rbac import status_writer
from watchword.api.meta import Object, ObjectKey, Resource, labels_of
from watchword.api.names import ConditionType, Finalizer, Label
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.testing.builders import a_config_map
from watchword.testing.eventually import eventually_all, is_gone

ON_HUB = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, MANIFEST_WORKS)
READING: Object = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
BOTH = pytest.mark.parametrize("auth", ["csr", "token"])


async def with_everything(addon_fleet: AddonFleet, auth: str) -> ObjectKey:
    """Enable an add-on that has all an add-on can have: rights in two namespaces, works, and a credential."""
    shared = await addon_fleet.plane.namespace(f"shared{addon_fleet.mark}")
    definition = AddonDefinition(
        f"tool{addon_fleet.mark or '-x'}",
        grants=(status_writer("report"), Grant("stations", rules=(READING,), namespace=shared)),
        manifests=lambda _: [a_config_map("settings", namespace=addon_fleet.namespace)],
        install_namespace=addon_fleet.namespace,
    )
    addon_fleet.start_addon(definition)
    key = await addon_fleet.enable(definition.name, await addon_fleet.cluster(auth=auth))
    await addon_fleet.says(key, ConditionType.REGISTRATION_APPLIED)
    await addon_fleet.says(key, ConditionType.MANIFEST_APPLIED, "False")
    await addon_fleet.secret(key)
    return key


async def nothing_is_left(addon_fleet: AddonFleet, key: ObjectKey) -> None:
    """Wait until no object anywhere carries the mark of the add-on."""

    def is_of_it(obj: Object) -> bool:
        labels = labels_of(obj)
        named = key.name in (labels.get(Label.ADDON_NAME), labels.get(Label.TOKEN_ADDON))
        return named and key.namespace in (
            labels.get(Label.ADDON_CLUSTER),
            labels.get(Label.CLUSTER_NAME),
            obj["metadata"]["namespace"],
        )

    for resource in (*ON_HUB, SECRETS):
        await eventually_all(
            addon_fleet.client, resource, lambda found: not any(map(is_of_it, found.values())), within=60
        )


async def count(client: Client, resource: Resource, key: ObjectKey) -> int:
    found = (await client.list(resource, labels=f"{Label.ADDON_NAME}={key.name}")).items
    return len(found)


@BOTH
async def test_removed_addon_leaves_nothing(addon_fleet: AddonFleet, auth: str) -> None:
    key = await with_everything(addon_fleet, auth)
    assert await count(addon_fleet.client, ROLE_BINDINGS, key) == 2

    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, key)

    await nothing_is_left(addon_fleet, key)
    await is_told(addon_fleet.client, key.name, "AddonRemoved")


@BOTH
async def test_removed_cluster_leaves_nothing(addon_fleet: AddonFleet, auth: str) -> None:
    key = await with_everything(addon_fleet, auth)

    await addon_fleet.members.remove(key.namespace)

    await nothing_is_left(addon_fleet, key)


@BOTH
async def test_hook_has_a_credential_until_it_is_done_although_the_cluster_goes(
    addon_fleet: AddonFleet, auth: str
) -> None:
    key = await addon_fleet.enable(
        "reporter", await addon_fleet.cluster(auth=auth), finalizers=[Finalizer.ADDON_PRE_DELETE]
    )
    await addon_fleet.secret(key)
    cluster = ObjectKey.cluster(key.namespace)

    await addon_fleet.client.delete(MANAGED_CLUSTERS, cluster)
    await addon_fleet.until(key, lambda obj: "deletionTimestamp" in (obj or {})["metadata"])
    await addon_fleet.client.delete(SECRETS, addon_fleet.secret_key(key))
    data = await addon_fleet.secret(key)
    client = addon_fleet.as_token(data["token"]) if auth == "token" else addon_fleet.as_certificate(data)
    assert key.namespace in (await who_am_i(client)).username

    await addon_fleet.client.patch(MANAGED_CLUSTER_ADDONS, key, {"metadata": {"finalizers": None}})
    await addon_fleet.gone(MANAGED_CLUSTERS, cluster)
    await nothing_is_left(addon_fleet, key)


@BOTH
async def test_hook_has_a_credential_until_it_is_done(addon_fleet: AddonFleet, auth: str) -> None:
    key = await addon_fleet.enable(
        "reporter", await addon_fleet.cluster(auth=auth), finalizers=[Finalizer.ADDON_PRE_DELETE]
    )
    first = await addon_fleet.secret(key)

    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, key)
    await addon_fleet.client.delete(SECRETS, addon_fleet.secret_key(key))
    second = await addon_fleet.secret(key)
    assert second != first
    assert second.get("service-account-uid") == first.get("service-account-uid")

    await addon_fleet.client.patch(MANAGED_CLUSTER_ADDONS, key, {"metadata": {"finalizers": None}})
    await nothing_is_left(addon_fleet, key)


async def test_switched_back_and_forth_and_removed_leaves_nothing(addon_fleet: AddonFleet) -> None:
    key = await with_everything(addon_fleet, "token")
    for auth, mark in (("csr", "tls.crt"), ("token", "token"), ("csr", "tls.crt")):
        await addon_fleet.start_agent(key.namespace, auth=auth)
        await addon_fleet.secret(key, lambda data, mark=mark: mark in data)  # type: ignore[misc]  # bound now, not later

    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, key)

    await addon_fleet.until(key, is_gone)
    await nothing_is_left(addon_fleet, key)
