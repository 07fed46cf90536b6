"""Reads and changes clusters and requests on a hub, with the user's rights."""

from msgspec import Struct

from watchword.admin.errors import NotFoundOnHub, OperationRefused
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, uid_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.credentials.certificates.name_ownership import NameOwner, name_owner_patch
from watchword.credentials.certificates.requests import with_decision
from watchword.health.hub_reader import require_hub
from watchword.health.states import is_accepted
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions

MEMBER_HINT = "run `watchword doctor` with its kubeconfig, which tells whether its agent reaches this hub"
HUB_RUNNING_HINT = "is `watchword hub` running for this hub?"


DEPARTURE_ANNOTATIONS = (Annotation.DENIED_ON, Annotation.LEFT_ON)


class AdmissionResult(Struct, frozen=True):
    """What was done about one cluster, or about a single request."""

    cluster: str = ""
    requests: tuple[str, ...] = ()  # approved or denied now
    key: str = ""  # the thumbprint of the key that was approved
    changed: bool = False  # whether the ManagedCluster was changed
    owner: NameOwner | None = None  # the owner that got the name


class HubAdmin(Struct, frozen=True):
    """Reads and writes on a hub; a dry run sends requests and changes nothing."""

    client: Client
    clock: Clock
    dry_run: bool = False

    async def cluster(self, name: str) -> Object:
        """Return a ManagedCluster; `NotFoundOnHub` when there is none yet, `OperationRefused` while it is deleted."""
        found = await self.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        if found is None:
            await require_hub(self.client)
            raise NotFoundOnHub(f"no cluster {name} has asked to join: check the name, or {MEMBER_HINT}")
        if is_deleting(found):
            raise OperationRefused(f"cluster {name} is being deleted: wait until it is gone")
        return found

    async def csrs_of(self, cluster: str) -> list[Object]:
        found = await self.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={cluster}")
        return found.items

    async def accept(self, cluster: Object, owner: NameOwner | None = None, driver: str = "") -> bool:
        """Accept a cluster under the key of its owner, for one driver alone; return whether that was news.

        Acceptance holds for the revision that was looked at, and ends an earlier denial.
        """
        if is_accepted(cluster):
            return False
        metadata = name_owner_patch(cluster, owner)["metadata"] if owner is not None else {}
        annotations = {**metadata.get("annotations", {}), **dict.fromkeys(DEPARTURE_ANNOTATIONS)}
        annotations |= {Annotation.ACCEPTED_DRIVER: driver} if driver else {}
        patch = {"spec": {"hubAcceptsClient": True}, "metadata": {**metadata, "annotations": annotations}}
        await self._patch(cluster, with_preconditions(cluster, patch))
        return True

    async def deny(self, cluster: Object) -> bool:
        """Deny a cluster in whatever state it is, for good; return whether that was news."""
        if not is_accepted(cluster) and Annotation.DENIED_ON in annotations_of(cluster):
            return False
        annotations = {Annotation.DENIED_ON: rfc3339(self.clock.now())}
        metadata = {"uid": uid_of(cluster), "annotations": annotations}
        await self._patch(cluster, {"spec": {"hubAcceptsClient": False}, "metadata": metadata})
        return True

    async def _patch(self, cluster: Object, patch: Object) -> None:
        await self.client.patch(MANAGED_CLUSTERS, ObjectKey.of(cluster), patch, dry_run=self.dry_run)

    async def record_decision(self, csr: Object, verdict: str, message: str) -> None:
        """Write `Approved` or `Denied` onto a request, exactly as it was read."""
        decided = with_decision(csr, verdict, f"{verdict}ByAdministrator", message, now=self.clock.now())
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, decided, subresource="approval", dry_run=self.dry_run)
