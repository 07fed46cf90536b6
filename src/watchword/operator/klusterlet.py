"""Keeps the agent deployed as its Klusterlet specifies, and reports its state."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from datetime import timedelta

import orjson
from msgspec import Struct

from watchword.api.conditions import Condition
from watchword.api.meta import Manifest, Object, ObjectKey, annotations_of, finalizers_of, is_deleting, uid_of
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, Finalizer
from watchword.api.resources import APPLIED_MANIFEST_WORKS, DEPLOYMENTS, KLUSTERLETS, NAMESPACES, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Conflict, KubeError, NotFound
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.operator import conditions
from watchword.operator.applier import OWNER_ANNOTATION, OwnedObjectApplier, delete_exact, owner_annotation
from watchword.operator.conditions import describe_failure, report_status
from watchword.operator.feature_gates import AGENT_FEATURES
from watchword.operator.klusterlet_manifests import addon_namespace, agent_manifests, namespace_of
from watchword.operator.rendering import OPERATOR, image_of_operator
from watchword.operator.validation import validate_klusterlet
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import add_finalizer, remove_finalizer
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusWriter

RECHECK = timedelta(seconds=5)


class KlusterletRemoval(Struct, frozen=True):
    """Agent, then the records of its work, then rights and credential, then the namespaces it made."""

    reader: Reader
    client: Client
    applier: OwnedObjectApplier
    status: StatusWriter

    async def remove(self, klusterlet: Object) -> Outcome:
        """Take the next step; triggered again when something is deleted."""
        if Finalizer.KLUSTERLET not in finalizers_of(klusterlet):
            return Done()
        rows = agent_manifests(klusterlet)
        agent = [row for row in rows if row[0] is DEPLOYMENTS]
        waiting = await self.applier.remove(klusterlet, agent)
        if waiting:
            # While the agent runs, it would write again what is removed here.
            return await self._wait(klusterlet, waiting)
        await self._delete_work_records(klusterlet)
        await self._delete_credential(klusterlet)
        rights = [row for row in rows if row[0] not in (DEPLOYMENTS, NAMESPACES)]
        waiting = await self.applier.remove(klusterlet, rights)
        if waiting:
            return await self._wait(klusterlet, waiting)
        await self._delete_namespaces(klusterlet)
        await remove_finalizer(self.client, KLUSTERLETS, klusterlet, Finalizer.KLUSTERLET)
        return Done()

    async def _wait(self, klusterlet: Object, waiting: Sequence[str]) -> Outcome:
        message = f"waiting for {', '.join(waiting)} to be gone"
        await report_status(
            self.status, KLUSTERLETS, klusterlet, [Condition.false("Applied", "KlusterletDeleting", message)]
        )
        return RetryAfter(RECHECK)

    async def _delete_work_records(self, klusterlet: Object) -> None:
        """Delete the records of the hub that is left; what they own is deleted with them, what was orphaned stays."""
        others = self._others(klusterlet)
        own = hub_hash(self.reader.get(SECRETS, self._secret(klusterlet)))
        for record in self.reader.list(APPLIED_MANIFEST_WORKS):
            if others and (record.get("spec") or {}).get("hubHash") != own:
                continue
            await self._delete_record(record)

    async def _delete_record(self, record: Object) -> None:
        """Remove the finalizer of a record whose agent is gone; the garbage collector does the rest."""
        try:
            await remove_finalizer(self.client, APPLIED_MANIFEST_WORKS, record, Finalizer.APPLIED_WORK)
            if not is_deleting(record):
                await delete_exact(self.client, APPLIED_MANIFEST_WORKS, record)
        except (NotFound, Conflict):
            return

    async def _delete_credential(self, klusterlet: Object) -> None:
        secret = self.reader.get(SECRETS, self._secret(klusterlet))
        shared = any(namespace_of(other) == namespace_of(klusterlet) for other in self._others(klusterlet))
        if secret is not None and not shared and not is_deleting(secret):
            await delete_exact(self.client, SECRETS, secret)

    async def _delete_namespaces(self, klusterlet: Object) -> None:
        used = {place for other in self._others(klusterlet) for place in _namespaces(other)}
        for place in _namespaces(klusterlet):
            found = self.reader.get(NAMESPACES, ObjectKey.cluster(place))
            ours = found is not None and annotations_of(found).get(OWNER_ANNOTATION) == owner_annotation(klusterlet)
            if found is not None and ours and place not in used and not is_deleting(found):
                await delete_exact(self.client, NAMESPACES, found)

    def _others(self, klusterlet: Object) -> list[Object]:
        name = klusterlet["metadata"]["name"]
        return [
            other
            for other in self.reader.list(KLUSTERLETS)
            if other["metadata"]["name"] != name and not is_deleting(other)
        ]

    def _secret(self, klusterlet: Object) -> ObjectKey:
        return ObjectKey(namespace_of(klusterlet), HUB_KUBECONFIG_SECRET)


def _namespaces(klusterlet: Object) -> tuple[str, str]:
    namespace = namespace_of(klusterlet)
    return namespace, addon_namespace(namespace)


def hub_hash(secret: Object | None) -> str:
    """Return the hash by which records name their hub, empty when the Secret does not tell."""
    try:
        kubeconfig = base64.b64decode(((secret or {}).get("data") or {}).get("kubeconfig") or "", validate=True)
        server = parse_kubeconfig(kubeconfig).choose().cluster.server
    except (KubeError, binascii.Error):
        return ""
    return hashlib.sha256(server.encode()).hexdigest()


CERTIFICATE_RECHECK = timedelta(hours=1)


class KlusterletReconciler(Struct, frozen=True):
    """Reconciles Klusterlet; triggered by what was deployed for it and by its agent's Secrets."""

    reader: Reader
    client: Client
    status: StatusWriter
    clock: Clock
    image: str = ""  # empty: that of the operator itself

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(KLUSTERLETS, key)
        if found is None:
            return Done()
        applier = OwnedObjectApplier(self.reader, self.client)
        if is_deleting(found):
            return await KlusterletRemoval(self.reader, self.client, applier, self.status).remove(found)
        objection = validate_klusterlet(found)
        if objection is not None:  # an invalid spec must not remove a running agent
            applied = Condition.false(conditions.APPLIED, objection.reason, objection.message)
            await self._report(found, [applied, self._features(found)])
            return Done()
        found = await add_finalizer(self.client, KLUSTERLETS, found, Finalizer.KLUSTERLET)
        return await self._deploy(found, applier)

    async def _deploy(self, found: Object, applier: OwnedObjectApplier) -> Outcome:
        try:
            bootstrap = fingerprint(self._secret(found, BOOTSTRAP_KUBECONFIG_SECRET))
            image = self.image or image_of_operator(self.reader.get(DEPLOYMENTS, OPERATOR))
            wanted = agent_manifests(found, image=image, bootstrap=bootstrap)
            rows = await applier.apply(found, wanted)
        except (ApiStatusError, BeingDeleted, NameConflict) as error:
            if isinstance(error, Conflict):
                raise
            message = await describe_failure(self.client, error, namespace_of(found), remedy="watchword join")
            applied = Condition.false(conditions.APPLIED, "KlusterletApplyFailed", message)
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
        return conditions.decide_feature_gates(found, AGENT_FEATURES)

    async def _report(self, found: Object, said: list[Condition], rows: Iterable[Manifest] = ()) -> None:
        await report_status(self.status, KLUSTERLETS, found, said, rows)


def fingerprint(secret: Object | None) -> str:
    """Return a short hash that changes with the content of a Secret and reveals nothing about it."""
    if secret is None:
        return ""
    salted = [uid_of(secret), secret.get("data") or {}]
    return hashlib.sha256(orjson.dumps(salted, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
