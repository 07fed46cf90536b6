"""Reaches a hub over sockets: by the bootstrap kubeconfig at first, by the Secret's own later."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from watchword.api.bootstrap import TOKEN_PATTERN, bootstrap_user
from watchword.api.sensitive import Sensitive
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.credentials.evidence import connect_with_token
from watchword.kube.client import Client
from watchword.kube.connect import client_for_context, credentials_of, endpoint_of, make_client
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, ResolvedContext, UserEntry
from watchword.kube.kubeconfig_files import load_kubeconfig, parse_kubeconfig
from watchword.kube.transport import Transport
from watchword.registration.hub_connector import BootstrapCredential, ConnectorContext


@dataclass
class KubeconfigConnector:
    """The bootstrap kubeconfig is read anew each time, so that a renewed one is found without a restart."""

    bootstrap: Path | None
    known: ClusterEntry | None = None  # the hub as the Secret last described it
    _read: tuple[bytes, ResolvedContext] | None = field(
        default=None, repr=False
    )  # the file's last content, and its meaning

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
        if self._read is None or self._read[0] != content:  # YAML is slow to parse, and needed at every step
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
