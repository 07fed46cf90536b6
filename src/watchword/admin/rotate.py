"""Requests that the holders of credentials renew them now, and waits for it."""

import secrets
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from watchword.addons.catalog import ADDON_CATALOG
from watchword.admin.apply import list_if_served
from watchword.admin.errors import OperationRefused
from watchword.admin.lookup import get_named
from watchword.admin.service_accounts import ServiceAccountAdmin
from watchword.admin.wait import ObjectWaiter
from watchword.api.accounts import ACCOUNT_KINDS, resource_of
from watchword.api.addon import Addon
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.discovery.discover import Progress, ignore_progress
from watchword.kube.client import Client
from watchword.registration.catalog import CATALOG
from watchword.runtime.clock import Clock

KINDS = ("cluster", "addon", "serviceaccount")
ADVICE = "the request stays until the agent connects again: `watchword status` shows both"


class Renewal(Struct, frozen=True):
    """One credential to renew, and the conditions by which its holder reports it."""

    what: str  # for people
    resource: Resource
    found: Object
    conditions: tuple[str, ...]

    @property
    def key(self) -> ObjectKey:
        return ObjectKey.of(self.found)


class CredentialRotator(Struct, frozen=True):
    """Renews through the hub: the holder sees the request there, and keeps the old credential until it has a new one.

    Nothing is removed, so a holder that is offline renews when it reconnects.
    """

    client: Client
    clock: Clock
    progress: Progress = field(default=ignore_progress)

    async def select(self, kinds: Iterable[str], selector: str = "") -> list[Renewal]:
        """Return everything of these kinds that can be renewed, on the clusters that a label selector matches."""
        clusters = (await self.client.list(MANAGED_CLUSTERS, labels=selector)).items
        names = {obj["metadata"]["name"] for obj in clusters}
        found: list[Renewal | OperationRefused] = []
        for kind in kinds:
            if kind == "cluster":
                found += [self._of_cluster(obj) for obj in clusters]
            elif kind == "addon":
                addons = (await self.client.list(MANAGED_CLUSTER_ADDONS)).items
                found += [self._of_addon(obj) for obj in addons if obj["metadata"]["namespace"] in names]
            else:
                accounts = [obj for each in ACCOUNT_KINDS for obj in await list_if_served(self.client, each)]
                found += [_of_account(obj) for obj in accounts if obj["metadata"]["namespace"] in names]
        return [each for each in found if isinstance(each, Renewal)]

    async def clusters(self, names: Iterable[str]) -> list[Renewal]:
        found = [await get_named(self.client, MANAGED_CLUSTERS, ObjectKey.cluster(name)) for name in names]
        return [_required(self._of_cluster(obj)) for obj in found]

    async def addons(self, keys: Iterable[ObjectKey]) -> list[Renewal]:
        found = [await get_named(self.client, MANAGED_CLUSTER_ADDONS, key) for key in keys]
        return [_required(self._of_addon(obj)) for obj in found]

    async def account(self, key: ObjectKey) -> list[Renewal]:
        """Return the token of an account on its cluster, or on every cluster of its set."""
        admin = ServiceAccountAdmin(self.client)
        found = await admin.get(key)
        in_set = await self.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) is None
        held = await admin.replicas(key) if in_set else [found]
        if not held:
            raise OperationRefused(f"account {key} is on no cluster, so it has no token to renew")
        return [_of_account(obj) for obj in held]

    async def request(self, renewal: Renewal) -> None:
        """Request a renewal: any new value works, this one also shows when."""
        request = f"{rfc3339(self.clock.now())}-{secrets.token_hex(3)}"
        patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: request}}}
        await self.client.patch(renewal.resource, renewal.key, patch)

    async def wait(self, renewal: Renewal, waiter: ObjectWaiter) -> str:
        """Return what the holder reports about its new credential; `NotReady` when there is none in time."""
        before, conditions = _condition_message(renewal.found, renewal.conditions), renewal.conditions
        after = await waiter.until(
            renewal.resource, renewal.key, lambda obj: validate_renewed(obj, conditions, before), advice=ADVICE
        )
        return _condition_message(after, conditions)

    def _of_cluster(self, found: Object) -> Renewal | OperationRefused:
        name = found["metadata"]["name"]
        if not is_true(found, ConditionType.HUB_ACCEPTED):
            return OperationRefused(f"cluster {name} is not accepted, so it has nothing to renew")
        kind = CATALOG.driver_of(found).credential
        return Renewal(f"cluster {name}", MANAGED_CLUSTERS, found, kind.condition_types)

    def _of_addon(self, found: Object) -> Renewal | OperationRefused:
        addon = Addon.read(found)
        rule = ADDON_CATALOG.driver_of(addon)
        if addon.kube_client is None or rule is None:
            return OperationRefused(f"add-on {addon.name} on cluster {addon.cluster} has no credential for the hub")
        what = f"add-on {addon.name} on {addon.cluster}"
        return Renewal(what, MANAGED_CLUSTER_ADDONS, found, rule.credential.condition_types)


def _of_account(found: Object) -> Renewal:
    key = ObjectKey.of(found)
    return Renewal(f"account {key.name} on {key.namespace}", resource_of(found), found, (ConditionType.TOKEN_REPORTED,))


def _required(found: Renewal | OperationRefused) -> Renewal:
    if isinstance(found, OperationRefused):
        raise found
    return found


def validate_renewed(found: Object | None, conditions: Sequence[str], before: str) -> str:
    if found is None:
        return "it is gone"
    failed = next((said for said in (find_condition(found, t) for t in conditions) if said is not None), None)
    if failed is not None and failed.status == "False":
        return f"it is refused a new credential ({failed.message})"
    return "" if _condition_message(found, conditions) not in ("", before) else "no new credential is reported yet"


def _condition_message(found: Object, conditions: Sequence[str]) -> str:
    said = (find_condition(found, type_) for type_ in conditions)
    return next((condition.message for condition in said if condition is not None), "")
