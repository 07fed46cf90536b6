"""A hub whose controllers are replaced by ours: what was made for its add-ons is taken over, tokens go on to work."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet

from watchword.addons.definition import AddonDefinition
from watchword.addons.hub.deployment import deploy_name
from watchword.addons.token.hub import is_made_for
from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey, owner_reference, uid_of
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANIFEST_WORKS, ROLES, SERVICE_ACCOUNTS
from watchword.testing.builders import a_config_map, a_namespace, an_addon
from watchword.testing.eventually import eventually

READY = ConditionType.TOKEN_INFRASTRUCTURE_READY


def marks(addon: str) -> dict[str, str]:
    return {Label.TOKEN_ADDON: addon, Label.TOKEN_INFRASTRUCTURE: "true"}


ADDON = Addon.read(an_addon("a", cluster="c", uid="this", creationTimestamp="2026-01-01T00:00:10Z"))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({"creationTimestamp": "2026-01-01T00:00:20Z", "labels": {}}, False, id="not marked"),
        pytest.param({"creationTimestamp": "2026-01-01T00:00:20Z", "labels": marks("b")}, False, id="another add-on's"),
        pytest.param({"creationTimestamp": "2026-01-01T00:00:09Z"}, False, id="older than the add-on"),
        pytest.param({}, False, id="of no age"),
        pytest.param(
            {"creationTimestamp": "2026-01-01T00:00:20Z", "ownerReferences": [{"uid": "other"}]},
            False,
            id="owned by other",
        ),
        pytest.param({"creationTimestamp": "2026-01-01T00:00:10Z"}, True, id="younger, without owner"),
        pytest.param({"ownerReferences": [{"uid": "this"}]}, True, id="owned"),
    ],
)
def test_is_made_for(metadata: Object, expected: bool) -> None:  # noqa: FBT001 - a column
    assert is_made_for(ADDON)({"metadata": {"labels": marks("a"), **metadata}}) is expected


async def test_an_account_that_another_manager_made_is_taken_over_with_its_tokens(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    addon = await addon_fleet.client.create(MANAGED_CLUSTER_ADDONS, an_addon("reporter", cluster=cluster))
    account = ObjectKey(cluster, "reporter-agent")
    made = await addon_fleet.client.create(
        SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(account, metadata={"labels": marks("reporter")})
    )
    role = ROLES.manifest(ObjectKey(cluster, "reporter-token-role"), metadata={"labels": marks("reporter")}, rules=[])
    await addon_fleet.client.create(ROLES, role)
    subject = {"user": f"system:serviceaccount:{cluster}:reporter-agent"}

    await addon_fleet.register(
        ObjectKey.of(addon), {"type": "kubeClient", "kubeClient": {"driver": "token", "subject": subject}}
    )
    said = await addon_fleet.says(ObjectKey.of(addon), READY)

    assert f"(UID: {uid_of(made)})" in said.message
    owners = (await addon_fleet.client.get(SERVICE_ACCOUNTS, account))["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == [uid_of(addon)]


async def test_work_that_brought_the_namespace_of_the_add_on_keeps_it_and_never_deletes_it(
    addon_fleet: AddonFleet,
) -> None:
    cluster, namespace = await addon_fleet.cluster(), addon_fleet.namespace
    notes = {Annotation.INSTALL_NAMESPACE: namespace}
    addon = await addon_fleet.client.create(
        MANAGED_CLUSTER_ADDONS, an_addon("reporter", cluster=cluster, annotations=notes)
    )
    brought, key = a_namespace(namespace), ObjectKey(cluster, deploy_name("reporter", 0))
    metadata = {"labels": {Label.ADDON_NAME: "reporter"}, "ownerReferences": [owner_reference(addon)]}
    theirs = MANIFEST_WORKS.manifest(key, metadata=metadata, spec={"workload": {"manifests": [brought]}})
    made = await addon_fleet.client.create(MANIFEST_WORKS, theirs)
    own = a_config_map("settings", namespace=namespace, data={"a": "b"})

    addon_fleet.start_addon(AddonDefinition("reporter", manifests=lambda _: [own]))

    found = await eventually(addon_fleet.client, MANIFEST_WORKS, key, lambda work: len(manifests_of(work)) > 1)
    assert uid_of(found) == uid_of(made)
    assert [obj["kind"] for obj in manifests_of(found)] == ["ConfigMap", "Namespace"]
    [rule] = found["spec"]["deleteOption"]["selectivelyOrphans"]["orphaningRules"]
    assert (rule["resource"], rule["name"]) == ("namespaces", namespace)


def manifests_of(work: Object | None) -> list[Object]:
    found: list[Object] = (work or {})["spec"]["workload"]["manifests"]
    return found


async def test_add_on_goes_to_the_namespace_that_its_administrator_chose(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    notes = {Annotation.INSTALL_NAMESPACE: addon_fleet.namespace}
    addon_fleet.start_addon(AddonDefinition("reporter"))

    addon = await addon_fleet.client.create(
        MANAGED_CLUSTER_ADDONS, an_addon("reporter", cluster=cluster, annotations=notes)
    )

    def is_there(obj: Object | None) -> bool:
        return ((obj or {}).get("status") or {}).get("namespace") == addon_fleet.namespace

    await addon_fleet.until(ObjectKey.of(addon), is_there)
