"""Requests that the holder of a credential renews it now, and waits for it."""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta

from msgspec import Struct, field

from watchword.addons.catalog import ADDON_CATALOG
from watchword.admin.errors import OperationRefused
from watchword.admin.service_accounts import ServiceAccountAdmin
from watchword.admin.wait import ObjectWaiter
from watchword.api.accounts import resource_of
from watchword.api.addon import Addon
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.discovery.polling import Progress, ignore_progress
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.registration.catalog import CATALOG, Catalog
from watchword.runtime.clock import Clock


class CredentialRotator(Struct, frozen=True):
    """Renews through the hub: the holder sees the request there, and keeps the old credential until it has a new one.

    Nothing is removed, so a holder that is offline renews when it reconnects.
    """

    client: Client
    clock: Clock
    progress: Progress = field(default=ignore_progress)
    catalog: Catalog = CATALOG

    async def cluster(self, name: str, wait: timedelta | None) -> str:
        """Request a cluster's agent to renew; return what it then reports, empty without waiting."""
        key = ObjectKey.cluster(name)
        found = await self._get(MANAGED_CLUSTERS, key, f"there is no cluster {name}: `watchword status` lists all")
        if not is_true(found, ConditionType.HUB_ACCEPTED):
            raise OperationRefused(f"cluster {name} is not accepted, so it has nothing to renew")
        kind = self.catalog.driver_of(found).credential
        return await self._request_renewal(MANAGED_CLUSTERS, found, kind.condition_types, wait)

    async def addon(self, cluster: str, name: str, wait: timedelta | None) -> str:
        """Request a new credential of an add-on; return what is then reported, empty without waiting."""
        key = ObjectKey(cluster, name)
        missing = f"there is no add-on {name} on cluster {cluster}: `watchword status` lists all"
        found = await self._get(MANAGED_CLUSTER_ADDONS, key, missing)
        rule = ADDON_CATALOG.driver_of(Addon.read(found))
        if Addon.read(found).kube_client is None or rule is None:
            raise OperationRefused(f"add-on {name} on cluster {cluster} has no credential for the hub")
        return await self._request_renewal(MANAGED_CLUSTER_ADDONS, found, rule.credential.condition_types, wait)

    async def account(self, key: ObjectKey, wait: timedelta | None) -> str:
        """Request a new token of a managed service account, on each of its clusters; return what is then reported."""
        admin = ServiceAccountAdmin(self.client, self.progress)
        found = await admin.get(key)
        in_set = await self.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) is None
        held = await admin.replicas(key) if in_set else [found]
        if not held:
            raise OperationRefused(f"account {key} is on no cluster, so it has no token to renew")
        conditions = (ConditionType.TOKEN_REPORTED,)
        work = (self._request_renewal(resource_of(obj), obj, conditions, wait) for obj in held)
        return "; ".join(said for said in await asyncio.gather(*work) if said)

    async def _get(self, resource: Resource, key: ObjectKey, missing: str) -> Object:
        try:
            return await self.client.get(resource, key)
        except NotFound as cause:
            raise OperationRefused(missing) from cause

    async def _request_renewal(
        self, resource: Resource, found: Object, conditions: tuple[str, ...], wait: timedelta | None
    ) -> str:
        key = ObjectKey.of(found)
        # Any new value works; this one also shows when it was requested.
        request = f"{rfc3339(self.clock.now())}-{secrets.token_hex(3)}"
        before = _condition_message(found, conditions)
        patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: request}}}
        await self.client.patch(resource, key, patch)
        if wait is None:
            return ""
        self.progress(f"requested the renewal of {key}; waiting for its report")
        advice = "the request stays until the agent connects again: `watchword status` shows both"
        waiter = ObjectWaiter(self.client, wait, self.progress)
        after = await waiter.until(resource, key, lambda obj: validate_renewed(obj, conditions, before), advice=advice)
        return _condition_message(after, conditions)


def validate_renewed(found: Object | None, conditions: tuple[str, ...], before: str) -> str:
    """Return what is still waited for; empty once another credential is reported than before."""
    if found is None:
        return "it is gone"
    failed = next((said for said in (find_condition(found, t) for t in conditions) if said is not None), None)
    if failed is not None and failed.status == "False":
        return f"it is refused a new credential ({failed.message})"
    return "" if _condition_message(found, conditions) not in ("", before) else "no new credential is reported yet"


def _condition_message(found: Object, conditions: tuple[str, ...]) -> str:
    said = (find_condition(found, type_) for type_ in conditions)
    return next((condition.message for condition in said if condition is not None), "")
