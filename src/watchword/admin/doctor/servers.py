"""Whether agents can trust and reach the servers that drivers bring to a hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from watchword.admin.doctor.model import CheckContext, CheckFinding, fail, passed, warn
from watchword.admin.health import InventoryHealth
from watchword.admin.hub_setup import CLUSTER_MANAGER
from watchword.admin.inventory import decide_server_rows
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import CLUSTER_MANAGERS, CONFIG_MAPS
from watchword.drivers.catalog import Catalog
from watchword.drivers.hub_server import HubServer
from watchword.drivers.options import Side
from watchword.kube.errors import NotFound
from watchword.operator.cluster_manager_manifests import enabled_servers, exposed_hosts
from watchword.pki.certificates import Certificate, split_bundle
from watchword.pki.chains import verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.subjects import AlternativeNames
from watchword.pki.usages import Usage

CONTROLLERS = f"kubectl -n {HUB_NAMESPACE} get pods   # the hub's controllers renew it: do they run?"


async def servers(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at the authority and the certificate of each server; the check of the operator looks at its Deployment."""
    try:
        manager = await context.client.find(CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER)) or {}
    except NotFound:  # the kind itself is not there
        manager = {}
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
