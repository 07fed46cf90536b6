"""The few things that people do to clusters and requests on a hub, with the rights of the person."""

from __future__ import annotations

from dataclasses import dataclass

from watchword.admin.errors import NotReady, OperationRefused
from watchword.api.meta import Object, ObjectKey, is_deleting, uid_of
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.certificates.approval import with_decision
from watchword.certificates.name_ownership import NameOwner, name_owner_patch
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions

HUB_RUNNING_HINT = "is `watchword hub` running for this hub?"


@dataclass(frozen=True, slots=True)
class AdmissionResult:
    """What was done about one cluster, or about a single request."""

    cluster: str = ""
    requests: tuple[str, ...] = ()  # approved or denied now
    key: str = ""  # the thumbprint of the key that was approved
    changed: bool = False  # whether the ManagedCluster says something else than before
    owner: NameOwner | None = None  # to whom the name was given with it


@dataclass(frozen=True, slots=True)
class HubAdmin:
    """Reads and writes on a hub; a rehearsal asks the server and changes nothing."""

    client: Client
    clock: Clock
    dry_run: bool = False

    async def cluster(self, name: str) -> Object:
        """Return a ManagedCluster; raise `NotReady` when there is none yet, `OperationRefused` while it is deleted."""
        found = await self.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        if found is None:
            raise NotReady(f"no cluster {name} has asked to join: check the name, or wait for it with --wait")
        if is_deleting(found):
            raise OperationRefused(f"cluster {name} is being deleted: wait until it is gone")
        return found

    async def csrs_of(self, cluster: str) -> list[Object]:
        """Return every request that carries the cluster's label, whatever else it says."""
        found = await self.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={cluster}")
        return found.items

    async def set_accepted(self, cluster: Object, *, accepted: bool, owner: NameOwner | None = None) -> bool:
        """Say whether the hub accepts a cluster, and under which key; return whether that was news.

        Only what was looked at is let in, so acceptance holds for this very revision; denial holds for any.
        """
        if ((cluster.get("spec") or {}).get("hubAcceptsClient") is True) is accepted:
            return False
        patch: Object = {"spec": {"hubAcceptsClient": accepted}, "metadata": {"uid": uid_of(cluster)}}
        if accepted:
            note = name_owner_patch(cluster, owner) if owner is not None else {}
            patch = with_preconditions(cluster, {**patch, **note})
        await self.client.patch(MANAGED_CLUSTERS, ObjectKey.of(cluster), patch, dry_run=self.dry_run)
        return True

    async def record_decision(self, csr: Object, verdict: str, message: str) -> None:
        """Write `Approved` or `Denied` onto a request, exactly as it was read."""
        decided = with_decision(csr, verdict, f"{verdict}ByAdministrator", message, now=self.clock.now())
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, decided, subresource="approval", dry_run=self.dry_run)
