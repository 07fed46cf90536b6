"""Makes sure that only those entitled can accept a cluster, and fails closed when the server does not enforce it."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api import names
from watchword.api.admission_policy import PolicyName, bound_policy, is_as_written
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTERS
from watchword.credentials.certificates.requests import GRPC_SERVER_USER
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, Invalid
from watchword.registration.hub.cluster_sets import DEFAULT_SET
from watchword.runtime.clock import Clock

PROBE_USER = "watchword:acceptance-probe"
PROBE_CLUSTER = "watchword-acceptance-probe"
ENFORCED_TTL = timedelta(minutes=10)
UNENFORCED_TTL = timedelta(seconds=4)

_ENTITLED = (
    f"authorizer.group('{names.REGISTER_GROUP}').resource('managedclusters').subresource('accept')"
    ".name(object.metadata.name).check('update').allowed()"
)
_ACCEPTANCE_UNCHANGED = (
    "!(has(object.spec.hubAcceptsClient) && object.spec.hubAcceptsClient)"
    " || (oldObject != null && has(oldObject.spec.hubAcceptsClient) && oldObject.spec.hubAcceptsClient)"
)


def _annotation_of(obj: str, name: str) -> str:
    notes = f"{obj}.metadata.annotations"
    return f"(has({notes}) && '{name}' in {notes} ? {notes}['{name}'] : '')"


def _is_kept(finalizer: str) -> str:
    held, kept = "oldObject.metadata.finalizers", "object.metadata.finalizers"
    return f"(!(has({held}) && '{finalizer}' in {held}) || (has({kept}) && '{finalizer}' in {kept}))"


_ANNOTATIONS_UNCHANGED = " && ".join(
    f"{_annotation_of('object', name)} == (oldObject == null ? '' : {_annotation_of('oldObject', name)})"
    for name in names.HUB_ANNOTATIONS
)
_FINALIZERS_KEPT = f"(oldObject == null || ({' && '.join(map(_is_kept, names.HUB_FINALIZERS))}))"


def _set_of(obj: str) -> str:
    label = f"'{names.Label.CLUSTER_SET}'"
    return f"(has({obj}.metadata.labels) && {label} in {obj}.metadata.labels ? {obj}.metadata.labels[{label}] : '')"


def _may_join(obj: str) -> str:
    named = f"authorizer.group('{MANAGED_CLUSTERS.group}').resource('managedclustersets').subresource('join')"
    return f"({_set_of(obj)} == '' || {named}.name({_set_of(obj)}).check('create').allowed())"


_NEW_SET = f"({_set_of('object')} == '{DEFAULT_SET}' || {_may_join('object')})"
_MOVED_SET = f"({_set_of('oldObject')} == {_set_of('object')} || ({_may_join('oldObject')} && {_may_join('object')}))"
_MAY_CHANGE_SET = f"oldObject == null ? {_NEW_SET} : {_MOVED_SET}"


_BOUND_SET = "(has({0}.spec.clusterSet) ? {0}.spec.clusterSet : '')"
_MAY_BIND = (
    f"authorizer.group('{MANAGED_CLUSTERS.group}').resource('managedclustersets').subresource('bind')"
    f".name({_BOUND_SET.format('object')}).check('create').allowed()"
)
_BINDING_UNCHANGED = f"(oldObject != null && {_BOUND_SET.format('oldObject')} == {_BOUND_SET.format('object')})"

_AGENT_USERS = [
    names.service_account_user(names.BOOTSTRAP_NAMESPACE, names.BOOTSTRAP_SERVICE_ACCOUNT),
    GRPC_SERVER_USER,
]
IS_AGENT = (
    f"request.userInfo.username in {_AGENT_USERS} || request.userInfo.groups.exists(group, "
    + " || ".join(f"group.startsWith('{prefix}')" for prefix in (*names.AGENT_GROUP_PREFIXES, MANAGED_CLUSTER_GROUP))
    + ")"
)
"""Whether an agent asks, also before it is accepted or through the gRPC server."""


def _metadata_of(name: str, empty: str, *, old: bool = False) -> str:
    obj = "oldObject" if old else "object"
    is_absent = f"oldObject == null || !has(oldObject.metadata.{name})" if old else f"!has(object.metadata.{name})"
    return f"({is_absent} ? {empty} : {obj}.metadata.{name})"


def _adds_none(name: str, is_same: str) -> str:
    """Return that no item is new: the garbage collector and the hub take items away."""
    present, before = _metadata_of(name, "[]"), _metadata_of(name, "[]", old=True)
    return f"{present}.all(item, {before}.exists(known, {is_same}))"


_LABELS, _OLD_LABELS = _metadata_of("labels", "{}"), _metadata_of("labels", "{}", old=True)
_OTHER_LABELS_KEPT = (
    f"(oldObject == null || ({_LABELS}.all(key, key == '{names.Label.CLUSTER_SET}'"
    f" || (key in {_OLD_LABELS} && {_OLD_LABELS}[key] == {_LABELS}[key]))"
    f" && {_OLD_LABELS}.all(key, key == '{names.Label.CLUSTER_SET}' || key in {_LABELS})))"
)

_VALIDATIONS = {
    f"oldObject != null || !(object.metadata.name in {sorted(names.RESERVED_CLUSTER_NAMES)})": (
        "this cluster name is reserved: it names a namespace, group or role of the hub"
    ),
    "oldObject != null || object.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')": (
        "the name of a cluster is a DNS label of at most 63 characters: it names a namespace"
    ),
    f"{_ACCEPTANCE_UNCHANGED} || {_ENTITLED}": (
        "setting hubAcceptsClient needs the right to update managedclusters/accept"
    ),
    f"({_ANNOTATIONS_UNCHANGED} && {_FINALIZERS_KEPT}) || {_ENTITLED}": (
        "what the hub has noted needs the right to update managedclusters/accept"
    ),
    f"!({IS_AGENT}) || ({_adds_none('ownerReferences', 'item.uid == known.uid')}"
    f" && {_adds_none('finalizers', 'item == known')}) || {_ENTITLED}": (
        "an agent may not give its cluster owners or finalizers: that needs the right to update managedclusters/accept"
    ),
    f"!({IS_AGENT}) || {_OTHER_LABELS_KEPT} || {_ENTITLED}": (
        "an agent may not change the labels of its cluster, which select it for sets: "
        "that needs the right to update managedclusters/accept"
    ),
    _MAY_CHANGE_SET: "entering or leaving a set needs the right to create managedclustersets/join",
}


def policy_manifests() -> tuple[Manifest, Manifest]:
    """Return the admission policy about ManagedClusters, and its binding."""
    return bound_policy(PolicyName.ACCEPTANCE, (MANAGED_CLUSTERS.group, MANAGED_CLUSTERS.plural), _VALIDATIONS)


def set_binding_policy_manifests() -> tuple[Manifest, Manifest]:
    """Return the admission policy about ManagedClusterSetBindings, and its binding."""
    message = "using a set in a namespace needs the right to create managedclustersets/bind"
    about = (MANAGED_CLUSTER_SET_BINDINGS.group, MANAGED_CLUSTER_SET_BINDINGS.plural)
    return bound_policy(PolicyName.SET_BINDING, about, {f"{_BINDING_UNCHANGED} || {_MAY_BIND}": message})


UNGUARDED = (
    "the API server lets every user who may create a ManagedCluster accept it: "
    "install the admission policy with `watchword init` and try again"
)
"""What to do when the server does not refuse."""


class AcceptanceGuard(Struct):
    """Knows whether the server refuses acceptance by those not entitled, by trying it without storing anything."""

    client: Client
    clock: Clock
    _enforced_until: datetime | None = None
    _unenforced_until: datetime | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def is_enforced(self) -> bool:
        """Whether those not entitled are refused; a yes is trusted for some minutes, a no for some seconds."""
        async with self._lock:  # many clusters at once share one request
            now = self.clock.now()
            if self._enforced_until is not None and now < self._enforced_until:
                return True
            if self._unenforced_until is not None and now < self._unenforced_until:
                return False
            if not await self._refuses():
                self._unenforced_until = now + UNENFORCED_TTL
                return False
            self._enforced_until = now + ENFORCED_TTL
            return True

    async def _refuses(self) -> bool:
        """Dry-run as a joining cluster: registering must pass, accepting and annotating must not."""
        joining = self.client.impersonating(PROBE_USER, groups=(MANAGED_CLUSTER_GROUP,))
        if not await _is_admitted(joining):  # refused either way, so the response would prove nothing
            return await self._is_installed()
        return not await _is_admitted(joining, accepted=True) and not await _is_admitted(joining, note="probe")

    async def _is_installed(self) -> bool:
        found = [await self.client.find(kind, ObjectKey.of(wanted)) for kind, wanted in policy_manifests()]
        return is_installed([each for each in found if each is not None])


def is_installed(present: Iterable[Object]) -> bool:
    """Whether the policy about ManagedClusters and its binding are stored as they should be."""
    found = {str(each.get("kind")): each for each in present}
    return all(
        (stored := found.get(resource.kind)) is not None and is_as_written(stored, wanted)
        for resource, wanted in policy_manifests()
    )


async def _is_admitted(client: Client, *, accepted: bool = False, note: str = "") -> bool:
    metadata = {"annotations": {names.Annotation.FIRST_KEY: note}} if note else {}
    manifest = MANAGED_CLUSTERS.manifest(
        ObjectKey.cluster(PROBE_CLUSTER), metadata=metadata, spec={"hubAcceptsClient": accepted}
    )
    try:
        await client.create(MANAGED_CLUSTERS, manifest, dry_run=True)
    except (Forbidden, Invalid):
        return False
    return True
