"""A kubeconfig as plain data: clusters, users, contexts; resolved, merged and written."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Object
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.kube.errors import ConfigError
from watchword.kube.exec_plugin import ExecPlugin


class ClusterEntry(HiddenFields, frozen=True):
    """How to reach and verify one API server; `rest` keeps the fields that we do not interpret."""

    hidden = ("ca_data", "proxy_url", "rest")

    server: str
    ca_data: bytes = b""
    ca_file: Path | None = None
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""  # may hold a password
    rest: Mapping[str, Any] = field(default_factory=dict)


class Impersonation(Struct, frozen=True):
    """The impersonated user."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class UserEntry(HiddenFields, frozen=True):
    """One identity: token, certificate, password or plugin, inline or in files."""

    hidden = ("certificate_data", "rest")

    token: Sensitive[str] | None = None
    token_file: Path | None = None
    certificate_data: bytes = b""
    certificate_file: Path | None = None
    key_data: Sensitive[bytes] | None = None
    key_file: Path | None = None
    username: str = ""
    password: Sensitive[str] | None = None
    plugin: ExecPlugin | None = None
    impersonation: Impersonation = field(default_factory=Impersonation)
    rest: Mapping[str, Any] = field(default_factory=dict)


class ContextEntry(HiddenFields, frozen=True):
    """The user, the cluster and the default namespace of one context."""

    hidden = ("rest",)

    cluster: str
    user: str = ""
    namespace: str = ""
    rest: Mapping[str, Any] = field(default_factory=dict)


class ResolvedContext(Struct, frozen=True):
    """The cluster, user and namespace that one context resolves to."""

    context: str
    cluster: ClusterEntry
    user: UserEntry
    namespace: str
    cluster_name: str = ""


class Kubeconfig(HiddenFields, frozen=True):
    """One kubeconfig, or several merged."""

    hidden = ("rest",)

    clusters: Mapping[str, ClusterEntry] = field(default_factory=dict)
    users: Mapping[str, UserEntry] = field(default_factory=dict)
    contexts: Mapping[str, ContextEntry] = field(default_factory=dict)
    current_context: str = ""
    rest: Mapping[str, Any] = field(default_factory=dict)

    def choose(self, context: str = "") -> ResolvedContext:
        """Resolve a context (by default the current one); `ConfigError` when it names nothing that exists."""
        name = context or self.current_context
        if not name:
            raise ConfigError("the kubeconfig names no current-context: choose one of " + _names(self.contexts))
        entry = self.contexts.get(name)
        if entry is None:
            raise ConfigError(f"the kubeconfig has no context {name!r}: it has {_names(self.contexts)}")
        cluster = self.clusters.get(entry.cluster)
        if cluster is None:
            raise ConfigError(f"context {name!r} names cluster {entry.cluster!r}, which the kubeconfig does not have")
        user = self.users.get(entry.user) if entry.user else UserEntry()
        if user is None:
            raise ConfigError(f"context {name!r} names user {entry.user!r}, which the kubeconfig does not have")
        return ResolvedContext(name, cluster, user, entry.namespace, entry.cluster)

    @classmethod
    def single(cls, name: str, cluster: ClusterEntry, user: UserEntry, *, namespace: str = "") -> Kubeconfig:
        context = ContextEntry(name, name, namespace)
        return cls({name: cluster}, {name: user}, {name: context}, name)


def merge(configs: list[Kubeconfig]) -> Kubeconfig:
    """Merge as kubectl does: of each name, and of current-context, the first one counts."""
    clusters: dict[str, ClusterEntry] = {}
    users: dict[str, UserEntry] = {}
    contexts: dict[str, ContextEntry] = {}
    rest: Object = {}
    current = ""
    for config in configs:
        clusters = {**config.clusters, **clusters}
        users = {**config.users, **users}
        contexts = {**config.contexts, **contexts}
        rest = {**config.rest, **rest}
        current = current or config.current_context
    return Kubeconfig(clusters, users, contexts, current, rest)


def to_document(config: Kubeconfig) -> Object:
    """Return the kubeconfig as the mapping that is written to a file; it contains secrets."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        **config.rest,
        "clusters": [{"name": n, "cluster": _cluster_document(c)} for n, c in config.clusters.items()],
        "users": [{"name": n, "user": _user_document(u)} for n, u in config.users.items()],
        "contexts": [{"name": n, "context": _context_document(c)} for n, c in config.contexts.items()],
        "current-context": config.current_context,
    }


def _cluster_document(cluster: ClusterEntry) -> Object:
    return _filled(
        {
            "server": cluster.server,
            "certificate-authority-data": _base64(cluster.ca_data),
            "certificate-authority": str(cluster.ca_file or ""),
            "insecure-skip-tls-verify": cluster.insecure,
            "tls-server-name": cluster.tls_server_name,
            "proxy-url": cluster.proxy_url,
        },
        cluster.rest,
    )


def _context_document(context: ContextEntry) -> Object:
    return _filled({"cluster": context.cluster, "user": context.user, "namespace": context.namespace}, context.rest)


def _user_document(user: UserEntry) -> Object:
    other = user.impersonation
    return _filled(
        {
            "token": user.token.reveal() if user.token else "",
            "tokenFile": str(user.token_file or ""),
            "client-certificate-data": _base64(user.certificate_data),
            "client-certificate": str(user.certificate_file or ""),
            "client-key-data": _base64(user.key_data.reveal() if user.key_data else b""),
            "client-key": str(user.key_file or ""),
            "username": user.username,
            "password": user.password.reveal() if user.password else "",
            "exec": _plugin_document(user.plugin) if user.plugin else {},
            "as": other.user,
            "as-uid": other.uid,
            "as-groups": list(other.groups),
            "as-user-extra": {key: list(values) for key, values in other.extra.items()},
        },
        user.rest,
    )


def _plugin_document(plugin: ExecPlugin) -> Object:
    return _filled(
        {
            "apiVersion": plugin.api_version,
            "command": plugin.command,
            "args": list(plugin.arguments),
            "env": [{"name": name, "value": value} for name, value in plugin.environment.items()],
            "interactiveMode": plugin.interactive_mode,
            "installHint": plugin.install_hint,
            "provideClusterInfo": plugin.provide_cluster_info,
        },
        {},
    )


def _filled(fields: Object, rest: Mapping[str, Any]) -> Object:
    return {**rest, **{key: value for key, value in fields.items() if value}}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _names(entries: Mapping[str, Any]) -> str:
    return ", ".join(sorted(entries)[:10]) or "none"
