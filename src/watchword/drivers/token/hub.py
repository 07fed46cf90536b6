"""Makes what an add-on needs to have tokens, reports it with the account's UID, and takes it away again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import Enum, auto

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.addon import KUBE_CLIENT, Addon
from watchword.api.cluster import is_accepted
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import ConditionType, Label
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from watchword.drivers.interface import ClusterSubjects, HubContext
from watchword.drivers.token import manifests
from watchword.drivers.token.account import (
    account_name,
    default_token_subject,
    is_own_account,
    ready_message,
    service_accounts,
)
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, KubeError, NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.errors import NameConflict
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, RetryAfter, Trigger
from watchword.runtime.status import StatusChange, StatusWriter

READY = ConditionType.TOKEN_INFRASTRUCTURE_READY
DRIVER = "token"
TOKEN_OBJECTS = WatchScope(labels=f"{Label.TOKEN_INFRASTRUCTURE}=true")

CONFLICT_RECHECK = timedelta(minutes=1)  # the object in the way has no label of ours, so its removal triggers nothing
RETIRED_AFTER = timedelta(seconds=10)  # an agent that flips between drivers must not have everything made each time
RETIRED_ANYWAY = timedelta(minutes=5)


class TokenInfrastructureAction(Enum):
    """What the hub owes an add-on now."""

    NOTHING = auto()
    CREATE = auto()
    CORRECT_SUBJECT = auto()
    RETIRE = auto()
    REVOKE = auto()  # at once: the cluster is no longer accepted


def choose_token_infrastructure_action(
    addon: Addon, *, accepted: bool, made: Callable[[], bool]
) -> TokenInfrastructureAction:
    """Decide from the add-on, from whether its cluster is accepted, and whether anything was made for it."""
    registration = addon.kube_client
    by_token = registration is not None and registration.driver == DRIVER
    if not accepted and (by_token or made()):
        return TokenInfrastructureAction.REVOKE  # whatever driver the agent reports meanwhile
    if registration is None or not by_token:
        return (
            TokenInfrastructureAction.RETIRE
            if made() or find_condition(addon.object, READY) is not None
            else TokenInfrastructureAction.NOTHING
        )
    if not registration.subject.user:
        return TokenInfrastructureAction.NOTHING  # the agent is about to declare the add-on's subject
    own = is_own_account(addon.cluster, addon.name, registration.subject)
    return TokenInfrastructureAction.CREATE if own else TokenInfrastructureAction.CORRECT_SUBJECT


class TokenInfrastructureReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn; triggered by it, by its cluster, and by everything made for it."""

    reader: Reader
    client: Client
    ensurer: Ensurer
    status: StatusWriter
    events: EventRecorder
    clock: Clock
    cluster_subjects: ClusterSubjects
    retiring: dict[ObjectKey, datetime] = field(default_factory=dict)  # since when another driver serves

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Bring account, rights and condition in line with the declared driver."""
        found = self.reader.get(MANAGED_CLUSTER_ADDONS, key)
        if found is None:  # gone for good: until then a hook may need the token
            self.retiring.pop(key, None)
            await self._remove(key)
            return Done()
        addon = Addon.read(found)
        action = choose_token_infrastructure_action(
            addon, accepted=self._is_accepted(addon.cluster), made=lambda: has_token_infrastructure(self.reader, key)
        )
        if action is not TokenInfrastructureAction.RETIRE:
            self.retiring.pop(key, None)
        match action:
            case TokenInfrastructureAction.CREATE:
                return await self._create(addon)
            case TokenInfrastructureAction.CORRECT_SUBJECT:
                await self._correct_subject(addon)
            case TokenInfrastructureAction.RETIRE:
                return await self._retire(addon)
            case TokenInfrastructureAction.REVOKE:
                await self._revoke(addon)
            case TokenInfrastructureAction.NOTHING:
                pass
        return Done()

    def _is_accepted(self, cluster: str) -> bool:
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
        return found is not None and is_accepted(found)

    async def _create(self, addon: Addon) -> Outcome:
        if await self._clear_leftovers(addon):
            return RetryAfter(timedelta(seconds=1))
        registration = addon.kube_client
        account = account_name(registration.subject) if registration is not None else ""
        try:
            uid = await self._write(addon, account)
        except NameConflict as conflict:
            await self._unbind(addon)
            await self._set_ready_condition(addon, Condition.false(READY, "NameConflict", str(conflict)))
            return RetryAfter(CONFLICT_RECHECK)
        except Conflict:
            raise  # another writer was faster: the next reconcile settles it
        except KubeError as trouble:
            await self._set_ready_condition(
                addon, Condition.false(READY, "TokenInfrastructureApplyFailed", str(trouble))
            )
            raise
        message = ready_message(ObjectKey(addon.cluster, account), uid)
        await self._set_ready_condition(addon, Condition.true(READY, "TokenInfrastructureReady", message))
        return Done()

    async def _write(self, addon: Addon, account: str) -> str:
        ours, ensure = manifests.is_made_for(addon), self.ensurer.ensure
        # One after the other: no right to an account, and no binding to a role, that turns out to belong to others.
        made = await ensure(SERVICE_ACCOUNTS, manifests.account_manifest(addon, account), ours=ours)
        await ensure(ROLES, manifests.role_manifest(addon, account), ours=ours)
        await ensure(ROLE_BINDINGS, manifests.binding_manifest(addon, self._agents(addon.cluster)), ours=ours)
        for name in service_accounts(addon.cluster, addon.name):
            if name != account:
                await self.ensurer.remove(SERVICE_ACCOUNTS, ObjectKey(addon.cluster, name), ours=ours)
        return uid_of(made)

    def _agents(self, cluster: str) -> list[Object]:
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
        return [] if found is None else self.cluster_subjects.subjects(found)

    async def _unbind(self, addon: Addon) -> None:
        """Take the right to tokens while its account, or its role, belongs to others."""
        key = ObjectKey(addon.cluster, manifests.role_name(addon.name))
        with contextlib.suppress(NotFound):
            await self.ensurer.remove(ROLE_BINDINGS, key, ours=manifests.is_made_for(addon))

    async def _clear_leftovers(self, addon: Addon) -> bool:
        """Delete what was made for an earlier add-on of this name: its tokens must not have this one's rights."""
        marked, own = manifests.is_labeled_for(addon.name), manifests.is_made_for(addon)
        waiting = False
        for resource, key in manifests.managed_objects(addon.key):
            with contextlib.suppress(NotFound):
                waiting |= await self.ensurer.remove(resource, key, ours=lambda obj: marked(obj) and not own(obj))
        return waiting

    async def _correct_subject(self, addon: Addon) -> None:
        """Put the rebuilt subject where an agent claimed another one."""
        right = default_token_subject(addon.cluster, addon.name)
        rows = tuple(replace(row, subject=right) if row.type == KUBE_CLIENT else row for row in addon.registrations)
        change = StatusChange(fields=addon.registration_fields(rows))
        await self.status.write_if_unchanged(MANAGED_CLUSTER_ADDONS, addon.object, change)
        self.events.refusal(
            addon.object, "SubjectMismatch", "the declared subject was not this add-on's, and was replaced"
        )

    async def _retire(self, addon: Addon) -> Outcome:
        """Remove everything once the new driver works; not at once, for an agent may change its mind."""
        now = self.clock.now()
        since = self.retiring.setdefault(addon.key, now)
        wait = decide_retirement_delay(addon.object, since, now=now)
        if wait > timedelta(0):
            return RetryAfter(wait)
        await self._remove(addon.key)
        self.retiring.pop(addon.key, None)
        await self.status.write(MANAGED_CLUSTER_ADDONS, addon.object, StatusChange(without=(READY,)))
        return Done()

    async def _revoke(self, addon: Addon) -> None:
        await self._remove(addon.key)
        message = f"cluster {addon.cluster} is not accepted by this hub: its add-ons have no tokens"
        await self._set_ready_condition(addon, Condition.false(READY, "ClusterNotAccepted", message))

    async def _remove(self, key: ObjectKey) -> None:
        ours = manifests.is_labeled_for(key.name)
        for resource, name in manifests.managed_objects(key):
            with contextlib.suppress(NotFound):  # the garbage collector was faster
                await self.ensurer.remove(resource, name, ours=ours)

    async def _set_ready_condition(self, addon: Addon, condition: Condition) -> None:
        await self.status.set_condition(MANAGED_CLUSTER_ADDONS, addon.object, condition)


def decide_retirement_delay(addon: Object, since: datetime, *, now: datetime) -> timedelta:
    """Return how long to wait before an unused account is removed: the credential that replaces it comes first."""
    patience = RETIRED_AFTER if is_true(addon, ConditionType.CERTIFICATE_ROTATED) else RETIRED_ANYWAY
    return since + patience - now


def addons_affected_by_cluster(reader: Reader, subjects: ClusterSubjects, cluster: Object) -> list[ObjectKey]:
    """Return the add-ons for which a change of their cluster matters: it was accepted, or is no longer.

    Whether a denied cluster has accounts is looked up, not read from conditions, which its agent may write. Under a
    name that another cluster had, every change may say anew who the cluster is.
    """
    addons = [Addon.read(obj) for obj in reader.list(MANAGED_CLUSTER_ADDONS, namespace=cluster["metadata"]["name"])]
    if not is_accepted(cluster):
        return [addon.key for addon in addons if has_token_infrastructure(reader, addon.key)]
    shared = subjects.retired_until(cluster["metadata"]["name"]) is not None
    return [addon.key for addon in addons if addon.driver == DRIVER and (shared or not is_true(addon.object, READY))]


def has_token_infrastructure(reader: Reader, key: ObjectKey) -> bool:
    """Whether anything is there that was made for an add-on of that name."""
    found = (reader.get(resource, name) for resource, name in manifests.managed_objects(key))
    marked = manifests.is_labeled_for(key.name)
    return any(obj is not None and marked(obj) for obj in found)


def token_controllers(context: HubContext) -> Iterable[ControllerSpec]:
    """Return the controller that makes and removes what add-ons' tokens need."""
    cache = context.cache
    for resource in manifests.KINDS:
        cache.informer(resource, TOKEN_OBJECTS)
    reconciler = TokenInfrastructureReconciler(
        cache,
        context.client,
        Ensurer(cache, context.client),
        StatusWriter(context.client, context.clock, cache),
        context.events,
        context.clock,
        context.cluster_subjects,
    )
    triggers = tuple(Trigger(resource, manifests.addon_from_labels) for resource in manifests.KINDS)
    by_cluster = Trigger(MANAGED_CLUSTERS, lambda obj: addons_affected_by_cluster(cache, context.cluster_subjects, obj))
    yield ControllerSpec(
        "token-infrastructure", MANAGED_CLUSTER_ADDONS, reconciler, (*triggers, by_cluster), workers=16
    )
