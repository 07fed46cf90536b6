"""Keeps the agent deployed as its Klusterlet specifies, and reports its state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import timedelta

import orjson
from msgspec import Struct

from watchword.api.conditions import Condition
from watchword.api.images import IMAGE
from watchword.api.meta import Manifest, Object, ObjectKey, is_deleting, uid_of
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, Finalizer
from watchword.api.resources import DEPLOYMENTS, KLUSTERLETS, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Conflict
from watchword.operator import conditions
from watchword.operator.applier import OwnedObjectApplier
from watchword.operator.feature_gates import AGENT_FEATURES
from watchword.operator.klusterlet_manifests import bound_agent_manifests, gates_of, namespace_of
from watchword.operator.klusterlet_removal import KlusterletRemoval
from watchword.operator.status import add_finalizer, report_status
from watchword.operator.validation import validate_klusterlet
from watchword.runtime.clock import Clock
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusWriter

CERTIFICATE_RECHECK = timedelta(hours=1)


class KlusterletReconciler(Struct, frozen=True):
    """Reconciles Klusterlet; triggered by what was deployed for it and by its agent's Secrets."""

    reader: Reader
    client: Client
    status: StatusWriter
    clock: Clock
    image: str = IMAGE

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Deploy the agent, or remove everything of it."""
        found = self.reader.get(KLUSTERLETS, key)
        if found is None:
            return Done()
        applier = OwnedObjectApplier(self.reader, self.client)
        if is_deleting(found):
            return await KlusterletRemoval(self.reader, self.client, applier, self.status).remove(found)
        objection = validate_klusterlet(found)
        if objection is not None:  # what runs keeps running: a slip of the pen must not take a cluster off its hub
            applied = Condition.false(conditions.APPLIED, objection.reason, objection.message)
            await self._report(found, [applied, self._features(found)])
            return Done()
        found = await add_finalizer(self.client, KLUSTERLETS, found, Finalizer.KLUSTERLET)
        return await self._deploy(found, applier)

    async def _deploy(self, found: Object, applier: OwnedObjectApplier) -> Outcome:
        try:
            bootstrap = fingerprint(self._secret(found, BOOTSTRAP_KUBECONFIG_SECRET))
            wanted = bound_agent_manifests(found, image=self.image, bootstrap=bootstrap)
            rows = await applier.apply(found, wanted)
        except (ApiStatusError, BeingDeleted, NameConflict) as trouble:
            if isinstance(trouble, Conflict):
                raise
            applied = Condition.false(conditions.APPLIED, "KlusterletApplyFailed", str(trouble))
            await self._report(found, [applied, self._features(found)])
            raise
        applied = Condition.true(conditions.APPLIED, "KlusterletApplied", "everything is as the spec says")
        await self._report(found, [applied, self._features(found), *self._decide_conditions(found, rows)], rows)
        return RetryAfter(CERTIFICATE_RECHECK)

    def _decide_conditions(self, found: Object, rows: Iterable[Manifest]) -> list[Condition]:
        agent = next((obj for resource, obj in rows if resource is DEPLOYMENTS), None)
        bootstrap = self._secret(found, BOOTSTRAP_KUBECONFIG_SECRET)
        hub = self._secret(found, HUB_KUBECONFIG_SECRET)
        return [
            conditions.decide_available(agent, "klusterletAvailable"),
            conditions.decide_degraded(conditions.REGISTRATION_DEGRADED, agent),
            conditions.decide_degraded(conditions.WORK_DEGRADED, agent),
            conditions.decide_hub_connection(bootstrap, hub, now=self.clock.now()),
        ]

    def _secret(self, found: Object, name: str) -> Object | None:
        return self.reader.get(SECRETS, ObjectKey(namespace_of(found), name))

    def _features(self, found: Object) -> Condition:
        return conditions.decide_feature_gates(gates_of(found), AGENT_FEATURES)

    async def _report(self, found: Object, said: list[Condition], rows: Iterable[Manifest] = ()) -> None:
        await report_status(self.status, KLUSTERLETS, found, said, rows)


def fingerprint(secret: Object | None) -> str:
    """Return a short hash that changes with the content of a Secret and reveals nothing about it."""
    if secret is None:
        return ""
    salted = [uid_of(secret), secret.get("data") or {}]
    return hashlib.sha256(orjson.dumps(salted, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
