"""Hands tokens to tools that keep their own list of clusters, and keeps that list right."""

import asyncio
import base64
from collections.abc import Callable
from contextlib import aclosing
from typing import Protocol

import orjson
from msgspec import Struct

from watchword.accounts.tokens import AccountsError, AccountToken, TokenAvailable, TokenChange, watch_tokens
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, labels_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import CLUSTER_PROFILES, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound
from watchword.runtime.diff import choose_changes
from watchword.runtime.ensure import delete_object, with_preconditions
from watchword.runtime.errors import NameConflict
from watchword.runtime.manager import first_error
from watchword.runtime.reconcile import FIRST_RECHECK

PROJECT = "watchword"
ARGO_TYPE = "argocd.argoproj.io/secret-type"
PROVIDER = "open-cluster-management"
CLUSTER_MANAGER = "x-k8s.io/cluster-manager"
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class ExportRefused(AccountsError):
    """Nothing can be exported to this server; the message says what is missing."""


class Exporter(Protocol):
    """Writes clusters in the form that one tool reads."""

    async def exported(self) -> list[str]:
        """Return the clusters that were written for this account before; `ExportRefused` when none can be."""
        ...

    async def put(self, token: AccountToken) -> None:
        """Make a cluster known, or bring what is known of it up to date; `NameConflict` when its name is taken."""
        ...

    async def remove(self, cluster: str) -> None: ...


async def run_export(
    hub: Client,
    account: str,
    exporter: Exporter,
    *,
    namespace: str = "",
    report: Callable[[TokenChange, str], None] = lambda *_: None,
) -> None:
    """Keep a tool's list of clusters equal to the clusters that have a token, until cancelled.

    A cluster whose name is taken is reported and tried again, and holds up no other.
    """
    writing: dict[str, asyncio.Task[None]] = {}
    changes = watch_tokens(hub, account, namespace=namespace, known=await exporter.exported())
    try:
        async with asyncio.TaskGroup() as group, aclosing(changes):
            async for change in changes:
                before = writing.pop(change.cluster, None)
                if before is not None:
                    before.cancel()
                    await asyncio.wait([before])
                writing[change.cluster] = group.create_task(_carry_out(change, exporter, report))
    except ExceptionGroup as errors:
        raise first_error(errors) from errors


async def _carry_out(change: TokenChange, exporter: Exporter, report: Callable[[TokenChange, str], None]) -> None:
    while isinstance(change, TokenAvailable):
        try:
            await exporter.put(change.token)
            break
        except NameConflict as conflict:
            report(change, str(conflict))
            await asyncio.sleep(FIRST_RECHECK.total_seconds())  # the object that is in the way is not watched
    else:
        await exporter.remove(change.cluster)
    report(change, "")


class ArgoExporter(Struct, frozen=True):
    """Writes one cluster Secret of Argo CD for each cluster."""

    client: Client
    account: ObjectKey  # its namespace is empty for accounts in the namespaces of all clusters
    namespace: str = "argocd"

    async def exported(self) -> list[str]:
        return await _exported(self.client, SECRETS, self.namespace, self.account)

    async def put(self, token: AccountToken) -> None:
        """Write the Secret of a cluster; it holds the token."""
        tls = {"caData": base64.b64encode(token.ca).decode()}
        config = {"bearerToken": token.token.reveal(), "tlsClientConfig": tls}
        fields = {"name": token.cluster.encode(), "server": token.server.encode(), "config": orjson.dumps(config)}
        wanted = SECRETS.manifest(
            self._key(token.cluster),
            metadata=_metadata(token.cluster, self.account, {ARGO_TYPE: "cluster"}),
            type="Opaque",
            data={name: base64.b64encode(value).decode() for name, value in fields.items()},
        )
        present = await _create(self.client, SECRETS, wanted, self.account)
        changes = choose_changes(present, wanted)
        if changes is not None:
            await self.client.patch(SECRETS, ObjectKey.of(wanted), with_preconditions(present, changes))

    async def remove(self, cluster: str) -> None:
        await _remove(self.client, SECRETS, self._key(cluster), self.account)

    def _key(self, cluster: str) -> ObjectKey:
        return ObjectKey(self.namespace, f"cluster-{cluster}")


class ClusterProfileExporter(Struct, frozen=True):
    """Writes one ClusterProfile for each cluster: how to reach it, and which plugin gives the credential.

    No token is in it. Clients run the plugin that they have configured under the provider's name, and the plugin reads
    the token from the hub.
    """

    client: Client
    account: ObjectKey
    namespace: str

    async def exported(self) -> list[str]:
        try:
            return await _exported(self.client, CLUSTER_PROFILES, self.namespace, self.account)
        except NotFound as cause:
            raise ExportRefused(
                f"this server has no kind {CLUSTER_PROFILES.group_resource}: "
                "install the CustomResourceDefinition of the Cluster Inventory API first"
            ) from cause

    async def put(self, token: AccountToken) -> None:
        spec = {"displayName": token.cluster, "clusterManager": {"name": PROVIDER}}
        metadata = _metadata(token.cluster, self.account, {CLUSTER_MANAGER: PROVIDER})
        wanted = CLUSTER_PROFILES.manifest(ObjectKey(self.namespace, token.cluster), metadata=metadata, spec=spec)
        present = await _create(self.client, CLUSTER_PROFILES, wanted, self.account)
        changes = choose_changes(present, wanted)
        if changes is not None:
            patch = with_preconditions(present, changes)
            present = await self.client.patch(CLUSTER_PROFILES, ObjectKey.of(wanted), patch)
        provider = {
            "name": PROVIDER,
            "cluster": {
                "server": token.server,
                "certificate-authority-data": base64.b64encode(token.ca).decode(),
                "extensions": [{"name": EXEC_EXTENSION, "extension": {"clusterName": token.cluster}}],
            },
        }
        listed = (present.get("status") or {}).get("accessProviders") or []
        others = [row for row in listed if row.get("name") != PROVIDER]
        if [*others, provider] != listed:
            patch = with_preconditions(present, {"status": {"accessProviders": [*others, provider]}})
            await self.client.patch(CLUSTER_PROFILES, ObjectKey.of(wanted), patch, subresource="status")

    async def remove(self, cluster: str) -> None:
        await _remove(self.client, CLUSTER_PROFILES, ObjectKey(self.namespace, cluster), self.account)


def _metadata(cluster: str, account: ObjectKey, labels: dict[str, str]) -> Object:
    return {
        "labels": {Label.MANAGED_BY: PROJECT, Label.CLUSTER_NAME: cluster, **labels},
        "annotations": {Annotation.EXPORTED_ACCOUNT: str(account)},
    }


async def _create(client: Client, kind: Resource, wanted: Object, account: ObjectKey) -> Object:
    """Create an object, or return the one that was exported for the account; `NameConflict` for any other."""
    try:
        return await client.create(kind, wanted)
    except AlreadyExists:
        present = await client.get(kind, ObjectKey.of(wanted))
    if not _is_own(present, account):
        raise NameConflict(
            f"{kind.kind} {ObjectKey.of(present)} was not written by the export of account {account}: "
            "rename or remove it"
        )
    return present


async def _exported(client: Client, kind: Resource, namespace: str, account: ObjectKey) -> list[str]:
    listed = await client.list(kind, namespace=namespace, labels=f"{Label.MANAGED_BY}={PROJECT},{Label.CLUSTER_NAME}")
    own = [obj for obj in listed.items if annotations_of(obj).get(Annotation.EXPORTED_ACCOUNT) == str(account)]
    return [labels_of(obj)[Label.CLUSTER_NAME] for obj in own]


async def _remove(client: Client, kind: Resource, key: ObjectKey, account: ObjectKey) -> None:
    found = await client.find(kind, key)
    if found is not None and _is_own(found, account):
        await delete_object(client, kind, found)


def _is_own(present: Object, account: ObjectKey) -> bool:
    """Whether an object was exported for the account; an export of an earlier version did not note for which."""
    made_for = annotations_of(present).get(Annotation.EXPORTED_ACCOUNT, str(account))
    return labels_of(present).get(Label.MANAGED_BY) == PROJECT and made_for == str(account)
