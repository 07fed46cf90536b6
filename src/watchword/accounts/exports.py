"""Exports tokens to tools with a list of clusters of their own, and keeps that list up to date."""

import asyncio
import base64
from abc import abstractmethod
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, ClassVar

import orjson
from msgspec import Struct

from watchword.accounts.tokens import AccountsError, AccountToken, TokenAvailable, TokenChange, watch_tokens
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, labels_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import CLUSTER_PROFILES, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound, ServerError, TooManyRequests, Unreachable
from watchword.runtime.ensure import ApplyPolicy, apply_object, delete_object, with_preconditions
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.manager import first_error
from watchword.runtime.reconcile import FIRST_RECHECK

PROJECT = "watchword"
ARGO_TYPE = "argocd.argoproj.io/secret-type"
PROVIDER = "open-cluster-management"
CLUSTER_MANAGER = "x-k8s.io/cluster-manager"
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
PASSING = (BeingDeleted, Conflict, NameConflict, ServerError, TooManyRequests, Unreachable)  # ends no export


class ExportRefused(AccountsError):
    """Nothing can be exported to this server; the message says what is missing."""


class Exporter(Struct, frozen=True):
    """Writes one object for each cluster, in the form that one tool reads."""

    kind: ClassVar[Resource]
    prefix: ClassVar[str] = ""  # of the objects' names, before that of the cluster

    client: Client
    account: ObjectKey  # its namespace is empty for accounts in the namespaces of all clusters
    namespace: str

    async def exported(self) -> list[str]:
        """Return the clusters that were written for this account before; `ExportRefused` when none can be."""
        labels = f"{Label.MANAGED_BY}={PROJECT},{Label.CLUSTER_NAME}"
        listed = await self.client.list(self.kind, namespace=self.namespace, labels=labels)
        own = [obj for obj in listed.items if Annotation.EXPORTED_ACCOUNT in annotations_of(obj) and self._is_own(obj)]
        return [labels_of(obj)[Label.CLUSTER_NAME] for obj in own]

    @abstractmethod
    async def put(self, token: AccountToken) -> None:
        """Make a cluster known, or bring what is known of it up to date; `NameConflict` when its name is taken."""

    async def remove(self, cluster: str) -> None:
        found = await self.client.find(self.kind, ObjectKey(self.namespace, self.prefix + cluster))
        if found is not None and self._is_own(found):
            await delete_object(self.client, self.kind, found)

    async def _write(self, cluster: str, labels: dict[str, str], **fields: Any) -> Object:
        metadata = {
            "labels": {Label.MANAGED_BY: PROJECT, Label.CLUSTER_NAME: cluster, **labels},
            "annotations": {Annotation.EXPORTED_ACCOUNT: str(self.account)},
        }
        wanted = self.kind.manifest(ObjectKey(self.namespace, self.prefix + cluster), metadata=metadata, **fields)
        try:
            return await apply_object(self.client, self.kind, wanted, None, ApplyPolicy(is_ours=self._is_own))
        except NameConflict as conflict:
            raise NameConflict(f"{conflict}, or export account {self.account} to another namespace") from conflict

    def _is_own(self, present: Object) -> bool:
        """Whether an object was exported for the account; an export of an earlier version did not note for which."""
        made_for = annotations_of(present).get(Annotation.EXPORTED_ACCOUNT, str(self.account))
        return labels_of(present).get(Label.MANAGED_BY) == PROJECT and made_for == str(self.account)


async def run_export(
    hub: Client,
    account: str,
    exporter: Exporter,
    *,
    namespace: str = "",
    report: Callable[[TokenChange, str], None] = lambda *_: None,
) -> None:
    """Keep a tool's list of clusters equal to the clusters that have a token, until cancelled.

    A cluster whose name is taken, or whose write fails for now, is reported and tried again, and holds up no other.
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
    while True:
        try:
            work = exporter.put(change.token) if isinstance(change, TokenAvailable) else exporter.remove(change.cluster)
            await work
            return report(change, "")
        except PASSING as problem:
            report(change, str(problem))
            await asyncio.sleep(FIRST_RECHECK.total_seconds())  # the object that is in the way is not watched


class ArgoExporter(Exporter, frozen=True):
    """Writes one cluster Secret of Argo CD for each cluster; it holds the token."""

    kind = SECRETS
    prefix = "cluster-"

    async def put(self, token: AccountToken) -> None:
        tls = {"caData": base64.b64encode(token.ca).decode()}
        config = {"bearerToken": token.token.reveal(), "tlsClientConfig": tls}
        fields = {"name": token.cluster.encode(), "server": token.server.encode(), "config": orjson.dumps(config)}
        data = {name: base64.b64encode(value).decode() for name, value in fields.items()}
        await self._write(token.cluster, {ARGO_TYPE: "cluster"}, type="Opaque", data=data)


class ClusterProfileExporter(Exporter, frozen=True):
    """Writes one ClusterProfile for each cluster: how to reach it, and which plugin gives the credential.

    No token is in it. Clients run the plugin that they have configured under the provider's name, and the plugin reads
    the token from the hub.
    """

    kind = CLUSTER_PROFILES

    async def exported(self) -> list[str]:
        try:
            return await super().exported()
        except NotFound as cause:
            raise ExportRefused(
                f"this server has no kind {CLUSTER_PROFILES.group_resource}: "
                "install the CustomResourceDefinition of the Cluster Inventory API first"
            ) from cause

    async def put(self, token: AccountToken) -> None:
        spec = {"displayName": token.cluster, "clusterManager": {"name": PROVIDER}}
        present = await self._write(token.cluster, {CLUSTER_MANAGER: PROVIDER}, spec=spec)
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
            await self.client.patch(self.kind, ObjectKey.of(present), patch, subresource="status")
