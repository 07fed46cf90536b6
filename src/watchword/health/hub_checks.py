"""What a hub needs so that clusters can find it, join it and keep their credentials."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from msgspec import Struct

from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED, CLUSTER_INFO
from watchword.api.credential_report import CredentialUse
from watchword.api.meta import ObjectKey, annotations_of, labels_of
from watchword.api.names import HUB_NAMESPACE, KUBE_CLIENT_SIGNER, Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGERS,
    CONFIG_MAPS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.time import parse_rfc3339
from watchword.discovery.errors import DiscoveryError
from watchword.discovery.published_cluster_info import fetch_cluster_info
from watchword.discovery.token_secret import TokenStore, TokenUsage
from watchword.health.checks import Check, CheckContext, CheckFinding, fail, passed, warn
from watchword.health.deployments import examine_hub_operator, has_operator, servers
from watchword.health.formatting import format_age, format_count
from watchword.health.inventory import build_inventory
from watchword.health.inventory_rows import ACCOUNT_TOKEN, AUTHORITY, PULL_SECRET, CredentialRow, Inventory
from watchword.health.states import InventoryHealth
from watchword.kube.access_reviews import ResourceAccess, can_i
from watchword.kube.errors import Forbidden, KubeError, NotFound
from watchword.operator.cluster_manager_manifests import CLUSTER_MANAGER, enabled_drivers
from watchword.processes.hub import LEASE
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import RequestsCertificate
from watchword.registration.hub.acceptance_policy import AcceptanceGuard

INIT = "watchword init"
SEPARATE = (
    AUTHORITY,
    PULL_SECRET,
    *(certificate.name for server in CATALOG.servers for certificate in server.certificates),
)
"""Kinds of credentials that have a check of their own."""
STALE_LEASE = timedelta(minutes=2)


class RequiredAccess(Struct, frozen=True):
    """An action of a hub's administrator, as text and as an access review."""

    description: str
    access: ResourceAccess


RIGHTS = (
    RequiredAccess("list clusters", ResourceAccess("list", MANAGED_CLUSTERS)),
    RequiredAccess("accept clusters", ResourceAccess("update", MANAGED_CLUSTERS)),
    RequiredAccess(
        "approve certificate requests", ResourceAccess("update", CERTIFICATE_SIGNING_REQUESTS, subresource="approval")
    ),
    RequiredAccess("make join tokens", ResourceAccess("create", SECRETS, ObjectKey("kube-system", ""))),
    RequiredAccess("see add-ons", ResourceAccess("list", MANAGED_CLUSTER_ADDONS)),
)


async def kinds(context: CheckContext) -> Iterable[CheckFinding]:
    try:
        found = await context.client.list(MANAGED_CLUSTERS)
    except NotFound:
        return [fail("the server does not know ManagedClusters: it is not a hub", INIT)]
    except Forbidden:
        return [warn("you may not list clusters", "ask the hub's administrator for the right to list managedclusters")]
    return passed(f"is a hub with {format_count(len(found.items), 'cluster')}")


async def rights(context: CheckContext) -> Iterable[CheckFinding]:
    missing = [right for right in RIGHTS if not await can_i(context.client, right.access)]
    if not missing:
        return passed("you may do everything that an administrator does")
    return [
        warn(
            f"you may not {right.description}", f"kubectl auth can-i {right.access.verb} {right.access.resource.plural}"
        )
        for right in missing
    ]


async def controllers(context: CheckContext) -> Iterable[CheckFinding]:
    lease = await context.client.find(LEASES, LEASE)
    command = f"kubectl -n {HUB_NAMESPACE} get pods" if await has_operator(context.client) else "watchword hub"
    if lease is None:
        unseen = "a hub that runs with --disable-leader-election cannot be seen from here"
        return [fail(f"no controllers hold the lease {LEASE}: the hub does not run ({unseen})", command)]
    renewed = parse_rfc3339(str((lease.get("spec") or {}).get("renewTime") or ""))
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    if renewed is None or not holder:
        return [fail(f"no controllers hold the lease {LEASE}: the hub does not run", command)]
    silent = context.clock.now() - renewed
    if silent > STALE_LEASE:
        return [fail(f"the hub's controllers do not run: {holder} renewed its lease {format_age(silent)} ago", command)]
    return passed(f"run as {holder}")


async def guard(context: CheckContext) -> Iterable[CheckFinding]:
    """Try, without storing anything, whether an untrusted client could accept a cluster."""
    keeper = AcceptanceGuard(context.client, context.clock)
    try:
        holds = await keeper.is_enforced()
    except Forbidden:
        return [warn("you may not impersonate, so it was not checked whether joining clusters can accept themselves")]
    return passed("only those entitled can accept a cluster") if holds else [fail(keeper.advice, INIT)]


async def signer(context: CheckContext) -> Iterable[CheckFinding]:
    if context.probe_signer is None:
        return passed("not tried")
    if not await _needs_certificates(context):
        return passed("not tried: clusters register without certificates here")
    trouble = await context.probe_signer()
    if not trouble:
        return passed("certificates are issued")
    return [fail(trouble, f"let a signer for {KUBE_CLIENT_SIGNER} run, as kube-controller-manager does")]


async def _needs_certificates(context: CheckContext) -> bool:
    manager = await context.client.find(CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER))
    drivers = enabled_drivers(manager or {}, context.catalog)
    return any(isinstance(driver, RequestsCertificate) and driver.signer for driver in drivers)


async def discovery(context: CheckContext) -> Iterable[CheckFinding]:
    """Look whether cluster-info is published and signed for every token that may sign."""
    found = await context.client.find(CONFIG_MAPS, CLUSTER_INFO)
    if found is None:
        return [fail("cluster-info is not published, so no cluster can find this hub by a token", INIT)]
    refused = annotations_of(found).get(ANNOTATION_SIGNING_REFUSED)
    if refused:
        return [fail(f"cluster-info is not signed because {refused}", INIT)]
    try:
        published = await fetch_cluster_info(context.client)
        records, ignored = await TokenStore(context.client).list()
    except (DiscoveryError, KubeError) as trouble:
        return [warn(f"the signatures could not be checked: {trouble}")]
    now = context.clock.now()
    signing = [record for record in records if record.allows(TokenUsage.SIGNING, now)]
    unsigned = [record.token.id for record in signing if not published.has_valid_signature_for(record.token)]
    signing_command = f"kubectl -n {HUB_NAMESPACE} get pods" if await has_operator(context.client) else "watchword hub"
    findings = [
        fail(f"cluster-info is not signed for token {token}: do the hub's controllers run?", signing_command)
        for token in unsigned
    ]
    findings += [warn(f"Secret {each.name} is meant to be a token and is none: {each.why}") for each in ignored]
    return findings or passed(f"cluster-info is published and signed for {format_count(len(signing), 'token')}")


async def fleet(context: CheckContext) -> Iterable[CheckFinding]:
    inventory = build_inventory(await context.facts(), now=context.clock.now(), catalog=context.catalog)
    findings = [
        *decide_fleet_findings(inventory),
        *(warn(f"{what} cannot be seen: {why}") for what, why in inventory.unseen.items()),
    ]
    clusters = format_count(len(inventory.clusters), "cluster")
    return findings or passed(f"{clusters} and {format_count(len(inventory.credentials), 'credential')} are well")


def decide_fleet_findings(inventory: Inventory) -> list[CheckFinding]:
    """Return a finding for every row that needs attention, with the command that helps; what fails stands first."""
    findings: list[CheckFinding] = []
    for row in inventory.clusters:
        if row.health.needs_attention:
            grade = fail if row.health < InventoryHealth.PENDING else warn
            findings.append(grade(f"cluster {row.name}: {row.note}", f"watchword clusters show {row.name}"))
    for addon in inventory.addons:
        if addon.health.needs_attention:
            grade = fail if addon.health < InventoryHealth.PENDING else warn
            findings.append(
                grade(
                    f"add-on {addon.name} on {addon.cluster}: {addon.note}",
                    f"kubectl -n {addon.cluster} describe mca {addon.name}",
                )
            )
    for credential in inventory.credentials:
        if credential.kind in SEPARATE:
            continue
        failing = credential.health is InventoryHealth.FAILING and not credential.addon  # its add-on's row says so
        if failing or credential.health in (InventoryHealth.EXPIRED, InventoryHealth.OVERDUE):
            reason = f"{credential.kind} of {credential.holder}: {credential.note or 'expired'}"
            findings.append(fail(reason, _command_for(credential)))
        elif credential.use is CredentialUse.PREVIOUS and credential.health.needs_attention:
            findings.append(warn(f"{credential.kind} of {credential.holder}: {credential.note}", "watchword status"))
    return sorted(findings, key=lambda finding: finding.level.rank)


def _command_for(credential: CredentialRow) -> str:
    if credential.kind == ACCOUNT_TOKEN:
        return f"watchword serviceaccount show {credential.subject} -n {credential.cluster}"
    return f"watchword rejoin --cluster-name {credential.cluster}" if credential.cluster else "watchword token create"


async def authority(context: CheckContext) -> Iterable[CheckFinding]:
    inventory = build_inventory(await context.facts(), now=context.clock.now(), catalog=context.catalog)
    rows = [row for row in inventory.credentials if row.kind == AUTHORITY]
    if not rows:
        return passed("cluster-info names no authority: clusters trust the roots of their system")
    latest = max(rows, key=lambda row: row.validity.expires or context.clock.now())
    ends = f"{latest.validity.expires:%Y-%m-%d}" if latest.validity.expires is not None else "never"
    if latest.health is InventoryHealth.EXPIRED:
        return [fail("the hub's authority has ended: no cluster trusts the hub", INIT)]
    if latest.health is InventoryHealth.DUE:
        return [warn(f"the hub's authority ends on {ends}: publish its successor beside it in time", INIT)]
    return passed(f"the hub's certificate authority is valid until {ends}")


async def leftovers(context: CheckContext) -> Iterable[CheckFinding]:
    facts = await context.facts()
    if "clusters" in facts.unseen:
        return [warn(f"without seeing clusters it cannot be told what is left of others: {facts.unseen['clusters']}")]
    names = {obj["metadata"]["name"] for obj in facts.clusters}
    namespaces = (await context.client.list(NAMESPACES, labels=Label.CLUSTER_NAME)).items
    orphans = sorted(
        obj["metadata"]["name"] for obj in namespaces if labels_of(obj).get(Label.CLUSTER_NAME) not in names
    )
    findings = [
        warn(f"namespace {name} belongs to no cluster any more", f"kubectl delete namespace {name}") for name in orphans
    ]
    return findings or passed("nothing is left of clusters that are gone")


CHECKS = (
    Check("hub", kinds, required=True),
    Check("rights", rights),
    Check("controllers", controllers),
    Check("operator", examine_hub_operator),
    Check("acceptance", guard),
    Check("discovery", discovery),
    Check("signer", signer),
    Check("authority", authority),
    Check("servers", servers),
    Check("fleet", fleet),
    Check("leftovers", leftovers),
)
