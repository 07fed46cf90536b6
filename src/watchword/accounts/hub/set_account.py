"""Keeps an account of a cluster-set namespace on every cluster of the set, as clusters and bindings come and go."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec import Struct

from watchword.accounts.hub.account_guard import remaining_patience
from watchword.api import accounts, resources
from watchword.api.accounts import ACCOUNT_KINDS, Account, choose_declaration, resource_of, split_copy_name
from watchword.api.cluster import Cluster, is_accepted, is_member
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of, owner_reference
from watchword.api.names import NAME_CONFLICT, Annotation, ConditionType, Finalizer, Label
from watchword.api.resources import MANAGED_CLUSTERS, MANAGED_SERVICE_ACCOUNTS, SECRETS
from watchword.api.validation import format_duration
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer, add_finalizer, delete_object, remove_finalizer
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter

COPIED = (Annotation.TOKEN_EXPIRY, Annotation.TOKEN_ISSUED, Annotation.TOKEN_REQUEST, Annotation.TOKEN_DIGEST)


class ReplicaState(Struct, frozen=True):
    """The state of an account on one cluster; `lacks` is empty when it is there."""

    cluster: str
    lacks: str = ""
    retry: bool = False
    conflicts: bool = False  # another account or object has the name


class ReplicaWriter(Struct, frozen=True):
    """Makes, changes and removes replicas and copies of Secrets."""

    reader: Reader
    ensurer: Ensurer

    async def ensure(self, account: accounts.Account, cluster: str) -> ReplicaState:
        """Bring one cluster in line with the account; what goes wrong concerns this cluster alone."""
        key = ObjectKey(cluster, account.key.name)
        try:
            if self.reader.get(resources.OCM_MANAGED_SERVICE_ACCOUNTS, key) is not None:
                raise NameConflict(
                    f"{resources.OCM_MANAGED_SERVICE_ACCOUNTS.group_resource} {key} declares an account already"
                )
            await self._remove_predecessor(account, key)
            wanted = replica_manifest(account, cluster)
            if self.reader.get(resources.MANAGED_SERVICE_ACCOUNTS, key) is None:
                wanted["metadata"]["finalizers"] = [Finalizer.ACCOUNT]  # held from its first instant, without a request
            replica = await self.ensurer.ensure(
                resources.MANAGED_SERVICE_ACCOUNTS, wanted, ours=lambda present: is_replica_of(present, account)
            )
            await self._copy_secret(account, replica)
        except NameConflict as conflict:
            return ReplicaState(cluster, f"{NAME_CONFLICT}: {conflict}", retry=True, conflicts=True)
        except BeingDeleted:
            return ReplicaState(cluster, "the account that was there before is being revoked", retry=True)
        except KubeError as error:
            return ReplicaState(cluster, str(error), retry=True)
        return self._state(replica, cluster)

    async def remove(self, replica: Object) -> None:
        """Delete a replica; its own finalizer holds it until the cluster has revoked it."""
        if not is_deleting(replica):
            await delete_object(self.ensurer.client, resources.MANAGED_SERVICE_ACCOUNTS, replica)

    async def remove_copy(self, account: accounts.Account, secret: Object) -> None:
        if accounts.is_owned_by(secret, [account.object]) and not is_deleting(secret):
            await delete_object(self.ensurer.client, resources.SECRETS, secret)

    async def _remove_predecessor(self, account: accounts.Account, key: ObjectKey) -> None:
        found = self.reader.get(resources.MANAGED_SERVICE_ACCOUNTS, key)
        if found is None or labels_of(found).get(Label.ACCOUNT_NAMESPACE) != account.key.namespace:
            return
        if annotations_of(found).get(Annotation.ACCOUNT_UID) != account.uid:
            await self.remove(found)
            raise BeingDeleted(f"account {key} replicates a deleted account of that name and is being removed")

    async def _copy_secret(self, account: accounts.Account, replica: Object) -> None:
        found = self.reader.get(resources.SECRETS, ObjectKey.of(replica))
        if found is None or not accounts.is_owned_by(found, [replica]):
            return
        secret = accounts.AccountSecret.read(found)
        if secret.is_intact:
            wanted = copy_manifest(account, secret)
            await self.ensurer.ensure(
                resources.SECRETS,
                wanted,
                ours=lambda present: (
                    accounts.is_owned_by(present, [account.object]) or accounts.lost_its_owner(present)
                ),
            )

    def _state(self, replica: Object, cluster: str) -> ReplicaState:
        if is_true(replica, ConditionType.ALL_ACCOUNTS_PRESENT):
            return ReplicaState(cluster)
        if self.reader.get(resources.MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, accounts.ADDON_NAME)) is None:
            return ReplicaState(cluster, "AddonNotEnabled")
        said = find_condition(replica, ConditionType.ALL_ACCOUNTS_PRESENT)
        if said is None:
            return ReplicaState(cluster, "waiting for its agent")
        return ReplicaState(cluster, said.reason, conflicts=said.reason == NAME_CONFLICT)


def replica_manifest(account: accounts.Account, cluster: str) -> Object:
    annotations = {Annotation.ACCOUNT_UID: account.uid}
    spec: Object = {"rotation": {"enabled": account.rotates, "validity": format_duration(account.validity)}}
    if account.audiences:
        spec["audiences"] = list(account.audiences)
    labels = {Label.ACCOUNT_NAMESPACE: account.key.namespace}
    metadata: Object = {"labels": labels, "annotations": annotations}
    return resources.MANAGED_SERVICE_ACCOUNTS.manifest(
        ObjectKey(cluster, account.key.name), metadata=metadata, spec=spec
    )


def copy_manifest(account: accounts.Account, secret: accounts.AccountSecret) -> Object:
    cluster = secret.key.namespace
    data = secret.object.get("data") or {}
    return resources.SECRETS.manifest(
        ObjectKey(account.key.namespace, accounts.copy_name(cluster, account.key.name)),
        metadata={
            "labels": {
                Label.MANAGED_ACCOUNT: "true",
                Label.ACCOUNT_NAMESPACE: account.key.namespace,
                Label.CLUSTER_NAME: cluster,
            },
            "annotations": {
                **{name: secret.annotations[name] for name in COPIED if name in secret.annotations},
                Annotation.TOKEN_SERVER: secret.server,  # empty when it is not known any more
            },
            "ownerReferences": [owner_reference(account.object)],
        },
        type="Opaque",
        data={name: data[name] for name in ("ca.crt", "token") if name in data},
    )


def is_replica_of(present: Object, account: accounts.Account) -> bool:
    return (
        labels_of(present).get(Label.ACCOUNT_NAMESPACE) == account.key.namespace
        and annotations_of(present).get(Annotation.ACCOUNT_UID) == account.uid
    )


BY_NAMESPACE = "namespace"
BY_SOURCE = "source"  # replicas by the account that they replicate
BY_SET = "set"  # bindings by their set


def find_members(reader: Reader, namespace: str) -> list[Cluster] | None:
    """Return the accepted clusters of the sets that a namespace is bound to, None when it is bound to none."""
    bindings = reader.by_index(resources.MANAGED_CLUSTER_SET_BINDINGS, BY_NAMESPACE, namespace)
    sets = [found for binding in bindings if (found := _bound_set(reader, binding)) is not None]
    if not sets:
        return None
    clusters = [Cluster.read(obj) for obj in reader.list(resources.MANAGED_CLUSTERS)]
    return [
        cluster
        for cluster in clusters
        if is_accepted(cluster.object)
        and not cluster.deleting
        and any(is_member(found, labels_of(cluster.object)) for found in sets)
    ]


def _bound_set(reader: Reader, binding: Object) -> Object | None:
    """Return the set of a valid binding: one that is named like its set, which exists."""
    name = set_of(binding)
    if is_deleting(binding) or binding["metadata"]["name"] != name:
        return None
    found = reader.get(resources.MANAGED_CLUSTER_SETS, ObjectKey.cluster(name))
    return None if found is None or is_deleting(found) else found


def set_of(binding: Object) -> str:
    return str((binding.get("spec") or {}).get("clusterSet") or "")


def accounts_of_namespace(reader: Reader, namespace: str) -> list[ObjectKey]:
    return [
        ObjectKey.of(obj) for kind in accounts.ACCOUNT_KINDS for obj in reader.by_index(kind, BY_NAMESPACE, namespace)
    ]


def accounts_of_binding(reader: Reader, binding: Object) -> list[ObjectKey]:
    """Return the accounts for which a binding matters: those of its namespace."""
    return accounts_of_namespace(reader, binding["metadata"]["namespace"])


def accounts_of_set(reader: Reader, cluster_set: Object) -> list[ObjectKey]:
    bindings = reader.by_index(resources.MANAGED_CLUSTER_SET_BINDINGS, BY_SET, cluster_set["metadata"]["name"])
    return [key for binding in bindings for key in accounts_of_binding(reader, binding)]


def accounts_of_cluster(reader: Reader, cluster: Object) -> list[ObjectKey]:
    """Return the accounts that are on a cluster, or have to be: those of the sets that it belongs to.

    The controller asks with the cluster as it was and as it is, so that both sides of a move are found.
    """
    sets = [found for found in reader.list(resources.MANAGED_CLUSTER_SETS) if is_member(found, labels_of(cluster))]
    return [key for found in sets for key in accounts_of_set(reader, found)]


def source_of_replica(account: Object) -> list[ObjectKey]:
    """Map a replica to the account that it replicates; nothing for an account that a user made."""
    namespace = labels_of(account).get(Label.ACCOUNT_NAMESPACE)
    return [ObjectKey(namespace, account["metadata"]["name"])] if namespace else []


def accounts_of_secret(reader: Reader, secret: Object) -> Iterable[ObjectKey]:
    key = ObjectKey.of(secret)
    replica = reader.get(resources.MANAGED_SERVICE_ACCOUNTS, key)
    if replica is not None:
        return source_of_replica(replica)
    if Label.ACCOUNT_NAMESPACE in labels_of(secret):
        return [ObjectKey(key.namespace, accounts.split_copy_name(key.name)[1])]
    return []


PRESENT = ConditionType.ALL_ACCOUNTS_PRESENT
NAMED_IN_MESSAGE = 10
RETRY = timedelta(minutes=1)  # objects in the way are not followed


class SetAccountReconciler(Struct, frozen=True):
    """Reconciles ManagedServiceAccount of both groups; also triggered by bindings, sets, clusters and replicas."""

    reader: Reader
    client: Client
    replicas: ReplicaWriter
    status: StatusWriter
    clock: Clock

    async def reconcile(self, key: ObjectKey) -> Outcome:
        if self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) is not None:
            return Done()  # the namespace of a cluster: its agent keeps the account
        declared = [obj for kind in ACCOUNT_KINDS if (obj := self.reader.get(kind, key)) is not None]
        account = choose_declaration(declared)
        replicas = self.reader.by_index(MANAGED_SERVICE_ACCOUNTS, BY_SOURCE, str(key))
        if account is None:
            await self._remove(replicas)
            return Done()
        if account.deleting:
            return await self._revoke(account, declared, replicas)
        ends = account.expires_at()
        if ends is not None and self.clock.now() >= ends:
            await self.client.delete(account.resource, key, uid=account.uid)
            return Done()
        return await self._follow(account, declared, replicas)

    async def _follow(self, account: Account, declared: Sequence[Object], replicas: Sequence[Object]) -> Outcome:
        members = find_members(self.reader, account.key.namespace)
        names = {cluster.name for cluster in members or ()}
        if names:
            held = await add_finalizer(self.client, account.resource, account.object, Finalizer.ACCOUNT_REPLICAS)
            account = Account.read(held)
        await self._remove(obj for obj in replicas if obj["metadata"]["namespace"] not in names)
        await self._remove_copies(account, keep=names)
        if account.objection:
            states: list[ReplicaState] = []
            condition = Condition.false(PRESENT, "InvalidAccount", account.objection)
        else:
            states = await asyncio.gather(*(self.replicas.ensure(account, name) for name in sorted(names)))
            condition = decide_presence(states, bound=members is not None, namespace=account.key.namespace)
        present = sum(not state.lacks for state in states)
        counts = {"clusters": {"total": len(names), "present": present}}
        for obj in declared:
            if resource_of(obj) is account.resource:
                await self._write(account.object, StatusChange((condition,), fields=counts))
            else:
                await self._write(obj, StatusChange((condition, accounts.superseded_by(account)), fields=counts))
        ends = account.expires_at()
        if any(state.retry for state in states):
            return RetryAfter(RETRY)
        return RetryAfter(ends - self.clock.now()) if ends is not None else Done()

    async def _revoke(self, account: Account, declared: Sequence[Object], replicas: Sequence[Object]) -> Outcome:
        await self._remove(replicas)
        await self._remove_copies(account, keep=set())
        if not replicas:
            for obj in declared:
                await remove_finalizer(self.client, resource_of(obj), obj, Finalizer.ACCOUNT_REPLICAS)
            return Done()
        remaining = remaining_patience(account.object, now=self.clock.now())
        if remaining > timedelta(0):
            return RetryAfter(remaining)
        waiting = list_names(sorted(obj["metadata"]["namespace"] for obj in replicas))
        message = f"not yet confirmed by {waiting}; `kubectl get msa -A` shows what holds each of them"
        pending = Condition.true(ConditionType.REVOCATION_PENDING, "ClusterNotReached", message)
        for obj in declared:
            await self._write(obj, StatusChange((pending,)))
        return Done()

    async def _remove(self, replicas: Iterable[Object]) -> None:
        await asyncio.gather(*(self.replicas.remove(replica) for replica in replicas))

    async def _remove_copies(self, account: Account, *, keep: set[str]) -> None:
        for secret in self.reader.by_index(SECRETS, BY_NAMESPACE, account.key.namespace):
            cluster, name = split_copy_name(secret["metadata"]["name"])
            if name == account.key.name and cluster not in keep:
                await self.replicas.remove_copy(account, secret)

    async def _write(self, obj: Object, change: StatusChange) -> None:
        with contextlib.suppress(NotFound):
            await self.status.write(resource_of(obj), obj, change)


def decide_presence(states: Sequence[ReplicaState], *, bound: bool, namespace: str) -> Condition:
    if not bound:
        message = (
            f"namespace {namespace} is neither a cluster's nor bound to a cluster set: create the account in the "
            "namespace of a cluster, or bind a set with a ManagedClusterSetBinding"
        )
        return Condition.false(PRESENT, "NoClusterNamespace", message)
    first = sorted(states, key=lambda state: not state.conflicts)  # these need a person
    lacking = [f"{state.cluster} ({state.lacks})" for state in first if state.lacks]
    if lacking:
        message = f"missing on {list_names(lacking)}"
        if any(state.conflicts for state in states):
            return Condition.false(PRESENT, NAME_CONFLICT, message)
        return Condition.false(PRESENT, "MissingOnClusters", message)
    if not states:
        return Condition.true(PRESENT, "NoClusters", "the bound sets select no cluster")
    return Condition.true(PRESENT, "AllPresent", "the service account is on every cluster of the bound sets")


def list_names(names: Sequence[str]) -> str:
    """Return names for a message: the first few, and how many more there are."""
    shown = ", ".join(names[:NAMED_IN_MESSAGE])
    more = len(names) - NAMED_IN_MESSAGE
    return f"{shown} and {more} more" if more > 0 else shown
