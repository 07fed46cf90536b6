"""What the controllers of an accepted cluster's agent are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TypeAlias

from msgspec import Struct

from watchword.api.meta import ObjectKey
from watchword.api.names import Label
from watchword.credentials.credential_secret import PendingCsrWatch
from watchword.credentials.driver import NewKey
from watchword.pki.keys import PrivateKey
from watchword.registration.agent.hub_session import HubSession
from watchword.registration.agent.options import AgentOptions
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.clock import Clock
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import Manager
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import ControllerSpec

HUB = "hub"
"""The name of the connection to the hub; the main one is that to the agent's own cluster."""


class AgentControllerContext(Struct, frozen=True, kw_only=True):
    """The connections to both API servers, the session with the hub, and what else controllers need."""

    options: AgentOptions
    manager: Manager  # runs the controllers, and jobs beside them
    cluster: ApiServerConnection
    hub: ApiServerConnection  # refuses writes that are not in the name of this cluster
    session: HubSession
    csr_watch: PendingCsrWatch
    clock: Clock
    random: Random
    metrics: Metrics
    new_key: NewKey = PrivateKey.generate


ControllerFactory: TypeAlias = Callable[[AgentControllerContext], Iterable[ControllerSpec]]
"""Asks the caches for what it watches and returns its controllers."""


def single_object_scope(key: ObjectKey) -> WatchScope:
    """Return the scope of one object."""
    return WatchScope(key.namespace, fields=f"metadata.name={key.name}")


def csr_scope(cluster: str) -> WatchScope:
    """Return the scope of the certificate requests of a cluster and of its add-ons."""
    return WatchScope(labels=f"{Label.CLUSTER_NAME}={cluster}")
