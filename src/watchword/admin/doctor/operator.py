"""What the operator reports of what it deploys, and whether the operator itself runs."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.admin.deployment_trouble import find_deployment_trouble
from watchword.admin.doctor.model import CheckContext, CheckFinding, fail, passed, warn
from watchword.admin.hub_setup import CLUSTER_MANAGER
from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_MANAGERS, DEPLOYMENTS, KLUSTERLETS
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.operator.bundles import OPERATOR
from watchword.operator.cluster_manager_manifests import hub_manifests
from watchword.operator.conditions import (
    APPLIED,
    AVAILABLE,
    HUB_CONNECTION_DEGRADED,
    HUB_REGISTRATION_DEGRADED,
    REGISTRATION_DEGRADED,
    VALID_FEATURES,
    WORK_DEGRADED,
)
from watchword.operator.klusterlet_manifests import agent_deployment

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
    """Look at the operator, at the ClusterManager, and at the pods of the hub's controllers."""
    try:
        manager = await context.client.find(CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER))
    except NotFound:  # the kind itself is not there
        manager = None
    if manager is None or not await has_operator(context.client):
        return passed(ELSEWHERE.format(what="the hub's controllers run"))
    deployments = [ObjectKey.of(obj) for resource, obj in hub_manifests(manager) if resource is DEPLOYMENTS]
    findings = [
        *await find_pod_findings(context.client, (OPERATOR, *deployments)),
        *decide_report_findings("ClusterManager", manager),
    ]
    return findings or passed("the operator runs and reports that the hub runs as it should")


async def examine_agent_operator(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at the operator, at every Klusterlet, and at the pods of the agents."""
    if not await has_operator(context.client):
        return passed(ELSEWHERE.format(what="the agent runs"))
    findings: list[CheckFinding] = await find_pod_findings(context.client, (OPERATOR,))
    for klusterlet in (await context.client.list(KLUSTERLETS)).items:
        agent = ObjectKey.of(agent_deployment(klusterlet)[1])
        findings += await find_pod_findings(context.client, (agent,))
        findings += decide_report_findings("Klusterlet", klusterlet)
    return findings or passed("the operator runs and reports that the agent runs as it should")


async def has_operator(client: Client) -> bool:
    """Whether an operator was deployed here."""
    return await client.find(DEPLOYMENTS, OPERATOR) is not None


async def find_pod_findings(client: Client, deployments: Iterable[ObjectKey]) -> list[CheckFinding]:
    """Return a failure for each Deployment that does not run, with the pod that is in the way."""
    troubles = [await find_deployment_trouble(client, key) for key in deployments]
    return [fail(trouble.reason, trouble.command) for trouble in troubles if trouble is not None]


def decide_report_findings(kind: str, found: Object) -> list[CheckFinding]:
    """Judge what the operator says of what it was asked to deploy."""
    name, command = found["metadata"]["name"], f"kubectl describe {kind.lower()} {found['metadata']['name']}"
    rows = {str(row.get("type")): row for row in conditions_of(found)}
    if APPLIED not in rows:
        return [fail(f"the operator has not looked at {kind} {name} yet", command)]
    generation = int(found["metadata"].get("generation") or 0)
    if int(rows[APPLIED].get("observedGeneration") or generation) < generation:
        return [warn(f"the operator has not looked at the newest {kind} {name} yet", command)]
    wrong = [row for type_, row in rows.items() if type_ in EXPECTED and row.get("status") != EXPECTED[type_]]
    return [fail(f"{kind} {name}: {row.get('message') or row.get('reason')}", command) for row in wrong]
