"""The controllers of discovery as data: what each reconciles, what wakes it, what it needs to see."""

from __future__ import annotations

from watchword.api.bootstrap import KUBE_PUBLIC, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.meta import Resource
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.discovery.cleaner import TokenCleanerReconciler
from watchword.discovery.own_authorities import OwnAuthorities, wake_for_authority
from watchword.discovery.signer import Announcer, BootstrapSignerReconciler, wake_for_token
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.informer import Scope
from watchword.runtime.reconcile import ControllerSpec, Reader, Wake

SCOPES: tuple[tuple[Resource, Scope], ...] = (
    (SECRETS, Scope(namespace=TOKEN_SECRET_NAMESPACE, fields=f"type={TOKEN_SECRET_TYPE}")),
    (CONFIG_MAPS, Scope(namespace=KUBE_PUBLIC)),
)
"""The least that a cache must follow for these controllers: no other Secret is ever read."""

CLEANER_WORKERS = 6  # tokens made together expire together; more connections would cost more than they bring


def discovery_controllers(
    reader: Reader,
    client: Client,
    clock: Clock,
    *,
    authorities: OwnAuthorities,
    announcer: Announcer | None = None,
) -> tuple[ControllerSpec, ...]:
    """Return bootstrapsigner and tokencleaner, ready to run."""
    signer = BootstrapSignerReconciler(reader, client, clock, authorities, announcer)
    return (
        ControllerSpec(
            "bootstrapsigner",
            CONFIG_MAPS,
            signer,
            wakes=(Wake(SECRETS, wake_for_token), Wake(CONFIG_MAPS, wake_for_authority)),
            workers=1,
        ),
        ControllerSpec("tokencleaner", SECRETS, TokenCleanerReconciler(reader, client, clock), workers=CLEANER_WORKERS),
    )
