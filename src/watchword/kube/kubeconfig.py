"""A kubeconfig as plain data: clusters, users, contexts; resolved, merged and written.

A field of an entry has the name that it has in the file, where that differs; its type says how it is written.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import fields

from watchword.api.meta import Object
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.kube.errors import ConfigError
from watchword.kube.exec_plugin import ExecPlugin


class ClusterEntry(HiddenFields, frozen=True):
    """How to reach and verify one API server; `rest` keeps the fields that we do not interpret."""

    hidden = ("ca_data", "proxy_url", "rest")

    server: str
    ca_data: bytes = field(default=b"", name="certificate-authority-data")
    ca_file: Path | None = field(default=None, name="certificate-authority")
    insecure: bool = field(default=False, name="insecure-skip-tls-verify")
    tls_server_name: str = field(default="", name="tls-server-name")
    proxy_url: str = field(default="", name="proxy-url")  # may hold a password
    rest: Mapping[str, Any] = field(default_factory=dict)


class Impersonation(Struct, frozen=True):
    """The impersonated user."""

    user: str = field(default="", name="as")
    uid: str = field(default="", name="as-uid")
    groups: tuple[str, ...] = field(default=(), name="as-groups")
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, name="as-user-extra")


class UserEntry(HiddenFields, frozen=True):
    """One identity: token, certificate, password or plugin, inline or in files."""

    hidden = ("certificate_data", "rest")

    token: Sensitive[str] | None = None
    token_file: Path | None = field(default=None, name="tokenFile")
    certificate_data: bytes = field(default=b"", name="client-certificate-data")
    certificate_file: Path | None = field(default=None, name="client-certificate")
    key_data: Sensitive[bytes] | None = field(default=None, name="client-key-data")
    key_file: Path | None = field(default=None, name="client-key")
    username: str = ""
    password: Sensitive[str] | None = None
    plugin: ExecPlugin | None = field(default=None, name="exec")
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
    merged = Kubeconfig()
    for config in configs:
        merged = Kubeconfig(
            {**config.clusters, **merged.clusters},
            {**config.users, **merged.users},
            {**config.contexts, **merged.contexts},
            merged.current_context or config.current_context,
            {**config.rest, **merged.rest},
        )
    return merged


def to_document(config: Kubeconfig) -> Object:
    """Return the kubeconfig as the mapping that is written to a file; it contains secrets."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        **config.rest,
        "clusters": [{"name": n, "cluster": _document(c)} for n, c in config.clusters.items()],
        "users": [{"name": n, "user": _document(u)} for n, u in config.users.items()],
        "contexts": [{"name": n, "context": _document(c)} for n, c in config.contexts.items()],
        "current-context": config.current_context,
    }


def _document(entry: Struct) -> Object:
    """Return an entry as it is written: by the names of the file, without what is empty."""
    written: Object = {}
    for each in fields(entry):
        value = getattr(entry, each.name)
        if each.name == "rest":
            written |= value
        elif isinstance(value, Impersonation):
            written |= _document(value)
        elif value:
            written[each.encode_name] = _plain(value)
    return written


def _plain(value: Any) -> Any:
    value = value.reveal() if isinstance(value, Sensitive) else value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, ExecPlugin):
        return _plugin_document(value)
    return str(value) if isinstance(value, Path) else value


def _plugin_document(plugin: ExecPlugin) -> Object:
    document = {
        "apiVersion": plugin.api_version,
        "command": plugin.command,
        "args": list(plugin.arguments),
        "env": [{"name": name, "value": value} for name, value in plugin.environment.items()],
        "interactiveMode": plugin.interactive_mode,
        "installHint": plugin.install_hint,
        "provideClusterInfo": plugin.provide_cluster_info,
    }
    return {key: value for key, value in document.items() if value}


def _names(entries: Mapping[str, Any]) -> str:
    return ", ".join(sorted(entries)[:10]) or "none"
