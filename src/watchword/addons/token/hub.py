"""Makes what an add-on needs to have tokens, reports it with the account's UID, and takes it away again."""

import contextlib
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum, auto

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.addons.driver import AddonState, AddonSubjects, StepResult
from watchword.api import names
from watchword.api.addon import KUBE_CLIENT, Addon, AddonSubject, Registration
from watchword.api.cluster import is_accepted
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, is_owned_by, labels_of, owner_reference, uid_of
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from watchword.api.time import parse_rfc3339
from watchword.credentials.driver import ClusterSubjects, HubContext
from watchword.kube.errors import Conflict, KubeError, NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.errors import NameConflict
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import Reader, Trigger
from watchword.runtime.status import StatusChange

# The format is OCM's: its agents learn the UID from the message, and its hub writes no other field with it.
_READY = re.compile(r"(?:ServiceAccount (?P<namespace>[^/\s]+)/(?P<name>[^/\s]+) )?\(UID: (?P<uid>[^)\s]+)\)")
KINDS = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
"""What is made for add-ons whose credential is a token."""

READY = names.ConditionType.TOKEN_INFRASTRUCTURE_READY
DRIVER = "token"
TOKEN_OBJECTS = WatchScope(labels=f"{names.Label.TOKEN_INFRASTRUCTURE}=true")
RETIRED_AFTER = timedelta(seconds=10)  # an agent that flips between drivers must not have everything made each time
RETIRED_ANYWAY = timedelta(minutes=5)


class TokenInfrastructureStep(Struct, frozen=True):
    """Keeps the ServiceAccount of an add-on that registers by a token, and the right to request tokens of it."""

    reader: Reader
    ensurer: Ensurer
    events: EventRecorder
    clock: Clock
    cluster_subjects: ClusterSubjects
    triggers: tuple[Trigger, ...]  # its cluster, and everything made for it
    retiring: dict[ObjectKey, datetime] = field(default_factory=dict)  # since when another driver serves

    async def run(self, state: AddonState) -> StepResult:
        addon = state.addon
        action = choose_token_infrastructure_action(
            addon,
            accepted=state.cluster is not None and is_accepted(state.cluster.object),
            made=lambda: has_token_infrastructure(self.reader, addon.key),
        )
        if action is not TokenInfrastructureAction.RETIRE:
            self.retiring.pop(addon.key, None)
        match action:
            case TokenInfrastructureAction.CREATE:
                return await self._create(state)
            case TokenInfrastructureAction.CORRECT_SUBJECT:
                return self._correct_subject(addon)
            case TokenInfrastructureAction.RETIRE:
                return await self._retire(addon)
            case TokenInfrastructureAction.REVOKE:
                await self._remove_objects(addon.key)
                message = f"cluster {addon.cluster} is not accepted by this hub: its add-ons have no tokens"
                return _report(Condition.false(READY, "ClusterNotAccepted", message))
            case TokenInfrastructureAction.NOTHING:
                return StepResult()

    async def remove(self, key: ObjectKey) -> None:
        """Remove everything once the add-on is gone for good: until then a hook may need the token."""
        self.retiring.pop(key, None)
        await self._remove_objects(key)

    async def _create(self, state: AddonState) -> StepResult:
        addon = state.addon
        if await self._clear_leftovers(addon):
            return StepResult(retry_after=timedelta(seconds=1))
        registration = addon.kube_client
        account = account_name(registration.subject) if registration is not None else ""
        try:
            uid = await self._write(state, account)
        except NameConflict as conflict:
            # No right to tokens while its account, or its role, belongs to others.
            binding = ObjectKey(addon.cluster, role_name(addon.name))
            with contextlib.suppress(NotFound):
                await self.ensurer.remove(ROLE_BINDINGS, binding, ours=is_made_for(addon))
            return _report(Condition.false(READY, names.NAME_CONFLICT, str(conflict)))
        except Conflict:
            raise  # another writer was faster: the next reconcile settles it
        except KubeError as error:
            refusal = Condition.false(READY, "TokenInfrastructureApplyFailed", str(error))
            return StepResult(StatusChange(conditions=(refusal,)), error=error)
        # The message from which agents, of OCM too, learn the UID.
        message = f"ServiceAccount {ObjectKey(addon.cluster, account)} (UID: {uid}) is ready"
        return _report(Condition.true(READY, "TokenInfrastructureReady", message))

    async def _write(self, state: AddonState, account: str) -> str:
        addon = state.addon
        ours, ensure = is_made_for(addon), self.ensurer.ensure
        agents = [] if state.cluster is None else self.cluster_subjects.subjects(state.cluster.object)
        # One after the other: no right to an account, and no binding to a role, that turns out to belong to others.
        (kind, wanted), *rights = token_manifests(addon, account, agents)
        made = await ensure(kind, wanted, ours=ours)
        for resource, right in rights:
            await ensure(resource, right, ours=ours)
        for name in service_accounts(addon.cluster, addon.name):
            if name != account:
                await self.ensurer.remove(SERVICE_ACCOUNTS, ObjectKey(addon.cluster, name), ours=ours)
        return uid_of(made)

    async def _clear_leftovers(self, addon: Addon) -> bool:
        """Delete what was made for an earlier add-on of this name: its tokens must not have this one's rights."""
        marked, own = is_labeled_for(addon.name), is_made_for(addon)
        waiting = False
        for resource, key in managed_objects(addon.key):
            with contextlib.suppress(NotFound):
                waiting |= await self.ensurer.remove(resource, key, ours=lambda obj: marked(obj) and not own(obj))
        return waiting

    def _correct_subject(self, addon: Addon) -> StepResult:
        right = SUBJECTS.default(addon.cluster, addon.name)
        rows = tuple(replace(row, subject=right) if row.type == KUBE_CLIENT else row for row in addon.registrations)
        self.events.refusal(
            addon.object, "SubjectMismatch", "the declared subject was not this add-on's, and was replaced"
        )
        return StepResult(StatusChange(fields=addon.registration_fields(rows)))

    async def _retire(self, addon: Addon) -> StepResult:
        """Remove everything some time after the new driver works: the agent may switch back."""
        now = self.clock.now()
        since = self.retiring.setdefault(addon.key, now)
        wait = decide_retirement_delay(addon.object, since, now=now)
        if wait > timedelta(0):
            return StepResult(retry_after=wait)
        await self._remove_objects(addon.key)
        self.retiring.pop(addon.key, None)
        return StepResult(StatusChange(without=(READY,)))

    async def _remove_objects(self, key: ObjectKey) -> None:
        ours = is_labeled_for(key.name)
        for resource, name in managed_objects(key):
            with contextlib.suppress(NotFound):  # the garbage collector was faster
                await self.ensurer.remove(resource, name, ours=ours)


def token_step(context: HubContext) -> TokenInfrastructureStep:
    cache, subjects = context.cache, context.cluster_subjects
    for resource in KINDS:
        cache.informer(resource, TOKEN_OBJECTS)
    triggers = (
        *(Trigger(resource, addon_from_labels) for resource in KINDS),
        Trigger(MANAGED_CLUSTERS, lambda obj: addons_affected_by_cluster(cache, subjects, obj)),
    )
    return TokenInfrastructureStep(
        cache, Ensurer(cache, context.client), context.events, context.clock, subjects, triggers
    )


def _report(condition: Condition) -> StepResult:
    return StepResult(StatusChange(conditions=(condition,)))


class TokenInfrastructureAction(Enum):
    """What the hub does about an add-on now."""

    NOTHING = auto()
    CREATE = auto()
    CORRECT_SUBJECT = auto()
    RETIRE = auto()
    REVOKE = auto()  # at once: the cluster is no longer accepted


def choose_token_infrastructure_action(
    addon: Addon, *, accepted: bool, made: Callable[[], bool]
) -> TokenInfrastructureAction:
    registration = addon.kube_client
    by_token = registration is not None and registration.driver == DRIVER
    if not accepted and (by_token or made()):
        return TokenInfrastructureAction.REVOKE  # whatever driver the agent reports meanwhile
    if registration is None or not by_token:
        retires = made() or find_condition(addon.object, READY) is not None
        return TokenInfrastructureAction.RETIRE if retires else TokenInfrastructureAction.NOTHING
    if not registration.subject.user:
        return TokenInfrastructureAction.NOTHING  # the agent is about to declare the add-on's subject
    own = SUBJECTS.is_own(addon.cluster, addon.name, registration.subject)
    return TokenInfrastructureAction.CREATE if own else TokenInfrastructureAction.CORRECT_SUBJECT


def decide_retirement_delay(addon: Object, since: datetime, *, now: datetime) -> timedelta:
    """Return how long to wait before an unused account is removed: the credential that replaces it comes first."""
    patience = RETIRED_AFTER if is_true(addon, names.ConditionType.CERTIFICATE_ROTATED) else RETIRED_ANYWAY
    return since + patience - now


def addons_affected_by_cluster(reader: Reader, subjects: ClusterSubjects, cluster: Object) -> list[ObjectKey]:
    """Return the add-ons for which a change of their cluster matters: it was accepted, or is no longer.

    Whether a denied cluster has accounts is looked up, not read from conditions, which its agent may write. Under a
    name that an earlier cluster had, every change counts: it may change the subjects of rights.
    """
    addons = [Addon.read(obj) for obj in reader.list(MANAGED_CLUSTER_ADDONS, namespace=cluster["metadata"]["name"])]
    if not is_accepted(cluster):
        return [addon.key for addon in addons if has_token_infrastructure(reader, addon.key)]
    shared = subjects.retired_until(cluster["metadata"]["name"]) is not None
    return [addon.key for addon in addons if addon.driver == DRIVER and (shared or not is_true(addon.object, READY))]


def has_token_infrastructure(reader: Reader, key: ObjectKey) -> bool:
    found = (reader.get(resource, name) for resource, name in managed_objects(key))
    marked = is_labeled_for(key.name)
    return any(obj is not None and marked(obj) for obj in found)


def role_name(addon: str) -> str:
    return f"{addon}-token-role"


def token_manifests(addon: Addon, account: str, subjects: list[Object]) -> list[Manifest]:
    """Return the ServiceAccount of the add-on's agent on the hub, and the right to request tokens of it.

    No pod runs as the account. The second rule is OCM's, for tokens over gRPC; an API server ignores its verb.
    """
    key = ObjectKey(addon.cluster, role_name(addon.name))
    metadata = {
        "labels": {names.Label.TOKEN_ADDON: addon.name, names.Label.TOKEN_INFRASTRUCTURE: "true"},
        "ownerReferences": [owner_reference(addon.object)],
    }
    own = SERVICE_ACCOUNTS.manifest(
        ObjectKey(addon.cluster, account), metadata=metadata, automountServiceAccountToken=False
    )
    tokens = {"apiGroups": [""], "resources": ["serviceaccounts/token"]}
    rules = [{**tokens, "verbs": ["create"], "resourceNames": [account]}, {**tokens, "verbs": ["subscribe"]}]
    role = ROLES.manifest(key, metadata=metadata, rules=rules)
    reference = {"apiGroup": ROLES.group, "kind": "Role", "name": key.name}
    binding = ROLE_BINDINGS.manifest(key, metadata=metadata, roleRef=reference, subjects=subjects)
    return [(SERVICE_ACCOUNTS, own), (ROLES, role), (ROLE_BINDINGS, binding)]


def managed_objects(key: ObjectKey) -> list[tuple[Resource, ObjectKey]]:
    """Return everything that may have been made for an add-on, the rights before the account."""
    name = ObjectKey(key.namespace, role_name(key.name))
    accounts = [ObjectKey(key.namespace, account) for account in service_accounts(key.namespace, key.name)]
    return [(ROLE_BINDINGS, name), (ROLES, name), *((SERVICE_ACCOUNTS, account) for account in accounts)]


def account_selector(addon: str) -> str:
    """Return the labels of the ServiceAccounts of one add-on, or of all add-ons when the name is empty."""
    named = f"{names.Label.TOKEN_ADDON}={addon}" if addon else names.Label.TOKEN_ADDON
    return f"{named},{names.Label.TOKEN_INFRASTRUCTURE}=true"


def addon_from_labels(obj: Object) -> list[ObjectKey]:
    name = labels_of(obj).get(names.Label.TOKEN_ADDON)
    return [ObjectKey(ObjectKey.of(obj).namespace, name)] if name and is_labeled_for(name)(obj) else []


def is_labeled_for(addon: str) -> Callable[[Object], bool]:
    wanted = {names.Label.TOKEN_ADDON: addon, names.Label.TOKEN_INFRASTRUCTURE: "true"}
    return lambda obj: wanted.items() <= labels_of(obj).items()


def is_made_for(addon: Addon) -> Callable[[Object], bool]:
    """Return the test whether an object was made for this add-on: labelled, and owned by its UID.

    Managers of OCM name no owner. What they made is this add-on's when it is younger than the add-on:
    tokens of a fleet that changes its hub's controllers go on to work.
    """
    marked = is_labeled_for(addon.name)

    def test(obj: Object) -> bool:
        unowned = not obj["metadata"].get("ownerReferences")
        return marked(obj) and (is_owned_by(obj, addon.uid) or (unowned and _is_younger(obj, addon.object)))

    return test


def _is_younger(obj: Object, addon: Object) -> bool:
    made, asked = (parse_rfc3339(one["metadata"].get("creationTimestamp") or "") for one in (obj, addon))
    return made is not None and asked is not None and made >= asked


def is_account_present(reader: Reader, addon: Addon, subject: AddonSubject) -> bool:
    account = reader.get(SERVICE_ACCOUNTS, ObjectKey(addon.cluster, account_name(subject)))
    return account is not None and is_made_for(addon)(account)


class TokenSubjects(AddonSubjects):
    """The ServiceAccounts of add-ons, by either of their names."""

    def default(self, cluster: str, addon: str) -> AddonSubject:
        return token_subject(cluster, names.addon_service_account(cluster, addon))

    def is_own(self, cluster: str, addon: str, subject: AddonSubject) -> bool:
        return subject in tuple(token_subject(cluster, name) for name in service_accounts(cluster, addon))

    def choose(self, addon: Addon, registration: Registration) -> AddonSubject:
        """Return the account that the hub has made; else the one declared before, else the default."""
        account = ready_account(addon)
        if account is not None and account.name:
            return token_subject(addon.cluster, account.name)
        own = self.is_own(addon.cluster, addon.name, registration.subject)
        return registration.subject if own else self.default(addon.cluster, addon.name)

    def rbac_subject(self, cluster: str, addon: str, subject: AddonSubject) -> Object:  # noqa: ARG002 - the account is enough
        return {"kind": "ServiceAccount", "namespace": cluster, "name": account_name(subject)}


def token_subject(cluster: str, account: str) -> AddonSubject:
    return AddonSubject(names.service_account_user(cluster, account))


def account_name(subject: AddonSubject) -> str:
    return subject.user.rpartition(":")[2]


def service_accounts(cluster: str, addon: str) -> tuple[str, str]:
    """Return both names that an add-on's ServiceAccount may have: the default, and that of OCM."""
    return names.addon_service_account(cluster, addon), names.addon_service_account_short(addon)


class TokenAccount(Struct, frozen=True):
    """The ServiceAccount that the hub reports as ready."""

    name: str  # empty when the message does not name it
    uid: str
    namespace: str = ""


def ready_account(addon: Addon) -> TokenAccount | None:
    """Return the ServiceAccount that the hub reports as ready, None when it reports none that can be ours."""
    said = find_condition(addon.object, names.ConditionType.TOKEN_INFRASTRUCTURE_READY)
    account = parse_ready_message(said.message) if said is not None and said.status == "True" else None
    if account is None or account.namespace not in ("", addon.cluster):
        return None
    return account if account.name in ("", *service_accounts(addon.cluster, addon.name)) else None


def parse_ready_message(message: str) -> TokenAccount | None:
    found = _READY.search(message)
    return None if found is None else TokenAccount(found["name"] or "", found["uid"], found["namespace"] or "")


SUBJECTS = TokenSubjects()
