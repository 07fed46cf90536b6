"""Denials and revocations that were made after a backup hold after it is restored."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.local.test_backup import a_key, running, watchword

from watchword.accounts.grants import GRANTS
from watchword.accounts.hub.definition import manifests
from watchword.api.crds import HUB_CRDS
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Annotation
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
)
from watchword.apiserver.store.snapshot import Row
from watchword.discovery.token_secret import TokenRecord, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.tokens import request_token
from watchword.local.backup import RULES, Correction
from watchword.runtime.manifests import establish_crds
from watchword.testing.builders import a_cluster, a_cluster_role_binding, a_service_account

pytestmark = [pytest.mark.real_time]

Output = pytest.CaptureFixture[str]
DENIED, DELETED, KEPT = (ObjectKey.cluster(name) for name in ("denied", "deleted", "kept"))
ACCOUNT, READERS = ObjectKey("default", "robot"), ObjectKey.cluster("readers")
JOIN_TOKEN = "abcdef.0123456789abcdef"
JOIN_SECRET = ObjectKey("kube-system", "bootstrap-token-abcdef")


async def grant_access(client: Client) -> str:
    """Create accepted clusters, an account, a right and a join token; return the account's token."""
    await establish_crds(client, HUB_CRDS, manager="test")
    for key in (DENIED, DELETED, KEPT):
        await client.create(MANAGED_CLUSTERS, a_cluster(key.name, accepted=True))
    await client.create(CLUSTER_ROLE_BINDINGS, a_cluster_role_binding(READERS.name, role="view", users=["jane"]))
    await client.create(SECRETS, write_token_secret(TokenRecord(BootstrapToken.parse(JOIN_TOKEN))))
    await client.create(SERVICE_ACCOUNTS, a_service_account(ACCOUNT.name, namespace=ACCOUNT.namespace))
    return (await request_token(client, ACCOUNT, expiration_seconds=3600)).token.reveal()


async def revoke_access(client: Client) -> None:
    await client.patch(MANAGED_CLUSTERS, DENIED, {"spec": {"hubAcceptsClient": False}})
    await client.delete(MANAGED_CLUSTERS, DELETED)
    await client.delete(CLUSTER_ROLE_BINDINGS, READERS)
    await client.delete(SECRETS, JOIN_SECRET)
    await client.delete(SERVICE_ACCOUNTS, ACCOUNT)


async def accepted_clusters(client: Client) -> set[str]:
    page = await client.list(MANAGED_CLUSTERS)
    return {obj["metadata"]["name"] for obj in page.items if obj["spec"]["hubAcceptsClient"]}


async def accepts(client: Client, token: str) -> bool:
    review = await client.create(TOKEN_REVIEWS, TOKEN_REVIEWS.manifest(ObjectKey.cluster(""), spec={"token": token}))
    return review["status"].get("authenticated") is True


async def may_read(client: Client, user: str) -> bool:
    asked = {"user": user, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    manifest = SUBJECT_ACCESS_REVIEWS.manifest(ObjectKey.cluster(""), spec=asked)
    return (await client.create(SUBJECT_ACCESS_REVIEWS, manifest))["status"]["allowed"] is True


async def saved_and_revoked(folder: Path, key: Path | None = None) -> str:
    """Save a control plane, then revoke what it granted; return the token of the account."""
    async with running(folder / "data", key=key) as (client, _):
        token = await grant_access(client)
        await watchword("backup", folder / "backup", "--data-dir", folder / "data")
        await revoke_access(client)
    return token


def restore(folder: Path, *flags: str) -> tuple[str | Path, ...]:
    return ("restore", folder / "backup", "--data-dir", folder / "data", "--replace", "--yes", *flags)


async def test_revoked_access_stays_revoked(tmp_path: Path, capsys: Output) -> None:
    token = await saved_and_revoked(tmp_path)

    await watchword(*restore(tmp_path))

    shown = capsys.readouterr().out.partition("exist again")[0]
    assert "denied or revoked since the backup, stay so" in shown
    assert "managedclusters.cluster.open-cluster-management.io/denied" in shown
    async with running(tmp_path / "data") as (client, _):
        assert await accepted_clusters(client) == {KEPT.name}
        assert await client.find(MANAGED_CLUSTERS, DELETED) is not None
        assert not await accepts(client, token)
        assert not await accepts(client, JOIN_TOKEN)
        assert not await may_read(client, "jane")
        again = await request_token(client, ACCOUNT, expiration_seconds=3600)  # the account itself is back
        assert await accepts(client, again.token.reveal())


async def test_revoked_access_comes_back_on_request(tmp_path: Path) -> None:
    token = await saved_and_revoked(tmp_path)

    await watchword(*restore(tmp_path, "--undo-revocations"))

    async with running(tmp_path / "data") as (client, _):
        assert await accepted_clusters(client) == {DENIED.name, DELETED.name, KEPT.name}
        assert await accepts(client, token)
        assert await accepts(client, JOIN_TOKEN)
        assert await may_read(client, "jane")


async def test_deleted_account_stays_deleted(tmp_path: Path) -> None:
    account = ObjectKey("default", "robot")
    async with running(tmp_path / "data") as (client, _):
        definitions = [obj for kind, obj in manifests() if kind is CUSTOM_RESOURCE_DEFINITIONS]
        await establish_crds(client, definitions, manager="test")
        spec = {"rotation": {"enabled": True, "validity": "24h"}}
        await client.create(MANAGED_SERVICE_ACCOUNTS, MANAGED_SERVICE_ACCOUNTS.manifest(account, spec=spec))
        await watchword("backup", tmp_path / "backup", "--data-dir", tmp_path / "data")
        await client.delete(MANAGED_SERVICE_ACCOUNTS, account)

    await watchword(*restore(tmp_path))

    async with running(tmp_path / "data") as (client, _):
        assert await client.find(MANAGED_SERVICE_ACCOUNTS, account) is None


async def test_encrypted_secrets_are_read_with_their_key(tmp_path: Path, capsys: Output) -> None:
    key = a_key(tmp_path)
    await saved_and_revoked(tmp_path, key)

    await watchword(*restore(tmp_path), code=1)
    assert "give their key with --encryption-key-file" in " ".join(capsys.readouterr().err.split())
    await watchword(*restore(tmp_path, "--encryption-key-file", str(key)))

    async with running(tmp_path / "data", key=key) as (client, _):
        assert not await accepts(client, JOIN_TOKEN)


@pytest.mark.parametrize("lost", ["state.db", "everything"])
async def test_restore_is_refused_when_nothing_shows_what_was_revoked(
    tmp_path: Path, capsys: Output, lost: str
) -> None:
    await saved_and_revoked(tmp_path)
    if lost == "everything":
        (tmp_path / "data").rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "data" / "state.db").write_bytes(b"damaged" * 1000)

    await watchword(*restore(tmp_path), code=4)

    shown = " ".join(capsys.readouterr().err.split())
    assert "nothing shows what was denied or revoked since" in shown
    assert "--undo-revocations" in shown
    await watchword(*restore(tmp_path, "--undo-revocations"))
    async with running(tmp_path / "data") as (client, _):
        assert await accepted_clusters(client) == {DENIED.name, DELETED.name, KEPT.name}


async def test_dry_run_makes_no_folder(tmp_path: Path) -> None:
    await saved_and_revoked(tmp_path)
    elsewhere = tmp_path / "new" / "data"

    await watchword("restore", tmp_path / "backup", "--data-dir", elsewhere, "--undo-revocations", "--dry-run")
    assert not elsewhere.parent.exists()
    await watchword("restore", tmp_path / "backup", "--data-dir", elsewhere, "--undo-revocations")
    assert elsewhere.exists()


async def test_account_whose_finalizers_still_run_stays_deleted(tmp_path: Path) -> None:
    account, metadata = ObjectKey("default", "robot"), {"finalizers": ["example.com/slow"]}
    async with running(tmp_path / "data") as (client, _):
        definitions = [obj for kind, obj in manifests() if kind is CUSTOM_RESOURCE_DEFINITIONS]
        await establish_crds(client, definitions, manager="test")
        manifest = MANAGED_SERVICE_ACCOUNTS.manifest(account, metadata=metadata, spec={"rotation": {}})
        await client.create(MANAGED_SERVICE_ACCOUNTS, manifest)
        await watchword("backup", tmp_path / "backup", "--data-dir", tmp_path / "data")
        await client.delete(MANAGED_SERVICE_ACCOUNTS, account)

    await watchword(*restore(tmp_path))

    async with running(tmp_path / "data") as (client, _):
        assert await client.find(MANAGED_SERVICE_ACCOUNTS, account) is None


def a_noted_cluster(key: str) -> Object:
    return {"metadata": {"annotations": {Annotation.FIRST_KEY: key}}, "spec": {"hubAcceptsClient": True}}


def the_grants(*names: str) -> Object:
    return CONFIG_MAPS.manifest(GRANTS, data=dict.fromkeys(names, "{}"))


AGGREGATED: Object = {"aggregationRule": {"clusterRoleSelectors": []}, "rules": [{"verbs": ["get"]}]}
NARROW: Object = {"rules": []}
BARE: Object = {"metadata": {"name": "edge"}}
OLD, NEW = a_noted_cluster("old"), a_noted_cluster("new")


@pytest.mark.parametrize(
    ("kind", "saved", "present", "restored"),
    [
        pytest.param(MANAGED_CLUSTERS, OLD, NEW, NEW, id="name taken over by another key"),
        pytest.param(MANAGED_CLUSTERS, BARE, None, BARE, id="cluster without spec deleted"),
        pytest.param(CLUSTER_ROLES, AGGREGATED, None, None, id="aggregated role deleted"),
        pytest.param(CLUSTER_ROLES, AGGREGATED, NARROW, NARROW, id="aggregation ended"),
        pytest.param(CLUSTER_ROLES, AGGREGATED, AGGREGATED, AGGREGATED, id="aggregated role kept"),
        pytest.param(MANAGED_CLUSTER_ADDONS, BARE, None, None, id="add-on deleted"),
        pytest.param(CONFIG_MAPS, the_grants("a", "b"), the_grants("b", "c"), the_grants("b"), id="right withdrawn"),
        pytest.param(CONFIG_MAPS, the_grants("a"), None, the_grants(), id="record of rights deleted"),
    ],
)
def test_what_is_restored(kind: Resource, saved: Object, present: Object | None, restored: Object | None) -> None:
    assert RULES[kind.group_resource](saved, present) == restored


def test_content_of_a_secret_is_not_shown() -> None:
    row = Row(1, "secrets", "default/one", False, b"sesame")

    assert "sesame" not in repr(Correction(row, {"data": "sesame"}))
