"""Keeps an account of a cluster-set namespace on every cluster of the set, as clusters and bindings come and go."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec import Struct

from watchword.accounts.hub.account_guard import remaining_patience
from watchword.accounts.hub.replicas import BY_NAMESPACE, BY_SOURCE, ReplicaState, ReplicaWriter, find_members
from watchword.api.accounts import ACCOUNT_KINDS, Account, choose_declaration, resource_of, split_copy_name
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import NAME_CONFLICT, ConditionType, Finalizer
from watchword.api.resources import MANAGED_CLUSTERS, MANAGED_SERVICE_ACCOUNTS, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import add_finalizer, remove_finalizer
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter

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
            current = account.object if resource_of(obj) is account.resource else obj
            await self._write(current, StatusChange((condition, *_superseded(obj, account)), fields=counts))
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


def _superseded(obj: Object, account: Account) -> tuple[Condition, ...]:
    if resource_of(obj) is account.resource:
        return ()
    message = f"{account.resource.group_resource} {account.key} declares the same account and decides about it"
    return (Condition.true(ConditionType.SUPERSEDED, "DeclaredTwice", message),)
