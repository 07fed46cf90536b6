"""What the operator reports of what it deploys, and whether the operator itself runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from watchword.api.conditions import conditions_of, find_condition, is_true
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import CLUSTER_MANAGERS, CONFIG_MAPS, DEPLOYMENTS, KLUSTERLETS, PODS
from watchword.credentials.driver_options import Side
from watchword.health.checks import CheckContext, CheckFinding, fail, passed, warn
from watchword.health.inventory import decide_server_rows
from watchword.health.states import InventoryHealth
from watchword.kube.client import Client
from watchword.operator.cluster_manager_manifests import CLUSTER_MANAGER, enabled_servers, exposed_hosts, hub_manifests
from watchword.operator.conditions import (
    APPLIED,
    AVAILABLE,
    HUB_CONNECTION_DEGRADED,
    HUB_REGISTRATION_DEGRADED,
    REGISTRATION_DEGRADED,
    VALID_FEATURES,
    WORK_DEGRADED,
    describe_rollout,
)
from watchword.operator.klusterlet_manifests import agent_deployment
from watchword.operator.rendering import OPERATOR
from watchword.pki.certificates import Certificate, split_bundle, verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.subjects import AlternativeNames, Usage
from watchword.registration.catalog import Catalog
from watchword.registration.driver import HubServer


class DeploymentTrouble(Struct, frozen=True):
    """Why it does not run, and the command that shows more."""

    reason: str
    command: str


async def find_deployment_trouble(client: Client, key: ObjectKey) -> DeploymentTrouble | None:
    """Return what keeps a Deployment from running; None when it runs."""
    found = await client.find(DEPLOYMENTS, key)
    if found is None:
        return DeploymentTrouble(f"there is no Deployment {key}", f"kubectl -n {key.namespace} get deployments")
    pods = (await client.list(PODS, namespace=key.namespace, labels=format_selector(found))).items
    return decide_deployment_trouble(found, pods)


def format_selector(deployment: Object) -> str:
    labels = ((deployment.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def decide_deployment_trouble(deployment: Object, pods: Sequence[Object]) -> DeploymentTrouble | None:
    """Name the pod that is in the way; None when the roll-out is done and at least one pod works."""
    key = ObjectKey.of(deployment)
    living = sorted((pod for pod in pods if not is_deleting(pod)), key=lambda pod: str(pod["metadata"]["name"]))
    troubles = [(pod, why) for pod in living if (why := describe_pod_trouble(pod))]
    rollout = describe_rollout(deployment)
    if not rollout and (not troubles or len(troubles) < len(living)):
        return None
    if troubles:
        pod, why = troubles[0]
        name = pod["metadata"]["name"]
        shown = f"logs {name} --previous" if _has_restarted(pod) else f"describe pod {name}"
        return DeploymentTrouble(f"pod {key.namespace}/{name} {why}", f"kubectl -n {key.namespace} {shown}")
    said = find_condition(deployment, "ReplicaFailure") or find_condition(deployment, "Progressing")
    why = f": {said.message}" if said is not None and said.message else ""
    reason = f"Deployment {key} has no pod" if not living else f"Deployment {key}: {rollout}"
    return DeploymentTrouble(f"{reason}{why}", f"kubectl -n {key.namespace} describe deployment {key.name}")


def describe_pod_trouble(pod: Object) -> str:
    """Say in a few words why a pod does not work; empty when it does."""
    status = pod.get("status") or {}
    if is_true(pod, "Ready"):
        return ""
    scheduled = find_condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"is pending: {scheduled.message or scheduled.reason}"
    rows = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for row in rows:
        why = _describe_container_trouble(row)
        if why:
            return why
    phase = status.get("phase") or "Pending"
    return "runs and is not ready yet" if phase == "Running" else f"is {str(phase).lower()}"


def _describe_container_trouble(row: Object) -> str:
    waiting = (row.get("state") or {}).get("waiting") or {}
    ended = (row.get("state") or {}).get("terminated") or (row.get("lastState") or {}).get("terminated") or {}
    if waiting.get("reason") in PULL_FAILURES:
        return describe_pull_failure(str(row.get("image") or "its image"), str(waiting.get("message") or ""))
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
    why = f": {cause}" if cause and "Back-off" not in cause else ""
    return f"cannot pull {image} from {registry}{why}; push the image there, or name another with --image"


def _describe_end(ended: Object) -> str:
    if not ended:
        return ""
    said = f": {ended['message'].strip()}" if ended.get("message") else ""
    return f"its container ended with exit code {ended.get('exitCode')}{said}"


def _has_restarted(pod: Object) -> bool:
    rows = (pod.get("status") or {}).get("containerStatuses") or []
    return any(int(row.get("restartCount") or 0) > 0 for row in rows)


EXPECTED = {
    APPLIED: "True",
    AVAILABLE: "True",
    VALID_FEATURES: "True",
    HUB_REGISTRATION_DEGRADED: "False",
    REGISTRATION_DEGRADED: "False",
    WORK_DEGRADED: "False",
    HUB_CONNECTION_DEGRADED: "False",
}
"""What an operator says when all is well."""

ELSEWHERE = "no operator runs here: {what} elsewhere"


async def examine_hub_operator(context: CheckContext) -> Iterable[CheckFinding]:
    manager = await context.client.find(CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER))
    if manager is None or not await has_operator(context.client):
        return passed(ELSEWHERE.format(what="the hub's controllers run"))
    deployments = [ObjectKey.of(obj) for resource, obj in hub_manifests(manager) if resource is DEPLOYMENTS]
    findings = [
        *await find_pod_findings(context.client, (OPERATOR, *deployments)),
        *decide_report_findings("ClusterManager", manager),
    ]
    return findings or passed("the operator runs and reports that the hub runs as it should")


async def examine_agent_operator(context: CheckContext) -> Iterable[CheckFinding]:
    if not await has_operator(context.client):
        return passed(ELSEWHERE.format(what="the agent runs"))
    findings: list[CheckFinding] = await find_pod_findings(context.client, (OPERATOR,))
    for klusterlet in (await context.client.list(KLUSTERLETS)).items:
        agent = ObjectKey.of(agent_deployment(klusterlet)[1])
        findings += await find_pod_findings(context.client, (agent,))
        findings += decide_report_findings("Klusterlet", klusterlet)
    return findings or passed("the operator runs and reports that the agent runs as it should")


async def has_operator(client: Client) -> bool:
    return await client.find(DEPLOYMENTS, OPERATOR) is not None


async def find_pod_findings(client: Client, deployments: Iterable[ObjectKey]) -> list[CheckFinding]:
    troubles = [await find_deployment_trouble(client, key) for key in deployments]
    return [fail(trouble.reason, trouble.command) for trouble in troubles if trouble is not None]


def decide_report_findings(kind: str, found: Object) -> list[CheckFinding]:
    name, command = found["metadata"]["name"], f"kubectl describe {kind.lower()} {found['metadata']['name']}"
    rows = {str(row.get("type")): row for row in conditions_of(found)}
    if APPLIED not in rows:
        return [fail(f"the operator has not looked at {kind} {name} yet", command)]
    generation = int(found["metadata"].get("generation") or 0)
    if int(rows[APPLIED].get("observedGeneration") or generation) < generation:
        return [warn(f"the operator has not looked at the newest {kind} {name} yet", command)]
    wrong = [row for type_, row in rows.items() if type_ in EXPECTED and row.get("status") != EXPECTED[type_]]
    return [fail(f"{kind} {name}: {row.get('message') or row.get('reason')}", command) for row in wrong]


CONTROLLERS = f"kubectl -n {HUB_NAMESPACE} get pods   # the hub's controllers renew it: do they run?"


async def servers(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at the authority and the certificate of each server; the check of the operator looks at its Deployment."""
    manager = await context.client.find(CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER)) or {}
    enabled = [server for server in enabled_servers(manager, context.catalog) if server.published is not None]
    findings: list[CheckFinding] = []
    for server in enabled:
        published = None if server.published is None else await context.client.find(CONFIG_MAPS, server.published)
        hosts = exposed_hosts(manager, server.exposure)
        findings += decide_host_findings(server, hosts, context.catalog)
        findings += decide_server_findings(server, published, hosts, now=context.clock.now())
        findings += _expiring(published, context)
    names = ", ".join(server.name for server in enabled)
    return findings or passed(f"agents can trust {names}" if names else "no driver of this hub needs a server")


def decide_host_findings(server: HubServer, hosts: Sequence[str], catalog: Catalog) -> list[CheckFinding]:
    """Return a warning where only the inside of the hub's cluster knows an address of a server."""
    flags = [
        option.flag for option in catalog.options(Side.HUB) if option.exposure and option.exposure == server.exposure
    ]
    if hosts or not flags:
        return []
    reason = f"no host is published by which agents outside this cluster reach {server.name}"
    return [warn(reason, f"watchword init {flags[0]} HOST")]


def decide_server_findings(
    server: HubServer, published: Object | None, hosts: Sequence[str], *, now: datetime
) -> list[CheckFinding]:
    """Return why agents would refuse a server; nothing when its certificate is good for every host."""
    data: Mapping[str, str] = (published or {}).get("data") or {}
    authorities = [each for kind in server.certificates if kind.is_authority for each in _read(data.get(kind.field))]
    serving = [each for kind in server.certificates if not kind.is_authority for each in _read(data.get(kind.field))]
    if not authorities or not serving:
        what = "certificate" if authorities else "authority"
        return [fail(f"ConfigMap {server.published} contains no {what} of {server.name}", CONTROLLERS)]
    leaf, findings = serving[0], []
    try:
        verify_chain(leaf, authorities, now=now, usage=Usage.SERVER_AUTH)
    except PkiError as refusal:
        findings.append(fail(f"agents do not trust the certificate of {server.name}: {refusal}", CONTROLLERS))
    wanted = AlternativeNames.for_hosts(hosts)
    missing = [*(set(wanted.dns) - set(leaf.names.dns)), *(set(wanted.ips) - set(leaf.names.ips))]
    if missing:
        reason = f"the certificate of {server.name} is not valid for {', '.join(sorted(missing))}"
        findings.append(fail(reason, CONTROLLERS))
    return findings


def _read(pem: str | None) -> tuple[Certificate, ...]:
    try:
        return split_bundle(pem.encode()) if pem else ()
    except PkiError:
        return ()


def _expiring(published: Object | None, context: CheckContext) -> list[CheckFinding]:
    """Return a failure for each certificate that the hub's controllers should have renewed, and have not."""
    found = [] if published is None else [published]
    rows = decide_server_rows(found, now=context.clock.now(), catalog=context.catalog)
    late = [row for row in rows if row.health in (InventoryHealth.EXPIRED, InventoryHealth.OVERDUE)]
    return [fail(f"{row.kind}: {row.note or 'expired'}", CONTROLLERS) for row in late]
