"""How an agent makes connections to its hub: with the bootstrap credential, and with its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from msgspec import Struct, field

from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.credentials.driver import SecretData
from watchword.credentials.driver_options import Settings
from watchword.kube.client import Client
from watchword.kube.kubeconfig import ClusterEntry
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
