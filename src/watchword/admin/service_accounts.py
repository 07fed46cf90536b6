"""Operations of an administrator on the managed service accounts of a hub."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec import Struct, field

from watchword.accounts.grants import GRANTS, AccountRight, entry_name, granted_in, work_key
from watchword.accounts.tokens import AccountToken, find_token
from watchword.admin.errors import NotFoundOnHub, OperationRefused
from watchword.admin.lookup import missing
from watchword.admin.revoke.revocation import Refusal, RefusalMeasurement, RequestProbe, split_refused
from watchword.admin.wait import ObjectWaiter, validate_applied
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME, resource_of
from watchword.api.conditions import conditions_of, find_condition, is_true
from watchword.api.meta import Object, ObjectKey, finalizers_of, labels_of, uid_of
from watchword.api.names import AGENT_NAMESPACE, NAME_CONFLICT, ConditionType, Finalizer, Label
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    MANIFEST_WORKS,
)
from watchword.discovery.discover import Progress, ignore_progress
from watchword.health.hub_reader import require_hub
from watchword.kube.client import Client
from watchword.kube.connect import make_client
from watchword.kube.credentials import Credential, FixedCredential, bearer
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import AlreadyExists, Forbidden, NotFound

WORK_GRANTS_ROLE = "watchword-account-grants"
NEEDS_A_PERSON = frozenset({"NoClusterNamespace", "InvalidAccount", NAME_CONFLICT})  # reasons that no waiting ends
HOLDING = (Finalizer.ACCOUNT, Finalizer.ACCOUNT_REPLICAS)


class ServiceAccountAdmin(Struct, frozen=True):
    """Creates, finds and deletes managed service accounts, and grants them rights on clusters."""

    client: Client
    progress: Progress = field(default=ignore_progress)

    async def create(self, key: ObjectKey, spec: Mapping[str, Any], *, dry_run: bool = False) -> tuple[bool, Object]:
        """Create an account, held from its first instant; return whether it is new, and the account."""
        account = MANAGED_SERVICE_ACCOUNTS.manifest(key, metadata={"finalizers": [Finalizer.ACCOUNT]}, spec=dict(spec))
        try:
            return True, await self.client.create(MANAGED_SERVICE_ACCOUNTS, account, dry_run=dry_run)
        except AlreadyExists:
            return False, await self.get(key)
        except NotFound as cause:
            raise NotFoundOnHub(
                f"namespace {key.namespace} or the kind ManagedServiceAccount is not on this hub: check the namespace, "
                f"and enable the add-on with `watchword addon enable {ADDON_NAME} -c CLUSTER`"
            ) from cause

    async def find_all(self, namespace: str = "", labels: str = "") -> list[Object]:
        """Return the accounts of one namespace or of all, of either group; replicas are left out.

        Raises `OperationRefused` when the cluster is not a hub.
        """
        await require_hub(self.client)
        found: list[Object] = []
        for kind in ACCOUNT_KINDS:
            try:
                found += (await self.client.list(kind, namespace=namespace, labels=labels)).items
            except (NotFound, Forbidden):
                continue
        return [obj for obj in found if Label.ACCOUNT_NAMESPACE not in labels_of(obj)]

    async def get(self, key: ObjectKey) -> Object:
        """Return an account, of whichever group declares it; `NotFoundOnHub` when none does."""
        for kind in ACCOUNT_KINDS:
            found = await self.client.find(kind, key)
            if found is not None:
                return found
        raise await missing(self.client, MANAGED_SERVICE_ACCOUNTS, key)

    async def delete(self, key: ObjectKey, *, abandon: bool = False) -> None:
        """Delete an account; with `abandon`, without waiting for clusters that cannot be reached."""
        found = await self.get(key)
        await self.client.delete(resource_of(found), key)
        if abandon:
            for obj in [found, *await self.replicas(key)]:
                await self._abandon(obj)

    async def delete_measured(self, key: ObjectKey, within: timedelta) -> list[Refusal]:
        """Delete an account, wait until it is revoked everywhere, and say when each cluster refused its token."""
        found = [RequestProbe(token.cluster, partial(connect_with, token)) for token in await self.tokens(key)]
        probes, before = await split_refused(found)
        measurement = RefusalMeasurement(within, asyncio.get_running_loop().time())
        await self.delete(key)
        asking = asyncio.create_task(measurement.run(probes))
        try:
            await self.wait_until_gone(key, within)
            return [*before, *await asking]
        finally:
            asking.cancel()

    async def tokens(self, key: ObjectKey) -> list[AccountToken]:
        """Return the tokens of an account, as far as the user may read them and the hub says where they are used."""
        try:
            found = [
                await find_token(self.client, key.name, cluster, namespace=key.namespace)
                for cluster in await self.clusters(key)
            ]
        except Forbidden:
            return []
        return [token for token in found if token is not None and token.server]

    async def wait_until_reported(self, key: ObjectKey, within: timedelta) -> Object:
        advice = f"`watchword addon show {ADDON_NAME} --cluster CLUSTER` shows how the agent is"
        waiter = ObjectWaiter(self.client, within, self.progress)
        return await waiter.until(MANAGED_SERVICE_ACCOUNTS, key, validate_reported, advice=advice)

    async def wait_until_gone(self, key: ObjectKey, within: timedelta) -> None:
        waiter = ObjectWaiter(self.client, within, self.progress)
        advice = "bring the cluster back, or give up with --abandon"
        await waiter.until(MANAGED_SERVICE_ACCOUNTS, key, validate_revoked, advice=advice)

    async def token(self, key: ObjectKey, cluster: str) -> AccountToken:
        """Return the token of an account on one cluster; `NotFoundOnHub` when the hub holds none."""
        found = await find_token(self.client, key.name, cluster, namespace=key.namespace)
        if found is None:
            raise NotFoundOnHub(
                f"the hub holds no token of account {key.name} for cluster {cluster}: "
                f"`watchword serviceaccount show {key.name} -n {key.namespace}` says why"
            )
        return found

    async def replicas(self, key: ObjectKey) -> list[Object]:
        labels = f"{Label.ACCOUNT_NAMESPACE}={key.namespace}"
        found = (await self.client.list(MANAGED_SERVICE_ACCOUNTS, labels=labels)).items
        return [obj for obj in found if obj["metadata"]["name"] == key.name]

    async def clusters(self, key: ObjectKey) -> list[str]:
        if await self.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) is not None:
            return [key.namespace]
        return sorted(obj["metadata"]["namespace"] for obj in await self.replicas(key))

    async def grant(self, key: ObjectKey, right: AccountRight) -> list[ObjectKey]:
        """Record a right of an account; return the works by which the clusters that have the account grant it now.

        The hub writes the works, also for clusters that get the account later.
        """
        account = await self.get(key)
        name, content = right.entry(key, uid_of(account))
        with contextlib.suppress(AlreadyExists):
            await self.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(GRANTS))
        await self.client.patch(CONFIG_MAPS, GRANTS, {"data": {name: content}})
        clusters = [cluster for cluster in await self.clusters(key) if cluster in (right.clusters or (cluster,))]
        for cluster in clusters:
            if await self.client.find(MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, ADDON_NAME)) is None:
                raise OperationRefused(
                    f"the right is recorded, and the add-on is not enabled on {cluster}: "
                    f"`watchword addon enable {ADDON_NAME} -c {cluster}`"
                )
        return [work_key(key, cluster, right) for cluster in clusters]

    async def withdraw(self, key: ObjectKey, role: str) -> None:
        with contextlib.suppress(NotFound):  # none was ever recorded
            await self.client.patch(CONFIG_MAPS, GRANTS, {"data": {entry_name(key, role): None}})

    async def wait_until_granted(self, works: Sequence[ObjectKey], right: AccountRight, within: timedelta) -> None:
        waiter = ObjectWaiter(self.client, within, self.progress)
        for work in works:
            advice = advise_on_right(work.namespace, right)
            await waiter.until(MANIFEST_WORKS, work, lambda found: validate_granted(found, right), advice=advice)

    async def _abandon(self, obj: Object) -> None:
        kept = [name for name in finalizers_of(obj) if name not in HOLDING]
        with contextlib.suppress(NotFound):  # it was released already
            await self.client.patch(resource_of(obj), ObjectKey.of(obj), {"metadata": {"finalizers": kept or None}})


def connect_with(token: AccountToken) -> Client:
    credential = Credential(authorization=bearer(token.token.reveal().encode()))
    return make_client(Endpoint(token.server, token.ca), FixedCredential(credential))


def advise_on_right(cluster: str, right: AccountRight) -> str:
    """Say what an administrator of a cluster runs there, once, so that its work agent can grant a right."""
    if right.namespaces:
        return f"do the namespaces exist on {cluster}, and may its work agent do what {right.role} allows?"
    return (
        f"the work agent of {cluster} needs these rights itself; on {cluster}, run `kubectl create clusterrole "
        f"{WORK_GRANTS_ROLE} --verb=get,create,patch,delete --resource={CLUSTER_ROLE_BINDINGS.group_resource}`, and "
        f"bind {WORK_GRANTS_ROLE} and {right.role} to its account with `kubectl create clusterrolebinding NAME "
        f"--clusterrole=ROLE --serviceaccount={AGENT_NAMESPACE}:klusterlet-sa`; or name namespaces with --in"
    )


def validate_granted(work: Object | None, right: AccountRight) -> str:
    if work is None or granted_in(work) != right.namespaces:
        return "the hub has not written the work yet"
    return validate_applied(work)


def validate_reported(found: Object | None) -> str:
    """Say what an account still lacks; empty when its token, or those of all its clusters, are at the hub.

    Raises `OperationRefused` for what no waiting ends: a namespace that is bound to no set, a name that is taken.
    """
    if found is None:
        return "the account does not exist"
    in_set = bool((found.get("status") or {}).get("clusters"))
    wanted = ConditionType.ALL_ACCOUNTS_PRESENT if in_set else ConditionType.TOKEN_REPORTED
    if is_true(found, wanted):
        return ""
    said = [row for row in conditions_of(found) if row.get("status") == "False" and row.get("message")]
    for row in said:
        if row.get("reason") in NEEDS_A_PERSON:
            raise OperationRefused(f"account {ObjectKey.of(found)} waits for a person: {row['message']}")
    return str(said[0]["message"]) if said else "the cluster's agent has not reported yet"


def validate_revoked(found: Object | None) -> str:
    if found is None:
        return ""
    pending = find_condition(found, ConditionType.REVOCATION_PENDING)
    return pending.message if pending is not None else "its clusters are revoking it"
