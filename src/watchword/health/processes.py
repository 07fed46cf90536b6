"""The processes of Watchword on a cluster: whether they run, lead and report what they should."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.api.conditions import conditions_of, find_condition, is_true
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import DEPLOYMENTS, PODS
from watchword.api.time import parse_rfc3339
from watchword.health.facts import LOCKS, ProcessFacts
from watchword.health.finding import Finding, fail, warn
from watchword.health.formatting import format_age
from watchword.kube.client import Client
from watchword.operator import conditions
from watchword.operator.bundles import DASHBOARD
from watchword.operator.cluster_manager import hub_manifests
from watchword.operator.rendering import OPERATOR
from watchword.processes.hub import HUB_LEASE
from watchword.pullsecrets.settings import validate_configuration


class DeploymentProblem(Struct, frozen=True):
    """Why it does not run, and the command that shows more."""

    reason: str
    command: str


async def find_deployment_problem(client: Client, key: ObjectKey) -> DeploymentProblem | None:
    """Return what keeps a Deployment from running; None when it runs."""
    found = await client.find(DEPLOYMENTS, key)
    if found is None:
        return DeploymentProblem(f"there is no Deployment {key}", f"kubectl -n {key.namespace} get deployments")
    pods = (await client.list(PODS, namespace=key.namespace, labels=format_selector(found))).items
    return decide_deployment_problem(found, pods)


def format_selector(deployment: Object) -> str:
    labels = ((deployment.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def decide_deployment_problem(deployment: Object, pods: Sequence[Object]) -> DeploymentProblem | None:
    """Name the pod that is in the way; None when the roll-out is done and at least one pod works."""
    key = ObjectKey.of(deployment)
    living = sorted((pod for pod in pods if not is_deleting(pod)), key=lambda pod: str(pod["metadata"]["name"]))
    problems = [(pod, why) for pod in living if (why := describe_pod_problem(pod))]
    rollout = conditions.describe_rollout(deployment)
    if not rollout and (not problems or len(problems) < len(living)):
        return None
    if problems:
        pod, why = problems[0]
        name = pod["metadata"]["name"]
        containers = (pod.get("status") or {}).get("containerStatuses") or []
        restarted = any(int(row.get("restartCount") or 0) > 0 for row in containers)
        shown = f"logs {name} --previous" if restarted else f"describe pod {name}"
        return DeploymentProblem(f"pod {key.namespace}/{name} {why}", f"kubectl -n {key.namespace} {shown}")
    said = find_condition(deployment, "ReplicaFailure") or find_condition(deployment, "Progressing")
    why = f": {said.message}" if said is not None and said.message else ""
    reason = f"Deployment {key} has no pod" if not living else f"Deployment {key}: {rollout}"
    return DeploymentProblem(f"{reason}{why}", f"kubectl -n {key.namespace} describe deployment {key.name}")


def describe_pod_problem(pod: Object) -> str:
    """Say in a few words why a pod does not work; empty when it does."""
    status = pod.get("status") or {}
    if is_true(pod, "Ready"):
        return ""
    scheduled = find_condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"is pending: {scheduled.message or scheduled.reason}"
    rows = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for row in rows:
        why = _describe_container_problem(row)
        if why:
            return why
    phase = status.get("phase") or "Pending"
    return "runs and is not ready yet" if phase == "Running" else f"is {str(phase).lower()}"


def _describe_container_problem(row: Object) -> str:
    waiting = (row.get("state") or {}).get("waiting") or {}
    ended = (row.get("state") or {}).get("terminated") or (row.get("lastState") or {}).get("terminated") or {}
    if waiting.get("reason") in PULL_FAILURES:
        message = str(waiting.get("message") or "")
        if waiting["reason"] == "ImagePullBackOff":
            message = message.partition(": ")[2]  # the first part says only that the kubelet waits
        return describe_pull_failure(str(row.get("image") or "its image"), message)
    if waiting.get("reason") not in (None, "", "ContainerCreating", "PodInitializing"):
        said = waiting.get("message") or _describe_end(ended)
        return f"waits: {waiting['reason']}{f' ({said})' if said else ''}"
    return _describe_end(ended) if ended.get("exitCode") else ""


PULL_FAILURES = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")


def describe_pull_failure(image: str, message: str) -> str:
    """Name the image, its registry, why it cannot be pulled and what to do, in place of a runtime's nested errors."""
    host, _, path = image.partition("/")
    registry = host if path and (host == "localhost" or "." in host or ":" in host) else "docker.io"
    cause = message.strip().rpartition(": ")[2][:200]
    why = f": {cause}" if cause else ""
    return f"cannot pull {image} from {registry}{why}; push the image there, or name another with --image"


def _describe_end(ended: Object) -> str:
    if not ended:
        return ""
    said = f": {ended['message'].strip()}" if ended.get("message") else ""
    return f"its container ended with exit code {ended.get('exitCode')}{said}"


EXPECTED = {
    conditions.APPLIED: "True",
    conditions.AVAILABLE: "True",
    conditions.VALID_FEATURES: "True",
    conditions.HUB_REGISTRATION_DEGRADED: "False",
    conditions.REGISTRATION_DEGRADED: "False",
    conditions.WORK_DEGRADED: "False",
    conditions.HUB_CONNECTION_DEGRADED: "False",
}
"""What an operator says when all is well."""


def decide_report_findings(kind: str, found: Object) -> list[Finding]:
    name, command = found["metadata"]["name"], f"kubectl describe {kind.lower()} {found['metadata']['name']}"
    rows = {str(row.get("type")): row for row in conditions_of(found)}
    if conditions.APPLIED not in rows:
        return [fail("OperatorSilent", f"the operator has not reconciled {kind} {name} yet", command)]
    generation = int(found["metadata"].get("generation") or 0)
    if int(rows[conditions.APPLIED].get("observedGeneration") or generation) < generation:
        return [warn("OperatorBehind", f"the operator has not reconciled the newest {kind} {name} yet", command)]
    wrong = [row for type_, row in rows.items() if type_ in EXPECTED and row.get("status") != EXPECTED[type_]]
    return [
        fail(f"{kind}{row['type']}", f"{kind} {name}: {row.get('message') or row.get('reason')}", command)
        for row in wrong
    ]


DEFAULT_LEASE = timedelta(seconds=15)
STALE_AFTER = 3  # durations of a lease without renewal: the leader is gone, and no other took its place
JOB_PATIENCE = timedelta(minutes=5)


def decide_process_findings(
    facts: ProcessFacts, wanted: Iterable[ObjectKey], reports: Iterable[tuple[str, Object]], *, now: datetime
) -> list[Finding]:
    """Judge Deployments, then leases of processes whose Deployments show nothing, then what the operator reports."""
    present = {ObjectKey.of(obj): obj for obj in facts.deployments}
    findings, affected = [], set[str]()
    for key in dict.fromkeys((*present, *wanted)):
        found = _deployment_finding(key, present.get(key), facts.pods)
        if found is not None:
            findings.append(found)
            affected.add(key.namespace)
    electing = {key.namespace for key in present if key != DASHBOARD}
    for name, key in LOCKS.items():
        expected = (key == HUB_LEASE and facts.is_hub) or key.namespace in electing
        if expected and key.namespace not in affected and f"the lease of {name}" not in facts.unseen:
            findings += _lock_findings(name, key, facts, now)
    for config in facts.configurations:
        objection, key = validate_configuration(config.get("data") or {}), ObjectKey.of(config)
        if objection:
            edit = f"kubectl edit configmap -n {key.namespace} {key.name}"
            findings.append(fail("ConfigurationRefused", f"the ConfigMap {key} is not followed: {objection}", edit))
    if OPERATOR in present and not affected:  # the reports of an operator that does not run are old
        findings += [finding for kind, found in reports for finding in decide_report_findings(kind, found)]
    return findings


def deployments_of_hub(facts: ProcessFacts) -> list[ObjectKey]:
    """Return what the operator keeps running for a ClusterManager; nothing where no operator was deployed."""
    if OPERATOR not in {ObjectKey.of(obj) for obj in facts.deployments}:
        return []
    rows = [row for manager in facts.managers for row in hub_manifests(manager)]
    return [ObjectKey.of(obj) for resource, obj in rows if resource is DEPLOYMENTS]


def _deployment_finding(key: ObjectKey, found: Object | None, pods: Sequence[Object]) -> Finding | None:
    if found is None:
        mend = "watchword init" if key.namespace == HUB_NAMESPACE else f"kubectl -n {key.namespace} get deployments"
        return fail("DeploymentMissing", f"there is no Deployment {key}", mend)
    if int((found.get("spec") or {}).get("replicas", 1)) == 0:
        mend = f"kubectl -n {key.namespace} scale deployment {key.name} --replicas=1"
        return fail("ScaledToZero", f"Deployment {key} is scaled to 0: the process does not run", mend)
    selector = ((found.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    own = [
        pod
        for pod in pods
        if pod["metadata"].get("namespace") == key.namespace and selector.items() <= labels_of(pod).items()
    ]
    problem = decide_deployment_problem(found, own)
    return None if problem is None else fail("ProcessNotRunning", problem.reason, problem.command)


def _lock_findings(name: str, key: ObjectKey, facts: ProcessFacts, now: datetime) -> list[Finding]:
    deployed = any(obj["metadata"].get("namespace") == key.namespace for obj in facts.deployments)
    command = f"kubectl -n {key.namespace} get pods" if deployed else "watchword hub"
    lease = next((obj for obj in facts.locks if ObjectKey.of(obj) == key), None)
    spec = (lease or {}).get("spec") or {}
    renewed, holder = parse_rfc3339(str(spec.get("renewTime") or "")), str(spec.get("holderIdentity") or "")
    changing = renewed is not None and now - renewed <= STALE_AFTER * DEFAULT_LEASE  # a leader that stopped released it
    if renewed is None or not (holder or changing):
        elsewhere = "" if deployed else "; one with --disable-leader-election cannot be seen from here"
        return [fail("NoLeader", f"no process of {name} holds the lease {key}: none runs{elsewhere}", command)]
    silent, duration = now - renewed, timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0))
    if silent <= STALE_AFTER * max(duration, DEFAULT_LEASE):
        return []
    sentence = f"no process of {name} runs: {holder} renewed its lease {format_age(silent)} ago"
    return [fail("LeaseStale", sentence, command)]


def decide_job_findings(jobs: Sequence[Object], *, now: datetime) -> Iterator[Finding]:
    """Name Jobs that neither end nor fail: the CronJob of the cluster cleaner starts no other beside one."""
    for job in jobs:
        status, key = job.get("status") or {}, ObjectKey.of(job)
        started = parse_rfc3339(str(status.get("startTime") or job["metadata"].get("creationTimestamp") or ""))
        ended = any(is_true(job, type_) for type_ in ("Complete", "Failed"))
        if not ended and started is not None and now - started > JOB_PATIENCE:
            sentence = f"Job {key} has run for {format_age(now - started)}, and no other starts before it ends"
            yield warn("JobStuck", sentence, f"kubectl -n {key.namespace} describe job {key.name}")
