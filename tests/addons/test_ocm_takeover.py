"""A hub whose controllers are replaced by ours: what was made for its add-ons is taken over, tokens go on to work."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet

from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import ConditionType, Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, ROLES, SERVICE_ACCOUNTS
from watchword.drivers.token.manifests import is_made_for
from watchword.testing.builders import an_addon

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
        pytest.param({"creationTimestamp": "2026-01-01T00:00:10Z"}, True, id="younger and nobody's"),
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
