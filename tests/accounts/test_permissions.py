"""What an agent may do on the hub and on its cluster, and what it tries and does not get."""

from __future__ import annotations

import asyncio

import pytest
from tests.accounts.fleet import AccountsFleet, Member

from watchword.accounts.agent.account import GRANT_PATIENCE
from watchword.api.accounts import ADDON_NAME
from watchword.api.meta import Object, ObjectKey, owner_reference
from watchword.api.names import Label
from watchword.api.resources import (
    CONFIG_MAPS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden
from watchword.kube.tokens import request_token
from watchword.testing.builders import a_secret
from watchword.testing.eventually import eventually

MSA = MANAGED_SERVICE_ACCOUNTS


def owned_secret(name: str, account: Object, **changes: object) -> Object:
    wanted = a_secret(
        name,
        namespace=account["metadata"]["namespace"],
        data={"token": "t", "ca.crt": "c"},
        labels={Label.MANAGED_ACCOUNT: "true"},
        ownerReferences=[owner_reference(account)],
    )
    return {**wanted, **changes}


async def test_agent_reads_only_secrets_that_its_accounts_own(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    await fleet.client.create(SECRETS, a_secret("other", namespace=member.name, data={"password": "x"}))
    agent = fleet.hub_client(member)
    granted = ObjectKey(member.name, f"open-cluster-management:{ADDON_NAME}:own-secrets")
    await eventually(fleet.client, ROLES, granted, lambda role: bool(role and role.get("rules")))

    assert (await agent.get(SECRETS, key))["metadata"]["name"] == "robot"
    for attempt in (
        agent.list(SECRETS, namespace=member.name),
        agent.get(SECRETS, ObjectKey(member.name, "other")),
        agent.patch(SECRETS, ObjectKey(member.name, "other"), {"data": {}}),
        agent.delete(SECRETS, key),
    ):
        with pytest.raises(Forbidden):
            await attempt


async def test_secret_that_existed_before_its_account_is_never_readable(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.client.create(SECRETS, a_secret("hub-kubeconfig", namespace=member.name, data={"password": "x"}))
    key = await fleet.declare(member.name, "hub-kubeconfig")
    await fleet.until(key, "SecretCreated", "False", "NameConflict")
    other = await fleet.declare(member.name, "robot")
    await fleet.until(other)

    with pytest.raises(Forbidden):
        await fleet.hub_client(member).get(SECRETS, key)


@pytest.mark.planes("embedded")  # seconds of virtual time
async def test_agent_that_starts_again_takes_over_a_new_secret_as_soon_as_the_hub_grants_it(
    fleet: AccountsFleet,
) -> None:
    member = await fleet.cluster()
    await fleet.stop_manager()
    key = await fleet.declare(member.name, "robot")
    before = await fleet.secret(key)
    await fleet.stop_agent(member)
    await fleet.start_agent(member)

    await fleet.until(key, "SecretCreated", "False", "NameConflict")
    fleet.start_manager()
    async with asyncio.timeout(GRANT_PATIENCE.total_seconds() - 2):
        await fleet.until(key, "SecretCreated")

    after = await fleet.secret(key)
    assert after.object["metadata"]["uid"] == before.object["metadata"]["uid"]


async def test_agent_writes_nothing_in_the_namespace_of_another_cluster(fleet: AccountsFleet) -> None:
    member, other = await fleet.cluster(), await fleet.cluster()
    key = await fleet.declare(other.name, "robot")
    await fleet.until(key)
    account = await fleet.client.get(MSA, key)
    agent = fleet.hub_client(member)
    for attempt in (
        agent.get(SECRETS, key),
        agent.list(MSA, namespace=other.name),
        agent.create(SECRETS, owned_secret("robot", account)),
        agent.patch(MSA, key, {"status": {"conditions": []}}, subresource="status"),
    ):
        with pytest.raises(Forbidden):
            await attempt


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda obj: {**obj, "type": "example.com/other"}, id="type"),
        pytest.param(lambda obj: _with(obj, labels={}), id="no label"),
        pytest.param(lambda obj: _with(obj, ownerReferences=[]), id="no owner"),
        pytest.param(lambda obj: _with(obj, name="elsewhere"), id="owner of another name"),
        pytest.param(lambda obj: _with(obj, ownerReferences=[_owner("v1", "ConfigMap")]), id="owner of another kind"),
        pytest.param(lambda obj: {**obj, "data": {"tls.key": "eA=="}}, id="other content"),
    ],
)
async def test_agent_creates_no_secret_but_that_of_an_account(fleet: AccountsFleet, spoil) -> None:  # type: ignore[no-untyped-def]
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    account = await fleet.client.get(MSA, await fleet.declare(member.name, "robot"))
    agent = fleet.hub_client(member)
    with pytest.raises(Forbidden):
        await agent.create(SECRETS, spoil(owned_secret("robot", account)))
    await agent.create(SECRETS, owned_secret("robot", account))


async def test_agent_changes_no_account_but_its_status(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    agent = fleet.hub_client(member)
    for attempt in (
        agent.patch(MSA, key, {"metadata": {"finalizers": None}}),
        agent.patch(MSA, key, {"spec": {"audiences": ["x"]}}),
        agent.delete(MSA, key),
        agent.create(MSA, MSA.manifest(ObjectKey(member.name, "more"), spec={})),
        agent.list(MANAGED_CLUSTERS),
        agent.list(CONFIG_MAPS, namespace=member.name),
    ):
        with pytest.raises(Forbidden):
            await attempt


async def _refused_on_cluster(local: Client, namespace: str, other: str) -> None:
    for attempt in (
        local.list(SERVICE_ACCOUNTS, namespace=other),
        request_token(local, ObjectKey(other, "default"), expiration_seconds=600),
        local.list(SECRETS, namespace=namespace),
        local.list(ROLES, namespace=namespace),
    ):
        with pytest.raises(Forbidden):
            await attempt


async def test_agent_has_no_rights_on_its_cluster_outside_its_namespace(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await _refused_on_cluster(await fleet.local_client(member), member.namespace, "default")


async def test_no_token_is_shown_outside_of_secrets(fleet: AccountsFleet, capfd: pytest.CaptureFixture[str]) -> None:
    member: Member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    token = (await fleet.secret(key)).token.reveal()
    printed = capfd.readouterr()
    for text in (printed.out, printed.err, str(await fleet.client.get(MSA, key))):
        assert token not in text
        assert token.split(".")[2] not in text


def _owner(version: str, kind: str) -> Object:
    return {"apiVersion": version, "kind": kind, "name": "robot", "uid": "u"}


def _with(obj: Object, **metadata: object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}
