"""The hub's side of the aws-irsa driver: creates IAM identities of accepted clusters, and deletes them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.credentials.driver import HubContext
from watchword.credentials.errors import NotGranted
from watchword.credentials.lifecycle import RenewalWindow, choose_renewal_time
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.registration.aws_irsa import options
from watchword.registration.aws_irsa.aws_api import AwsApi, LazyAwsApi, PacedAwsApi
from watchword.registration.aws_irsa.documents import EksClusterArn
from watchword.registration.aws_irsa.errors import AwsError, IdentityMissing, InvalidName, RoleTaken, StillAccepted
from watchword.registration.aws_irsa.iam import RoleWriter
from watchword.registration.aws_irsa.identity import (
    ClusterIdentity,
    IdentityPhase,
    IdentityRecord,
    IdentityRecords,
    cluster_of_record,
    records_of,
)
from watchword.registration.aws_irsa.identity_reports import (
    IdentityEventReconciler,
    report_changed_claim,
    report_failure,
    report_ready,
)
from watchword.registration.aws_irsa.role_mapping import AccessEntries, AwsAuthConfigMap, RoleMappings
from watchword.registration.driver import AcceptanceContext
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, RetryAfter, Trigger
from watchword.runtime.status import StatusChange, StatusWriter

DRIFT_PERIOD = timedelta(minutes=30)
DRIFT_WINDOW = RenewalWindow(0.5, 1.0)
RETRY = Backoff(first=5.0, limit=120.0)


class AwsIdentities(Struct):
    """The identities of one hub's clusters: roles in IAM, and their mappings."""

    roles: RoleWriter
    mappings: RoleMappings
    mode: options.IdentityMode

    async def create(self, record: IdentityRecord) -> str:
        """Make or verify role and mapping; return how the role is mapped."""
        if self.mode is options.IdentityMode.EXTERNAL:
            await self.verify(record)
            return record.mapped_by
        await self.roles.create(record.identity.role)
        return await self.mappings.create(record.identity)

    async def repair(self, record: IdentityRecord) -> list[str]:
        """Return what differed and is right again; `IdentityMissing` where this hub only verifies."""
        if self.mode is options.IdentityMode.EXTERNAL:
            await self.verify(record)
            return []
        changes = [str(change) for change in await self.roles.apply(record.identity.role)]
        mapping = await self.mappings.current()
        return [*changes, "mapping restored"] if await mapping.repair(record.identity) else changes

    async def verify(self, record: IdentityRecord) -> None:
        """Raise `IdentityMissing` unless role and mapping are as the cluster needs them."""
        identity = record.identity
        differences = [f"not yet: {change}" for change in await self.roles.find_differences(identity.role)]
        mapping = await self.mappings.current()
        if not await mapping.is_correct(identity):
            differences.append(f"the role is not mapped to user {identity.user} and the cluster's group")
        if differences:
            raise IdentityMissing(
                f"role {identity.role.arn} is not as cluster {identity.cluster} needs it ({', '.join(differences)}): "
                "correct it where it is made; this hub only verifies it"
            )

    async def delete(self, record: IdentityRecord) -> None:
        """Delete the mapping, then the role; what was made outside stays."""
        if self.mode is not options.IdentityMode.EXTERNAL:
            await self.mappings.delete(record.identity, record.mapped_by)
            await self.roles.delete(record.identity.role)


class IdentityReconciler(Struct):
    """Reconciles ManagedCluster; triggered by it and by the records of roles."""

    context: HubContext
    identities: AwsIdentities
    random: Random
    _due: dict[str, datetime] = field(default_factory=dict)  # role → when AWS is asked next
    _failures: dict[str, int] = field(default_factory=dict)

    @property
    def _records(self) -> IdentityRecords:
        return IdentityRecords(self.context.client)

    @property
    def _status(self) -> StatusWriter:
        return StatusWriter(self.context.client, self.context.clock, self.context.cache)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.context.cache.get(MANAGED_CLUSTERS, key)
        records = records_of(self.context.cache, key.name)
        if not records and found is not None:
            await self._status.write(MANAGED_CLUSTERS, found, StatusChange(without=(options.READY,)))
        delays = [await self._reconcile_record(found, record) for record in records]
        due = [delay for delay in delays if delay is not None]
        return RetryAfter(min(due)) if due else Done()

    async def _reconcile_record(self, found: Object | None, record: IdentityRecord) -> timedelta | None:
        cluster = None if found is None else Cluster.read(found)
        is_own = cluster is not None and cluster.uid == record.identity.uid
        revoked = record.phase is IdentityPhase.REVOKING or not is_own
        if not revoked and cluster is not None and (cluster.deleting or not cluster.accepted):
            return None  # its rights on the hub go first; then its record says so
        if record.phase is IdentityPhase.CREATING and self.identities.mode is options.IdentityMode.ACCEPT:
            return None  # `watchword accept` is at it
        waiting = self._time_left(record, revoked=revoked)
        if waiting > timedelta(0):
            if found is not None and record.key.name not in self._failures:
                await self._report_ready(found, record)
            return waiting
        try:
            await self._act(found if is_own else None, record, revoked=revoked)
        except AwsError as error:
            return await self._report_failure(found, record, error)
        self._failures.pop(record.key.name, None)
        return self._time_left(record, revoked=False) if not revoked else None

    async def _act(self, found: Object | None, record: IdentityRecord, *, revoked: bool) -> None:
        if revoked:
            await self._revoke(found, record)
            return
        if record.phase is IdentityPhase.CREATING:
            mapped_by = await self.identities.create(record)
            await self._records.set_phase(record, IdentityPhase.READY, mapped_by)
            changes: Sequence[str] = ()
        else:
            is_made_by_people = self.identities.mode is options.IdentityMode.ACCEPT
            changes = () if is_made_by_people else await self.identities.repair(record)
        now = self.context.clock.now()
        due = choose_renewal_time(now, now + DRIFT_PERIOD, seed=record.identity.uid, window=DRIFT_WINDOW)
        self._due[record.key.name] = due
        if found is None:
            return
        if changes:
            note = f"role {record.identity.role.name} differed from what the cluster needs: {', '.join(changes)}"
            self.context.events.warning(found, "AwsIdentityRepaired", note)
        await self._report_ready(found, record)

    async def _revoke(self, found: Object | None, record: IdentityRecord) -> None:
        if self.identities.mode is options.IdentityMode.ACCEPT:
            raise IdentityMissing(
                f"role {record.identity.role.arn} has to be deleted with your AWS credentials: "
                f"run `watchword aws revoke {record.identity.cluster}`"
            )
        await self.identities.delete(record)
        await self._records.delete(record)
        self._due.pop(record.key.name, None)
        if found is not None:
            await self._status.write(MANAGED_CLUSTERS, found, StatusChange(without=(options.READY,)))

    async def _report_ready(self, found: Object, record: IdentityRecord) -> None:
        cluster, identity = Cluster.read(found), record.identity
        objection = find_changed_claim(cluster, record)
        advice = options.find_other_hub(cluster.annotations, identity.hub, identity.managed)
        ready = report_changed_claim(identity, objection) if objection else report_ready(identity, advice)
        said = find_condition(found, options.READY)
        if objection and (said is None or said.reason != ready.reason):
            self.context.events.refusal(found, "IdentityChangeRefused", objection)
        await self._status.set_condition(MANAGED_CLUSTERS, found, ready)

    async def _report_failure(self, found: Object | None, record: IdentityRecord, error: AwsError) -> timedelta:
        name = record.key.name
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        delay = timedelta(seconds=RETRY.delay(failures, self.random))
        self._due[name] = self.context.clock.now() + delay
        if found is not None:
            await self._status.set_condition(MANAGED_CLUSTERS, found, report_failure(error))
        return delay

    def _time_left(self, record: IdentityRecord, *, revoked: bool) -> timedelta:
        """Return how long AWS is not to be asked about a role: changes of the ManagedCluster are no reason to."""
        name, now = record.key.name, self.context.clock.now()
        if name not in self._failures and (revoked or record.phase is IdentityPhase.CREATING):
            return timedelta(0)
        if name not in self._due:  # after a restart: the checks of a fleet are spread over the whole period
            spread = RenewalWindow(0.0, 1.0)
            self._due[name] = choose_renewal_time(now, now + DRIFT_PERIOD, seed=record.identity.uid, window=spread)
        return self._due[name] - now


def find_changed_claim(cluster: Cluster, record: IdentityRecord) -> str:
    """Return what annotations say now, when that is not what was accepted; empty when it is the same."""
    identity = record.identity
    try:
        if options.read_claimed_arn(cluster.annotations, identity.hub) == identity.managed:
            return ""
    except InvalidName:
        pass
    return (
        "its annotations do not name this EKS cluster any more, which has no effect: "
        f"cluster {cluster.name} was accepted as {identity.managed}; "
        "to change that, `watchword deny` and `watchword accept` it again"
    )


WORKERS = 16
DEADLINE = timedelta(minutes=10)  # an identity may wait for its turn among hundreds


class AwsIrsaHubDriver(Struct, frozen=True):
    """Records the identity of an accepted cluster; its reconciler makes the identity in AWS."""

    context: HubContext
    hub: EksClusterArn
    reconciler: IdentityReconciler

    async def grant(self, cluster: Cluster) -> None:
        """Record what the cluster claims at its acceptance; `NotGranted` until its identity is ready."""
        known = records_of(self.context.cache, cluster.name)
        earlier = [record for record in known if record.identity.uid != cluster.uid]
        if earlier:
            raise NotGranted(
                "EarlierIdentityGoing",
                f"role {earlier[0].identity.role.name} of an earlier cluster {cluster.name} is being deleted",
            )
        record = known[0] if known else await self._record(cluster)
        if record.phase is IdentityPhase.REVOKING:
            raise NotGranted("EarlierIdentityGoing", f"role {record.identity.role.name} is being deleted")
        if record.phase is IdentityPhase.CREATING:
            raise NotGranted("AwsIdentityPending", f"role {record.identity.role.name} is being created")

    async def _record(self, cluster: Cluster) -> IdentityRecord:
        try:
            managed = options.read_claimed_arn(cluster.annotations, self.hub)
            identity = ClusterIdentity(cluster.name, cluster.uid, self.hub, managed)
        except InvalidName as objection:
            raise NotGranted("InvalidManagedClusterArn", str(objection)) from objection
        if self.reconciler.identities.mode is options.IdentityMode.ACCEPT:
            raise NotGranted(
                "AwsIdentityMissing",
                f"role {identity.role.name} has to be created with your AWS credentials: "
                f"run `watchword accept {cluster.name}`",
            )
        try:
            return await IdentityRecords(self.context.client).create(identity)
        except RoleTaken as objection:
            raise NotGranted("RoleTaken", str(objection)) from objection

    async def revoke(self, cluster: Cluster) -> None:
        for record in records_of(self.context.cache, cluster.name):
            if record.phase is not IdentityPhase.REVOKING:
                await IdentityRecords(self.context.client).set_phase(record, IdentityPhase.REVOKING)

    @property
    def removal_trigger(self) -> Trigger:
        """The records of identities: each goes when AWS has confirmed the deletion."""
        return Trigger(LEASES, cluster_of_record)

    def remaining(self, cluster: Cluster) -> list[str]:
        """Return the roles that AWS has not confirmed as deleted."""
        return [f"IAM role {record.identity.role.arn}" for record in records_of(self.context.cache, cluster.name)]

    def is_auto_accepted(self, cluster: Cluster) -> bool:
        """Whether a pattern matches the whole ARN that the cluster claims; its role must prove the claim."""
        try:
            claimed = options.read_claimed_arn(cluster.annotations, self.hub)
        except InvalidName:
            return False
        if options.find_other_hub(cluster.annotations, self.hub, claimed):
            return False
        return self.context.auto_approval and options.is_allowed_arn(claimed, self.context.settings)

    def controllers(self) -> Iterable[ControllerSpec]:
        triggers = (self.removal_trigger,)
        yield ControllerSpec(
            "aws-identity", MANAGED_CLUSTERS, self.reconciler, triggers, workers=WORKERS, deadline=DEADLINE
        )
        telling = IdentityEventReconciler(self.context)
        yield ControllerSpec("aws-identity-events", LEASES, telling, workers=1)


def make_hub_driver(context: HubContext, *, api: AwsApi | None = None) -> AwsIrsaHubDriver:
    """Return the driver, ready to use; AWS is asked through boto3 unless another port is given."""
    hub, mode = options.hub_arn(context.settings), options.identity_mode(context.settings)
    random = Random(str(hub))  # noqa: S311 - spreads requests, guards nothing
    # What is made outside has tags of its own.
    tags = {} if mode is options.IdentityMode.EXTERNAL else options.role_tags(context.settings)
    paced = PacedAwsApi(api or LazyAwsApi(hub.region), random)
    identities = make_identities(context.client, hub, mode, paced, tags)
    return AwsIrsaHubDriver(context, hub, IdentityReconciler(context, identities, random))


def make_identities(
    client: Client, hub: EksClusterArn, mode: options.IdentityMode, api: AwsApi, tags: Mapping[str, str]
) -> AwsIdentities:
    """Return what makes and deletes the identities of a hub's clusters; roles get these tags, too."""
    random = Random(str(hub))  # noqa: S311 - spreads requests, guards nothing
    mappings = RoleMappings(AccessEntries(api, hub, random), AwsAuthConfigMap(client, random))
    return AwsIdentities(RoleWriter(api, random, tags), mappings, mode)


async def prepare_acceptance(context: AcceptanceContext, *, api: AwsApi | None = None) -> None:
    """Make the identity of a cluster before it is accepted, on a hub that leaves this to people.

    Raises `AwsError`; then the cluster is not accepted. Made again after a failure, it goes on where it stopped.
    """
    if options.identity_mode(context.settings) is not options.IdentityMode.ACCEPT or context.dry_run:
        return
    hub, cluster = options.hub_arn(context.settings), Cluster.read(context.cluster)
    identity = ClusterIdentity(cluster.name, cluster.uid, hub, options.read_claimed_arn(cluster.annotations, hub))
    records = IdentityRecords(context.client)
    record = await records.create(identity)
    if record.phase is IdentityPhase.REVOKING:
        raise RoleTaken(
            f"role {record.identity.role.name} of an earlier acceptance is not deleted yet: "
            f"run `watchword aws revoke {record.identity.cluster}`, then accept the cluster"
        )
    connection, tags = api or LazyAwsApi(hub.region), options.role_tags(context.settings)
    identities = make_identities(context.client, hub, options.IdentityMode.ACCEPT, connection, tags)
    if record.phase is IdentityPhase.READY:
        await identities.repair(record)
    else:
        await records.set_phase(record, IdentityPhase.READY, await identities.create(record))


async def revoke_identities(client: Client, cluster: str, *, api: AwsApi | None = None) -> list[str]:
    """Delete the mappings and roles of a cluster that has no rights any more; return the ARNs of the roles.

    Raises `StillAccepted` before the hub has taken the rights, and `AwsError`.
    """
    records = IdentityRecords(client)
    found = await client.find(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
    known = await records.list(cluster)
    for record in known:
        validate_revoked(record, found)
    for record in known:
        hub = record.identity.hub
        identities = make_identities(client, hub, options.IdentityMode.ACCEPT, api or LazyAwsApi(hub.region), {})
        await identities.delete(record)
        await records.delete(record)
    return [record.identity.role.arn for record in known]


def validate_revoked(record: IdentityRecord, cluster: Object | None) -> None:
    """Raise `StillAccepted` while the cluster of a record may have rights on the hub."""
    name = record.identity.cluster
    is_own = cluster is not None and Cluster.read(cluster).uid == record.identity.uid
    if is_own and record.phase is not IdentityPhase.REVOKING:
        raise StillAccepted(
            f"cluster {name} has rights on the hub: take them first with `watchword deny {name} --wait`"
        )
