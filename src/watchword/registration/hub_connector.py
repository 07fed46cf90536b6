"""How an agent makes connections to its hub: the protocols, and the connector by kubeconfig."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.bootstrap import TOKEN_PATTERN, bootstrap_user
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.credentials.driver import KUBECONFIG, SecretData, Settings
from watchword.credentials.evidence import connect_with_token
from watchword.kube.client import Client
from watchword.kube.connect import client_for_context, credentials_of, endpoint_of, make_client
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, ResolvedContext, UserEntry
from watchword.kube.kubeconfig_files import load_kubeconfig, parse_kubeconfig
from watchword.kube.transport import Transport


class HubConnector(Protocol):
    """Makes transports to one hub."""

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted; `ConfigError` when that is unknown."""

    def has_bootstrap_credential(self) -> bool: ...

    def joining(self) -> Transport:
        """Return a transport as a joining cluster; `ConfigError` when there is no bootstrap credential."""

    def own(self, data: SecretData) -> Transport: ...


class ConnectorContext(HiddenFields, frozen=True, kw_only=True):
    """What a driver may use to reach the hub."""

    hidden = ("environment",)

    cluster: str
    bootstrap: Path | None  # the bootstrap kubeconfig
    settings: Settings = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)  # of the agent


class BootstrapCredential(Struct, frozen=True):
    """What an agent joins with, as far as others may know it."""

    digest: str  # of the whole kubeconfig: changes with it
    cluster_name: str  # of the hub's entry in the kubeconfig: OCM's agent compares it
    requester: str = ""  # the user that the hub will see, when the credential tells; a claim, not a proof


@runtime_checkable
class ReplaceableBootstrap(Protocol):
    """A connector whose bootstrap credential may be replaced while the agent runs."""

    def bootstrap_credential(self) -> BootstrapCredential | None:
        """Return the credential of this moment; None when there is none that can be read."""


@runtime_checkable
class TokenConnector(Protocol):
    """A connector that can show the API server of the hub a token in place of the cluster's own credential."""

    def with_token(self, hub: ClusterEntry, token: Sensitive[str]) -> Client:
        """Return a client that the caller closes; `ConfigError` when no server would accept such a token."""


@runtime_checkable
class OwnEndpoint(Protocol):
    """A connector that reaches the hub elsewhere than at its API server, and records in the Secret where."""

    def restore_endpoint(self, data: SecretData) -> None: ...

    def endpoint_data(self) -> SecretData:
        """Return what the Secret records of the endpoint in use; nothing while it is unknown."""

    async def check_endpoint(self) -> bool:
        """Adopt a configured endpoint that changed, once it proved itself; return whether another one is in use."""


def endpoint_data_of(connector: HubConnector) -> SecretData:
    """Return what the Secret records of a connector's own endpoint; nothing when it has none."""
    return cast("OwnEndpoint", connector).endpoint_data() if _implements(type(connector), OwnEndpoint) else {}


def bootstrap_credential_of(connector: HubConnector) -> BootstrapCredential | None:
    """Return what a connector joins with at this moment; None when it does not say."""
    if not _implements(type(connector), ReplaceableBootstrap):
        return None
    return cast("ReplaceableBootstrap", connector).bootstrap_credential()


@lru_cache
def _implements(kind: type, protocol: type) -> bool:
    """Whether a class has the methods of a protocol; Python compares them anew for every `isinstance`."""
    return issubclass(kind, protocol)


@dataclasses.dataclass
class KubeconfigConnector:
    """The bootstrap kubeconfig is read anew each time, so that a renewed one is found without a restart."""

    bootstrap: Path | None
    known: ClusterEntry | None = None  # the hub as the Secret last described it
    # The file's last content, and its meaning.
    _read: tuple[bytes, ResolvedContext] | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def make(cls, context: ConnectorContext) -> KubeconfigConnector:
        return cls(context.bootstrap)

    def entry(self) -> ClusterEntry:
        if self.has_bootstrap_credential():
            return _with_ca_data(self._choice().cluster)
        if self.known is None:
            raise ConfigError("nothing says where the hub is: give the agent a bootstrap kubeconfig")
        return self.known

    def has_bootstrap_credential(self) -> bool:
        return self.bootstrap is not None and self.bootstrap.is_file()

    def bootstrap_credential(self) -> BootstrapCredential | None:
        """Return the credential of this moment; None when there is none that can be read."""
        try:
            choice = self._choice()
        except ConfigError:
            return None
        secret = choice.user.token
        token = TOKEN_PATTERN.fullmatch(secret.reveal()) if secret is not None else None
        digest = sha256(self._read[0] if self._read is not None else b"").hexdigest()
        requester = bootstrap_user(token.group(1)) if token is not None else ""
        return BootstrapCredential(digest, choice.cluster_name, requester)

    def joining(self) -> Transport:
        return client_for_context(self._choice()).transport

    def own(self, data: SecretData) -> Transport:
        choice = parse_kubeconfig(data.get(KUBECONFIG, b"")).choose()
        self.known = choice.cluster
        user = user_with_secret_data(choice.user, data)
        if user.plugin is not None or user.certificate_file is not None or user.key_file is not None:
            # `doctor` and `unjoin` run on an administrator's machine, and the cluster wrote the Secret.
            raise ConfigError("the kubeconfig in the Secret names a plugin or files: let the agent write it again")
        return make_client(endpoint_of(choice.cluster), credentials_of(user, choice.cluster)).transport

    def with_token(self, hub: ClusterEntry, token: Sensitive[str]) -> Client:
        return connect_with_token(endpoint_of(hub))(token)

    def _choice(self) -> ResolvedContext:
        if self.bootstrap is None:
            raise ConfigError("there is no bootstrap kubeconfig: give the agent one to join with")
        try:
            content = self.bootstrap.read_bytes()
        except OSError as cause:
            raise ConfigError(f"{self.bootstrap} cannot be read: {cause.strerror}") from cause
        if self._read is None or self._read[0] != content:  # reading it takes 0.7 ms, at every step of joining
            self._read = content, load_kubeconfig(self.bootstrap, {}).choose()
        return self._read[1]


def user_with_secret_data(user: UserEntry, data: SecretData) -> UserEntry:
    if user.certificate_file is not None and user.key_file is not None:
        certificate = data.get(user.certificate_file.name, b"")
        key = Sensitive(data.get(user.key_file.name, b""))
        return replace(user, certificate_file=None, key_file=None, certificate_data=certificate, key_data=key)
    if user.token_file is not None:
        token = data.get(user.token_file.name, b"").decode(errors="replace")
        return replace(user, token_file=None, token=Sensitive(token))
    return user


def _with_ca_data(cluster: ClusterEntry) -> ClusterEntry:
    if cluster.ca_data or cluster.ca_file is None:
        return cluster
    try:
        return replace(cluster, ca_data=cluster.ca_file.read_bytes(), ca_file=None)
    except OSError as cause:
        raise ConfigError(f"the hub's certificate authority cannot be read: {cause.strerror}") from cause
