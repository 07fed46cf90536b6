"""Removes everything a deleted Klusterlet brought to its cluster, the agent first."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, annotations_of, finalizers_of, is_deleting
from watchword.api.names import HUB_KUBECONFIG_SECRET, Finalizer
from watchword.api.resources import APPLIED_MANIFEST_WORKS, DEPLOYMENTS, KLUSTERLETS, NAMESPACES, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, KubeError, NotFound
from watchword.kube.kubeconfig_parser import parse_kubeconfig
from watchword.operator.applier import OWNER_ANNOTATION, OwnedObjectApplier, delete_exact, owner_annotation
from watchword.operator.klusterlet_manifests import addon_namespace, bound_agent_manifests, namespace_of
from watchword.operator.status import remove_finalizer, report_status
from watchword.runtime.ensure import with_preconditions
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
        rows = bound_agent_manifests(klusterlet)
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
        key = ObjectKey.of(record)
        try:
            kept = [name for name in finalizers_of(record) if name != Finalizer.APPLIED_WORK]
            if len(kept) != len(finalizers_of(record)):
                patch = with_preconditions(record, {"metadata": {"finalizers": kept or None}})
                await self.client.patch(APPLIED_MANIFEST_WORKS, key, patch)
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
