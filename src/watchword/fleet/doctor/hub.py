"""What a hub needs so that clusters can find it, join it and keep their credentials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED, CLUSTER_INFO
from watchword.api.meta import ObjectKey, annotations_of, labels_of
from watchword.api.names import HUB_NAMESPACE, KUBE_CLIENT_SIGNER, Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.time import parse_rfc3339
from watchword.discovery.errors import DiscoveryError
from watchword.discovery.published import read_published
from watchword.discovery.token_secret import TokenUsage
from watchword.discovery.token_store import TokenStore
from watchword.fleet.doctor.model import Check, Finding, Patient, fail, warn, well
from watchword.fleet.health import Health
from watchword.fleet.hub_process import LEASE
from watchword.fleet.inventory import AUTHORITY, Inventory, take_inventory
from watchword.fleet.signer_probe import SignerProbe
from watchword.fleet.words import write_count
from watchword.hub.acceptance_guard import AcceptanceGuard
from watchword.kube.errors import Forbidden, KubeError, NotFound
from watchword.kube.reviews import Access, may_i

INIT = "watchword init"
STALE_LEASE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Right:
    """Something an administrator of a hub does, in words and as the server asks it."""

    words: str
    access: Access


RIGHTS = (
    Right("list clusters", Access("list", MANAGED_CLUSTERS)),
    Right("accept clusters", Access("update", MANAGED_CLUSTERS)),
    Right("approve certificate requests", Access("update", CERTIFICATE_SIGNING_REQUESTS, subresource="approval")),
    Right("make join tokens", Access("create", SECRETS, ObjectKey("kube-system", ""))),
    Right("see add-ons", Access("list", MANAGED_CLUSTER_ADDONS)),
)


async def kinds(patient: Patient) -> Iterable[Finding]:
    """Look whether the server knows what a ManagedCluster is."""
    try:
        found = await patient.client.list(MANAGED_CLUSTERS)
    except NotFound:
        return [fail("the server does not know ManagedClusters: it is not a hub", INIT)]
    except Forbidden:
        return [warn("you may not list clusters", "ask the hub's administrator for the right to list managedclusters")]
    return well(f"is a hub with {write_count(len(found.items), 'cluster')}")


async def rights(patient: Patient) -> Iterable[Finding]:
    """Ask what this user may do."""
    missing = [right for right in RIGHTS if not await may_i(patient.client, right.access)]
    if not missing:
        return well("you may do everything that an administrator does")
    return [
        warn(f"you may not {right.words}", f"kubectl auth can-i {right.access.verb} {right.access.resource.plural}")
        for right in missing
    ]


async def controllers(patient: Patient) -> Iterable[Finding]:
    """Look whether the hub's controllers renew their lease; a single one may run without."""
    lease = await patient.client.find(LEASES, LEASE)
    if lease is None:
        return well("no replicas compete: a single process runs the controllers, or none does")
    renewed = parse_rfc3339(str((lease.get("spec") or {}).get("renewTime") or ""))
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    if renewed is None or patient.clock.now() - renewed > STALE_LEASE or not holder:
        return [
            fail("the hub's controllers do not run: their lease is not renewed", f"kubectl -n {HUB_NAMESPACE} get pods")
        ]
    return well(f"run as {holder}")


async def guard(patient: Patient) -> Iterable[Finding]:
    """Try, without storing anything, whether a stranger could accept a cluster."""
    keeper = AcceptanceGuard(patient.client, patient.clock)
    try:
        holds = await keeper.holds()
    except Forbidden:
        return [warn("you may not impersonate, so it was not tried whether strangers can accept clusters")]
    return well("only those entitled can accept a cluster") if holds else [fail(keeper.advice, INIT)]


async def signer(patient: Patient) -> Iterable[Finding]:
    """Ask for a certificate that nobody uses."""
    if not patient.may_write:
        return well("not tried")
    trouble = await SignerProbe(patient.client, patient.clock).run()
    if not trouble:
        return well("certificates are issued")
    return [fail(trouble, f"let a signer for {KUBE_CLIENT_SIGNER} run, as kube-controller-manager does")]


async def discovery(patient: Patient) -> Iterable[Finding]:
    """Look whether cluster-info is published and signed for every token that may sign."""
    found = await patient.client.find(CONFIG_MAPS, CLUSTER_INFO)
    if found is None:
        return [fail("cluster-info is not published, so nobody can find this hub by a token", INIT)]
    refused = annotations_of(found).get(ANNOTATION_SIGNING_REFUSED)
    if refused:
        return [fail(f"cluster-info is not signed because {refused}", INIT)]
    try:
        published = await read_published(patient.client)
        records, ignored = await TokenStore(patient.client).list()
    except (DiscoveryError, KubeError) as trouble:
        return [warn(f"the signatures could not be checked: {trouble}")]
    now = patient.clock.now()
    signing = [record for record in records if record.allows(TokenUsage.SIGNING, now)]
    unsigned = [record.token.id for record in signing if not published.is_vouched_for(record.token)]
    findings = [
        fail(f"cluster-info is not signed for token {token}: do the hub's controllers run?", "watchword hub")
        for token in unsigned
    ]
    findings += [warn(f"Secret {each.name} is meant to be a token and is none: {each.why}") for each in ignored]
    return findings or well(f"cluster-info is published and signed for {write_count(len(signing), 'token')}")


async def fleet(patient: Patient) -> Iterable[Finding]:
    """Look at every cluster, add-on and credential."""
    inventory = take_inventory(await patient.facts(), now=patient.clock.now())
    findings = [
        *judge_fleet(inventory),
        *(warn(f"{what} cannot be seen: {why}") for what, why in inventory.unseen.items()),
    ]
    clusters = write_count(len(inventory.clusters), "cluster")
    return findings or well(f"{clusters} and {write_count(len(inventory.credentials), 'credential')} are well")


def judge_fleet(inventory: Inventory) -> list[Finding]:
    """Return a finding for every row that needs attention, with the command that helps; what fails stands first."""
    findings: list[Finding] = []
    for row in inventory.clusters:
        if row.health.is_trouble:
            grade = fail if row.health < Health.PENDING else warn
            findings.append(grade(f"cluster {row.name}: {row.note}", f"watchword clusters show {row.name}"))
    for addon in inventory.addons:
        if addon.health.is_trouble:
            grade = fail if addon.health < Health.PENDING else warn
            findings.append(
                grade(
                    f"add-on {addon.name} on {addon.cluster}: {addon.note}",
                    f"kubectl -n {addon.cluster} describe mca {addon.name}",
                )
            )
    for credential in inventory.credentials:
        if credential.health in (Health.EXPIRED, Health.OVERDUE) and credential.kind != AUTHORITY:
            command = (
                f"watchword rejoin --cluster-name {credential.cluster}"
                if credential.cluster
                else "watchword token create"
            )
            findings.append(fail(f"{credential.kind} of {credential.holder}: {credential.note or 'expired'}", command))
    return sorted(findings, key=lambda finding: finding.level.rank)


async def authority(patient: Patient) -> Iterable[Finding]:
    """Look how long the hub's certificate authority lives."""
    inventory = take_inventory(await patient.facts(), now=patient.clock.now())
    rows = [row for row in inventory.credentials if row.kind == AUTHORITY]
    if not rows:
        return well("cluster-info names no authority: clusters trust the roots of their system")
    latest = max(rows, key=lambda row: row.life.expires or patient.clock.now())
    ends = f"{latest.life.expires:%Y-%m-%d}" if latest.life.expires is not None else "never"
    if latest.health is Health.EXPIRED:
        return [fail("the hub's authority has ended: no cluster trusts the hub", INIT)]
    if latest.health is Health.DUE:
        return [warn(f"the hub's authority ends on {ends}: publish its successor beside it in time", INIT)]
    return well(f"the hub's authority lives until {ends}")


async def leftovers(patient: Patient) -> Iterable[Finding]:
    """Look for what clusters that are gone have left behind."""
    facts = await patient.facts()
    if "clusters" in facts.unseen:
        return [warn(f"without seeing clusters it cannot be told what is left of others: {facts.unseen['clusters']}")]
    names = {obj["metadata"]["name"] for obj in facts.clusters}
    namespaces = (await patient.client.list(NAMESPACES, labels=Label.CLUSTER_NAME)).items
    orphans = sorted(
        obj["metadata"]["name"] for obj in namespaces if labels_of(obj).get(Label.CLUSTER_NAME) not in names
    )
    findings = [
        warn(f"namespace {name} belongs to no cluster any more", f"kubectl delete namespace {name}") for name in orphans
    ]
    return findings or well("nothing is left of clusters that are gone")


CHECKS = (
    Check("hub", kinds, vital=True),
    Check("rights", rights),
    Check("controllers", controllers),
    Check("acceptance", guard),
    Check("discovery", discovery),
    Check("signer", signer),
    Check("authority", authority),
    Check("fleet", fleet),
    Check("leftovers", leftovers),
)
