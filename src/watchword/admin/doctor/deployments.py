"""What the operator reports of what it deploys, and whether the operator itself runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from watchword.admin.doctor.model import CheckContext, CheckFinding, fail, passed, warn
from watchword.admin.health import InventoryHealth
from watchword.admin.hub_setup import CLUSTER_MANAGER
from watchword.admin.inventory import decide_server_rows
from watchword.admin.workloads import find_deployment_trouble
from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import CLUSTER_MANAGERS, CONFIG_MAPS, DEPLOYMENTS, KLUSTERLETS
from watchword.credentials.driver_options import Side
from watchword.kube.client import Client
from watchword.operator.bundles import OPERATOR
from watchword.operator.cluster_manager_manifests import enabled_servers, exposed_hosts, hub_manifests
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
from watchword.pki.certificates import Certificate, split_bundle, verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.subjects import AlternativeNames, Usage
from watchword.registration.catalog import Catalog
from watchword.registration.driver import HubServer

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
