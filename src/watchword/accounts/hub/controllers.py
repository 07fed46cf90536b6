"""The controllers of the hub side, as data, and the process that runs them beside another hub."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random, SystemRandom

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.accounts.grants import GRANTS, account_of_work, accounts_of_record, find_rights, grant_work
from watchword.accounts.hub import set_account
from watchword.accounts.hub.account_guard import AccountGuardReconciler, is_confirmed
from watchword.accounts.hub.definition import SECRETS_ROLE, accounts_addon, install
from watchword.accounts.hub.set_account import (
    BY_NAMESPACE,
    BY_SET,
    BY_SOURCE,
    ReplicaWriter,
    SetAccountReconciler,
    accounts_of_namespace,
)
from watchword.accounts.metrics import HubAccountMetrics
from watchword.addons.definition import AddonDefinition
from watchword.addons.hub import definition_controllers as addons
from watchword.addons.hub.definition_controllers import USER_MANAGED_ROLES, AddonParts, single_addon_lookup
from watchword.api import resources
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME, SELECTOR, is_owned_by, read_token_validity
from watchword.api.addon import SERVED_IN_HUB, Addon, is_served_in_hub
from watchword.api.credential_report import format_validity
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of, owner_reference, uid_of
from watchword.api.names import Annotation, Label
from watchword.api.time import parse_rfc3339
from watchword.kube.client import Client
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.ensure import Ensurer, delete_object
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.metrics import Metrics
from watchword.runtime.raw_objects import Delta
from watchword.runtime.reconcile import ControllerSpec, Done, Observer, Outcome, Reader, RetryAfter, Trigger

BY_GRANT = "grant"  # works by the account whose right they grant


class AccountGrantReconciler(Struct, frozen=True):
    """Reconciles ManagedServiceAccount of both groups; also triggered by the record of rights, replicas and works."""

    reader: Reader
    ensurer: Ensurer

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = [self.reader.get(kind, key) for kind in ACCOUNT_KINDS]
        declared = [obj for obj in found if obj is not None and not is_deleting(obj)]
        wanted = {ObjectKey.of(work): work for work in self._wanted(key, declared)}
        for work in self.reader.by_index(resources.MANIFEST_WORKS, BY_GRANT, str(key)):
            if ObjectKey.of(work) not in wanted and not is_deleting(work):
                await delete_object(self.ensurer.client, resources.MANIFEST_WORKS, work)
        for work in wanted.values():
            await self.ensurer.ensure(
                resources.MANIFEST_WORKS, work, ours=lambda it: annotations_of(it).get(Annotation.GRANT_OF) == str(key)
            )
        return Done()

    def _wanted(self, key: ObjectKey, declared: list[Object]) -> list[Object]:
        rights = find_rights(self.reader.get(resources.CONFIG_MAPS, GRANTS), key, {uid_of(obj) for obj in declared})
        works = []
        for cluster in self._clusters(key) if rights else ():
            addon = self.reader.get(resources.MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, ADDON_NAME))
            if addon is None or is_deleting(addon):
                continue
            namespace = Addon.read(addon).namespace_on_cluster()
            chosen = [right for right in rights if not right.clusters or cluster in right.clusters]
            works += [grant_work(key, cluster, right, namespace) for right in chosen]
        return works

    def _clusters(self, key: ObjectKey) -> list[str]:
        if self.reader.get(resources.MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) is not None:
            return [key.namespace]
        replicas = self.reader.by_index(resources.MANAGED_SERVICE_ACCOUNTS, BY_SOURCE, str(key))
        return sorted(obj["metadata"]["namespace"] for obj in replicas if not is_deleting(obj))


SETTLING = timedelta(seconds=2)


class SecretAccessReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn; also triggered by the Secrets in the namespace of its cluster.

    A name is granted once the Secret belongs to the account of that name. A Secret of something else never is.
    """

    reader: Reader
    ensurer: Ensurer
    clock: Clock

    async def reconcile(self, key: ObjectKey) -> Outcome:
        addon = self.reader.get(resources.MANAGED_CLUSTER_ADDONS, key)
        if addon is None or is_deleting(addon) or key.name != ADDON_NAME:
            return Done()  # the Role belongs to the add-on and goes with it
        secrets = [
            secret
            for secret in self.reader.by_index(resources.SECRETS, BY_NAMESPACE, key.namespace)
            if is_owned_by(secret, [self.reader.get(kind, ObjectKey.of(secret)) for kind in ACCOUNT_KINDS])
        ]
        role = self.reader.get(resources.ROLES, ObjectKey(key.namespace, SECRETS_ROLE))
        granted = {name for row in (role or {}).get("rules") or () for name in row.get("resourceNames") or ()}
        if role is not None and is_settling(secrets, granted, now=self.clock.now()):
            return RetryAfter(SETTLING)
        names = [secret["metadata"]["name"] for secret in secrets]
        await self.ensurer.ensure(resources.ROLES, role_manifest(addon, names), ours=_is_ours)
        return Done()


def is_settling(secrets: Sequence[Object], granted: set[str], *, now: datetime) -> bool:
    """Whether all that changes is Secrets made a moment ago: their names are granted together with those that follow.

    The agent reads a Secret again at the earliest when it restarts, so there is no hurry.
    """
    names = {secret["metadata"]["name"] for secret in secrets}
    added = [secret for secret in secrets if secret["metadata"]["name"] not in granted]
    if not added or granted - names:
        return False
    created = [parse_rfc3339(str(secret["metadata"].get("creationTimestamp") or "")) for secret in added]
    return all(instant is not None and timedelta(0) <= now - instant < SETTLING for instant in created)


def role_manifest(addon: Object, names: list[str]) -> Object:
    """Return the Role; without names it grants nothing, for an empty list of names would mean every Secret."""
    rule = {"apiGroups": [""], "resources": [resources.SECRETS.plural], "verbs": ["get", "patch", "update"]}
    return resources.ROLES.manifest(
        ObjectKey(addon["metadata"]["namespace"], SECRETS_ROLE),
        metadata={"labels": {Label.ADDON_NAME: ADDON_NAME}, "ownerReferences": [owner_reference(addon)]},
        rules=[{**rule, "resourceNames": sorted(names)}] if names else None,  # as servers keep it
    )


def _is_ours(role: Object) -> bool:
    return labels_of(role).get(Label.ADDON_NAME) == ADDON_NAME


class AccountEvents(Struct, frozen=True):
    """Observes ManagedServiceAccount; what is seen first is no news."""

    events: EventRecorder

    def observe(self, delta: Delta) -> None:
        before, now = delta.old, delta.new
        if before is None:
            return
        if now is None or uid_of(now) != uid_of(before):
            if is_confirmed(before):
                note = f"account {delta.key} is gone, and its tokens are refused"
                self.events.normal(before, "AccountRevoked", note)
            else:
                said = "its cluster has not confirmed that its tokens are refused"
                self.events.warning(before, "AccountAbandoned", f"account {delta.key} is gone, and {said}")
            return
        earlier, current = read_token_validity(before), read_token_validity(now)
        if current is None or current == earlier:
            return
        said = format_validity(current)
        if earlier is None:
            self.events.normal(now, "AccountTokenIssued", f"account {delta.key} has its first token, {said}")
        else:
            self.events.normal(now, "AccountTokenRenewed", f"the token of account {delta.key} was renewed, {said}")


def register_informers(cache: Cache) -> None:
    for kind in ACCOUNT_KINDS:
        cache.informer(kind)
        cache.index(kind, BY_NAMESPACE, _namespace)
    cache.index(resources.MANAGED_SERVICE_ACCOUNTS, BY_SOURCE, lambda obj: map(str, set_account.source_of_replica(obj)))
    cache.informer(resources.SECRETS, WatchScope(labels=SELECTOR))
    cache.index(resources.SECRETS, BY_NAMESPACE, _namespace)
    cache.informer(resources.CONFIG_MAPS, WatchScope(namespace=GRANTS.namespace, fields=f"metadata.name={GRANTS.name}"))
    cache.index(resources.MANIFEST_WORKS, BY_GRANT, lambda obj: map(str, account_of_work(obj)))
    cache.informer(resources.MANAGED_CLUSTER_SETS)
    cache.informer(resources.MANAGED_CLUSTER_SET_BINDINGS)
    cache.index(resources.MANAGED_CLUSTER_SET_BINDINGS, BY_NAMESPACE, _namespace)
    cache.index(resources.MANAGED_CLUSTER_SET_BINDINGS, BY_SET, lambda obj: [set_account.set_of(obj)])


def controllers(parts: AddonParts, metrics: HubAccountMetrics) -> Iterable[ControllerSpec | Observer]:
    reader = parts.cache
    for kind in ACCOUNT_KINDS:
        guard = AccountGuardReconciler(reader, parts.client, parts.status, parts.clock, kind, metrics)
        group = kind.group.partition(".")[0]
        yield ControllerSpec(f"account-guard-{group}", kind, guard, _guard_triggers(reader))
        yield Observer(kind, metrics.observe)
        yield Observer(kind, AccountEvents(parts.events).observe)
    access = SecretAccessReconciler(reader, parts.ensurer, parts.clock)
    of_secret = Trigger(resources.SECRETS, lambda obj: [ObjectKey(obj["metadata"]["namespace"], ADDON_NAME)])
    triggers = (of_secret, Trigger(resources.ROLES, _own_role))
    yield ControllerSpec("account-secret-access", resources.MANAGED_CLUSTER_ADDONS, access, triggers)
    granting = AccountGrantReconciler(reader, parts.ensurer)
    yield ControllerSpec("account-grants", ACCOUNT_KINDS[0], granting, _grant_triggers(reader))
    replicas = ReplicaWriter(reader, parts.ensurer)
    fan_out = SetAccountReconciler(reader, parts.client, replicas, parts.status, parts.clock)
    yield ControllerSpec("account-cluster-sets", ACCOUNT_KINDS[0], fan_out, _set_triggers(reader))


def _guard_triggers(reader: Reader) -> tuple[Trigger, ...]:
    others = (Trigger(kind, lambda obj: [ObjectKey.of(obj)]) for kind in ACCOUNT_KINDS)
    return (
        *others,
        Trigger(resources.SECRETS, lambda obj: [ObjectKey.of(obj)]),
        Trigger(resources.MANAGED_CLUSTERS, lambda obj: accounts_of_namespace(reader, obj["metadata"]["name"])),
        Trigger(
            resources.MANAGED_CLUSTER_ADDONS, lambda obj: accounts_of_namespace(reader, obj["metadata"]["namespace"])
        ),
    )


def _set_triggers(reader: Reader) -> tuple[Trigger, ...]:
    return (
        Trigger(ACCOUNT_KINDS[1], lambda obj: [ObjectKey.of(obj)]),
        Trigger(resources.MANAGED_SERVICE_ACCOUNTS, set_account.source_of_replica),
        Trigger(resources.SECRETS, partial(set_account.accounts_of_secret, reader)),
        Trigger(resources.MANAGED_CLUSTER_SET_BINDINGS, partial(set_account.accounts_of_binding, reader)),
        Trigger(resources.MANAGED_CLUSTER_SETS, partial(set_account.accounts_of_set, reader)),
        Trigger(resources.MANAGED_CLUSTERS, partial(set_account.accounts_of_cluster, reader)),
        Trigger(resources.MANAGED_CLUSTER_ADDONS, lambda obj: _sources_on(reader, obj["metadata"]["namespace"])),
    )


def _grant_triggers(reader: Reader) -> tuple[Trigger, ...]:
    return (
        Trigger(ACCOUNT_KINDS[1], lambda obj: [ObjectKey.of(obj)]),
        Trigger(resources.MANAGED_SERVICE_ACCOUNTS, set_account.source_of_replica),
        Trigger(resources.CONFIG_MAPS, accounts_of_record),
        Trigger(resources.MANIFEST_WORKS, account_of_work),
        Trigger(
            resources.MANAGED_CLUSTER_ADDONS, lambda obj: accounts_of_namespace(reader, obj["metadata"]["namespace"])
        ),
        Trigger(resources.MANAGED_CLUSTER_ADDONS, lambda obj: _sources_on(reader, obj["metadata"]["namespace"])),
    )


def _sources_on(reader: Reader, cluster: str) -> list[ObjectKey]:
    found = reader.by_index(resources.MANAGED_SERVICE_ACCOUNTS, BY_NAMESPACE, cluster)
    return [key for obj in found for key in set_account.source_of_replica(obj)]


def _own_role(role: Object) -> list[ObjectKey]:
    mine = role["metadata"]["name"] == SECRETS_ROLE
    return [ObjectKey(role["metadata"]["namespace"], ADDON_NAME)] if mine else []


def _namespace(obj: Object) -> list[str]:
    return [obj["metadata"]["namespace"]]


class AccountsManagerOptions(Struct, frozen=True):
    """How the hub side behaves."""

    manager: ManagerOptions = field(
        default_factory=lambda: ManagerOptions(f"watchword.dev/addon-{ADDON_NAME}", ADDON_NAME)
    )
    definition: AddonDefinition = field(default_factory=accounts_addon)
    install: bool = True  # apply kinds and policy; off where another hand does it
    metrics: Metrics = field(default_factory=Metrics)
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)


async def run_accounts_manager(
    client: Client, options: AccountsManagerOptions | None = None, *, stop: asyncio.Event | None = None
) -> None:
    options = options or AccountsManagerOptions()
    if options.install:
        await install(client)
    manager = Manager(options.manager, clock=options.clock, random=options.random, metrics=options.metrics)
    hub = manager.connect(client)
    addons.register_informers(hub.cache, ADDON_NAME)
    hub.cache.informer(resources.MANIFEST_WORKS, WatchScope(labels=Label.ACCOUNT_GRANT))  # the hub follows all anyway
    register_informers(hub.cache)
    metrics = HubAccountMetrics(manager.metrics.registry, now=options.clock.now)
    definitions = single_addon_lookup(options.definition)
    parts = AddonParts(hub.cache, hub.client, hub.events, options.clock, definitions)
    manager.add(*addons.controllers(parts), *controllers(parts, metrics))
    await manager.run(stop)


class AccountsService(Struct, frozen=True):
    """Runs beside the controllers of a hub and reads from their cache; the hub's add-on controllers run the agent.

    Nothing is watched before the add-on is installed: the hub may not even read Secrets then.
    """

    random: Random
    installs: bool = False  # apply what the controllers need; off where an administrator does it

    async def run(self, manager: Manager, hub: ApiServerConnection) -> None:
        """Start with the add-on's entry in the list of add-ons, and end with it; never returns."""
        if self.installs:
            await install(hub.client, served=SERVED_IN_HUB)
        metrics = HubAccountMetrics(manager.metrics.registry, now=manager.clock.now)
        changed = asyncio.Event()
        hub.cache.add_handler(resources.CLUSTER_MANAGEMENT_ADDONS, lambda _: changed.set())
        while True:
            changed.clear()  # before the look, so that no change is missed while the controllers end
            if _is_installed(hub):
                await self._serve(manager, hub, metrics, changed)
            else:
                await changed.wait()

    async def _serve(
        self, manager: Manager, hub: ApiServerConnection, metrics: HubAccountMetrics, changed: asyncio.Event
    ) -> None:
        within = replace(manager.options, lease=None, health=None)  # leads and serves health as the outer one
        inner = Manager(within, clock=manager.clock, random=self.random, metrics=manager.metrics)
        connection = inner.connect(manager.client_of(hub), beside=hub.cache)
        connection.cache.informer(resources.MANIFEST_WORKS)
        connection.cache.informer(resources.MANAGED_CLUSTERS)
        connection.cache.informer(resources.MANAGED_CLUSTER_ADDONS)
        connection.cache.informer(resources.ROLES, USER_MANAGED_ROLES[resources.ROLES])
        register_informers(connection.cache)
        parts = AddonParts(connection.cache, connection.client, connection.events, manager.clock, lambda _: None)
        inner.add(*controllers(parts, metrics))
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(inner.run(stop))
            while _is_installed(hub):
                changed.clear()
                await changed.wait()
            stop.set()


def _is_installed(hub: ApiServerConnection) -> bool:
    return is_served_in_hub(hub.cache.get(resources.CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(ADDON_NAME)))
