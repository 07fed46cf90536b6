"""The controllers of discovery as data: what each reconciles, what triggers it, what it needs to see."""

from __future__ import annotations

from watchword.api.bootstrap import KUBE_PUBLIC, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.meta import Resource
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.discovery.bootstrap_signer import BootstrapSignerReconciler, WarningRecorder, cluster_info_for_token
from watchword.discovery.cluster_authorities import ClusterAuthorities, cluster_info_for_root_ca
from watchword.discovery.token_cleaner import TokenCleanerReconciler
from watchword.discovery.token_events import TokenEventReconciler
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Reader, Trigger

SCOPES: tuple[tuple[Resource, WatchScope], ...] = (
    (SECRETS, WatchScope(namespace=TOKEN_SECRET_NAMESPACE, fields=f"type={TOKEN_SECRET_TYPE}")),
    (CONFIG_MAPS, WatchScope(namespace=KUBE_PUBLIC)),
)
"""The least that a cache must follow for these controllers: no other Secret is ever read."""

CLEANER_WORKERS = 6  # tokens made together expire together; more connections would cost more than they bring


def discovery_controllers(
    reader: Reader,
    client: Client,
    clock: Clock,
    *,
    authorities: ClusterAuthorities,
    warning_recorder: WarningRecorder | None = None,
    events: EventRecorder | None = None,
) -> tuple[ControllerSpec, ...]:
    """Return bootstrapsigner and tokencleaner, and with `events` what tells about tokens, ready to run."""
    signer = BootstrapSignerReconciler(reader, client, clock, authorities, warning_recorder)
    telling = () if events is None else (TokenEventReconciler(reader, events, clock),)
    return (
        ControllerSpec(
            "bootstrapsigner",
            CONFIG_MAPS,
            signer,
            triggers=(Trigger(SECRETS, cluster_info_for_token), Trigger(CONFIG_MAPS, cluster_info_for_root_ca)),
            workers=1,
        ),
        ControllerSpec("tokencleaner", SECRETS, TokenCleanerReconciler(reader, client, clock), workers=CLEANER_WORKERS),
        *(ControllerSpec("token-events", SECRETS, each, workers=1) for each in telling),
    )
