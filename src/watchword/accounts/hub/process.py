"""Runs the hub side of managed service accounts as a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random, SystemRandom

from watchword.accounts.hub import controllers as accounts
from watchword.accounts.hub.account_events import account_event_controllers
from watchword.accounts.hub.definition import accounts_addon
from watchword.accounts.hub.secret_policy import policy_manifests
from watchword.addons import controllers as addons
from watchword.addons.controllers import AddonParts
from watchword.addons.definition import AddonDefinition
from watchword.addons.process import single_addon_lookup
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME, read_token_validity
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.meta import Manifest, ObjectKey
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, CUSTOM_RESOURCE_DEFINITIONS
from watchword.kube.client import Client
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.expiry_metrics import CredentialExpiryReconciler, MeasuredCredentials
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.manifests import apply_manifests
from watchword.runtime.reconcile import ControllerSpec, Reader

FIELD_MANAGER = "watchword-accounts"


@dataclass(frozen=True)
class AccountsManagerOptions:
    """How the hub side behaves."""

    manager: ManagerOptions = field(
        default_factory=lambda: ManagerOptions(f"watchword.dev/addon-{ADDON_NAME}", ADDON_NAME)
    )
    definition: AddonDefinition = field(default_factory=accounts_addon)
    install: bool = True  # apply kinds and policy; off where another hand does it
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)


async def run_accounts_manager(
    client: Client, options: AccountsManagerOptions | None = None, *, stop: asyncio.Event | None = None
) -> None:
    """Install the agent where the add-on is enabled, follow sets, revoke what is deleted, until asked to stop."""
    options = options or AccountsManagerOptions()
    if options.install:
        await install(client)
    manager = Manager(options.manager, clock=options.clock, random=options.random)
    hub = manager.connect(client)
    addons.register_informers(hub.cache, ADDON_NAME)
    accounts.register_informers(hub.cache)
    definitions = single_addon_lookup(options.definition)
    parts = AddonParts(hub.cache, hub.client, hub.events, options.clock, definitions)
    manager.add(*addons.controllers(parts), *accounts.controllers(parts))
    measured = MeasuredCredentials(manager.metrics.credentials, options.clock)
    manager.add(*expiry_controllers(hub.cache, measured), *account_event_controllers(hub.cache, hub.events))
    await manager.run(stop)


def expiry_controllers(reader: Reader, measured: MeasuredCredentials) -> Iterable[ControllerSpec]:
    """Return the measurement of the accounts' tokens as controllers; they send nothing."""
    for kind in ACCOUNT_KINDS:
        reconciler = CredentialExpiryReconciler(reader, kind, "account", read_token_validity, measured)
        group = kind.group.partition(".")[0]
        yield ControllerSpec(f"account-expiry-{group}", kind, reconciler, workers=1)


async def install(client: Client) -> None:
    """Apply the kinds, the admission policy, and the add-on's entry in the list of add-ons."""
    await apply_manifests(client, manifests(), manager=FIELD_MANAGER)


def manifests() -> list[Manifest]:
    """Return what the hub side needs, in an order in which it can be applied."""
    about = {
        "displayName": "Managed service accounts",
        "description": "Keeps service accounts on clusters and reports their tokens to the hub.",
    }
    addon = CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(ADDON_NAME), spec={"addOnMeta": about})
    definitions = [(CUSTOM_RESOURCE_DEFINITIONS, definition) for definition in ACCOUNT_CRDS]
    return [*definitions, *policy_manifests(), (CLUSTER_MANAGEMENT_ADDONS, addon)]
