"""What an accepted cluster's agent does besides registration, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TypeAlias

from msgspec import Struct

from watchword.credentials.credential_secret import PendingCsrWatch
from watchword.credentials.driver import NewKey
from watchword.credentials.evidence import TokenClientFactory
from watchword.pki.keys import PrivateKey
from watchword.registration.agent.hub_endpoint import original_server
from watchword.registration.agent.hub_session import HubSession
from watchword.registration.agent.options import AgentOptions
from watchword.registration.hub_connector import TokenConnector
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.clock import Clock
from watchword.runtime.manager import Manager
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import ControllerSpec


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


def addon_controllers(context: AgentControllerContext) -> Iterable[ControllerSpec]:
    """Keep the credentials of add-ons, and report the health of the add-ons."""
    from watchword.addons.agent.controllers import AddonAgentContext, controllers

    options = context.options
    return controllers(
        AddonAgentContext(
            cluster_name=options.cluster_name,
            addon_namespace=options.addon_namespace,
            own_secret=options.secret_key,
            addon_auth=options.addon_auth,
            settings=options.settings,
            session=context.session,
            cluster=context.cluster,
            hub=context.hub,
            csr_watch=context.csr_watch,
            clock=context.clock,
            metrics=context.metrics,
            new_key=context.new_key,
            manager=context.manager,
            random=context.random,
            token_client=_token_client(context.session),
        )
    )


def _token_client(session: HubSession) -> TokenClientFactory | None:
    connector = session.connector
    if not isinstance(connector, TokenConnector):
        return None
    return lambda token: connector.with_token(session.endpoint.entry(), token)


def work_controllers(context: AgentControllerContext) -> Iterable[ControllerSpec]:
    from watchword.work.controllers import WorkContext, WorkTiming, controllers

    options, session = context.options, context.session
    return controllers(
        WorkContext(
            cluster_name=options.cluster_name,
            agent_id=f"{options.namespace}/{options.hub_secret}",
            hub_address=lambda: original_server(session.endpoint.entry()),
            manager=context.manager,
            cluster=context.cluster,
            hub=context.hub,
            clock=context.clock,
            random=context.random,
            timing=WorkTiming(options.eviction_grace, options.feedback_interval, options.work_recheck),
        )
    )


CONTROLLER_FACTORIES: tuple[ControllerFactory, ...] = (addon_controllers, work_controllers)
"""Each imports its pillar when it is first needed: an agent pays for add-ons and works once its cluster is accepted."""
