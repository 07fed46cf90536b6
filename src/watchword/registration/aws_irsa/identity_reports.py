"""Reports the IAM identity of a cluster: a condition with one reason for each failure, and Events."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field

from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.api.time import parse_rfc3339
from watchword.credentials.driver import HubContext
from watchword.registration.aws_irsa import errors
from watchword.registration.aws_irsa.aws_api import THROTTLING
from watchword.registration.aws_irsa.iam import EXISTS
from watchword.registration.aws_irsa.identity import ClusterIdentity, IdentityPhase, IdentityRecord, read_record
from watchword.registration.aws_irsa.options import READY
from watchword.registration.aws_irsa.role_mapping import UNKNOWN_PRINCIPAL
from watchword.runtime.event_recorder import is_news
from watchword.runtime.reconcile import Done, Outcome

Test: TypeAlias = Callable[[errors.AwsError], bool]


def report_ready(identity: ClusterIdentity, advice: str = "") -> Condition:
    message = f"EKS cluster {identity.managed} uses role {identity.role.arn}"
    if advice:
        return Condition.true(READY, "OtherHubNamed", f"{message}; {advice}")
    return Condition.true(READY, "AwsIdentityReady", message)


def report_changed_claim(identity: ClusterIdentity, objection: str) -> Condition:
    return Condition.true(
        READY, "IdentityChangeRefused", f"EKS cluster {identity.managed} uses role {identity.role.arn}; {objection}"
    )


def report_failure(error: errors.AwsError) -> Condition:
    """Return the condition of a cluster whose identity could not be made, verified or deleted."""
    reason = next(reason for applies, reason in REASONS if applies(error))
    return Condition.false(READY, reason, str(error))


def _is_a(kind: type[errors.AwsError]) -> Test:
    return lambda error: isinstance(error, kind)


def _has_code(codes: frozenset[str]) -> Test:
    return lambda error: isinstance(error, errors.AwsRefused) and error.code in codes


def _is_unsettled(error: errors.AwsError) -> bool:
    """Whether IAM has not settled: a role is unknown to another request, or exists and is not shown."""
    return isinstance(error, errors.AwsRefused) and (
        error.is_absence or error.code in UNKNOWN_PRINCIPAL or error.code == EXISTS
    )


INVALID_POLICY = frozenset({"MalformedPolicyDocument"})  # a trust policy names a role that does not exist
REASONS: tuple[tuple[Test, str], ...] = (
    (_has_code(THROTTLING), "AwsThrottled"),
    (_has_code(INVALID_POLICY), "AgentRoleMissing"),
    (_is_unsettled, "WaitingForIam"),
    (_is_a(errors.AwsAuthUnreadable), "AwsAuthUnreadable"),
    (_is_a(errors.AwsUnreachable), "AwsUnreachable"),
    (_is_a(errors.ForeignRole), "ForeignRole"),
    (_is_a(errors.IdentityMissing), "IdentityMissing"),
    (_is_a(errors.LibraryMissing), "AwsLibraryMissing"),
    (_is_a(errors.WrongAccount), "WrongAwsAccount"),
    (_is_a(errors.AwsError), "AwsRefused"),
)


class IdentityEventReconciler(Struct, frozen=True):
    """Reconciles the records of roles. After a restart, roles of the last hour are told again."""

    context: HubContext
    seen: dict[ObjectKey, IdentityRecord] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        lease, before = self.context.cache.get(LEASES, key), self.seen.pop(key, None)
        now = None if lease is None else read_record(lease)
        if now is not None:
            self.seen[key] = now
        if before is not None and (now is None or now.identity != before.identity):
            note = f"role {before.identity.role.name} of cluster {before.identity.cluster} is deleted"
            self.context.events.normal(self._cluster(before), "AwsIdentityRevoked", note)
            before = None
        if lease is None or now is None or now.phase is not IdentityPhase.READY:
            return Done()
        created = parse_rfc3339(str(lease["metadata"].get("creationTimestamp") or ""))
        is_recent = is_news(created, now=self.context.clock.now())
        if is_recent if before is None else before.phase is IdentityPhase.CREATING:
            note = f"role {now.identity.role.name} of cluster {now.identity.cluster} is made and mapped"
            self.context.events.normal(self._cluster(now), "AwsIdentityCreated", note)
        return Done()

    def _cluster(self, record: IdentityRecord) -> Object:
        key = ObjectKey.cluster(record.identity.cluster)
        found = self.context.cache.get(MANAGED_CLUSTERS, key)
        if found is not None and uid_of(found) == record.identity.uid:
            return found
        return MANAGED_CLUSTERS.manifest(key, metadata={"uid": record.identity.uid})
