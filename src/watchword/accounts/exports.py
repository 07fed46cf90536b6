"""Hands tokens to tools that keep their own list of clusters, and keeps that list right."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from contextlib import aclosing
from typing import Protocol

import orjson
from msgspec import Struct

from watchword.accounts.tokens import AccountToken, TokenAvailable, TokenChange, watch_tokens
from watchword.api.meta import Object, ObjectKey, labels_of, uid_of
from watchword.api.names import Label
from watchword.api.resources import CLUSTER_PROFILES, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound
from watchword.runtime.diff import choose_changes
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.errors import NameConflict

PROJECT = "watchword"
ARGO_TYPE = "argocd.argoproj.io/secret-type"
PROVIDER = "open-cluster-management"
CLUSTER_MANAGER = "x-k8s.io/cluster-manager"
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class Exporter(Protocol):
    """Writes clusters in the form that one tool reads."""

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
    report: Callable[[TokenChange], None] = lambda _: None,
) -> None:
    """Keep a tool's list of clusters equal to the clusters that have a token, until cancelled."""
    async with aclosing(watch_tokens(hub, account, namespace=namespace)) as changes:
        async for change in changes:
            if isinstance(change, TokenAvailable):
                await exporter.put(change.token)
            else:
                await exporter.remove(change.cluster)
            report(change)


class ArgoExporter(Struct, frozen=True):
    """Writes one cluster Secret of Argo CD for each cluster."""

    client: Client
    namespace: str = "argocd"

    async def put(self, token: AccountToken) -> None:
        """Write the Secret of a cluster; it holds the token."""
        tls = {"caData": base64.b64encode(token.ca).decode()}
        config = {"bearerToken": token.token.reveal(), "tlsClientConfig": tls}
        fields = {"name": token.cluster.encode(), "server": token.server.encode(), "config": orjson.dumps(config)}
        wanted = SECRETS.manifest(
            self._key(token.cluster),
            metadata={"labels": {ARGO_TYPE: "cluster", Label.MANAGED_BY: PROJECT, Label.CLUSTER_NAME: token.cluster}},
            type="Opaque",
            data={name: base64.b64encode(value).decode() for name, value in fields.items()},
        )
        try:
            await self.client.create(SECRETS, wanted)
        except AlreadyExists:
            present = await self.client.get(SECRETS, ObjectKey.of(wanted))
            _require_own(present)
            changes = choose_changes(present, wanted)
            if changes is not None:
                await self.client.patch(SECRETS, ObjectKey.of(wanted), with_preconditions(present, changes))

    async def remove(self, cluster: str) -> None:
        found = await self.client.find(SECRETS, self._key(cluster))
        if found is not None and labels_of(found).get(Label.MANAGED_BY) == PROJECT:
            with contextlib.suppress(NotFound):
                await self.client.delete(SECRETS, ObjectKey.of(found), uid=uid_of(found))

    def _key(self, cluster: str) -> ObjectKey:
        return ObjectKey(self.namespace, f"cluster-{cluster}")


class ClusterProfileExporter(Struct, frozen=True):
    """Writes one ClusterProfile for each cluster: how to reach it, and which plugin gives the credential.

    No token is in it. Clients run the plugin that they have configured under the provider's name, and the plugin reads
    the token from the hub.
    """

    client: Client
    namespace: str

    async def put(self, token: AccountToken) -> None:
        key = ObjectKey(self.namespace, token.cluster)
        spec = {"displayName": token.cluster, "clusterManager": {"name": PROVIDER}}
        labels = {CLUSTER_MANAGER: PROVIDER, Label.CLUSTER_NAME: token.cluster, Label.MANAGED_BY: PROJECT}
        wanted = CLUSTER_PROFILES.manifest(key, metadata={"labels": labels}, spec=spec)
        try:
            present = await self.client.create(CLUSTER_PROFILES, wanted)
        except AlreadyExists:
            present = await self.client.get(CLUSTER_PROFILES, key)
            if labels_of(present).get(CLUSTER_MANAGER) != PROVIDER:
                raise NameConflict(f"ClusterProfile {key} belongs to another cluster manager: rename it") from None
        provider = access_provider(token)
        listed = (present.get("status") or {}).get("accessProviders") or []
        others = [row for row in listed if row.get("name") != PROVIDER]
        if [*others, provider] != listed:
            patch = with_preconditions(present, {"status": {"accessProviders": [*others, provider]}})
            await self.client.patch(CLUSTER_PROFILES, key, patch, subresource="status")

    async def remove(self, cluster: str) -> None:
        found = await self.client.find(CLUSTER_PROFILES, ObjectKey(self.namespace, cluster))
        if found is not None and labels_of(found).get(Label.MANAGED_BY) == PROJECT:
            with contextlib.suppress(NotFound):
                await self.client.delete(CLUSTER_PROFILES, ObjectKey.of(found), uid=uid_of(found))


def access_provider(token: AccountToken) -> Object:
    """Return how a cluster is reached: its server, its authority, and its name for the plugin."""
    return {
        "name": PROVIDER,
        "cluster": {
            "server": token.server,
            "certificate-authority-data": base64.b64encode(token.ca).decode(),
            "extensions": [{"name": EXEC_EXTENSION, "extension": {"clusterName": token.cluster}}],
        },
    }


def _require_own(present: Object) -> None:
    if labels_of(present).get(Label.MANAGED_BY) != PROJECT:
        raise NameConflict(f"Secret {ObjectKey.of(present)} was not written by this export: rename or remove it")
