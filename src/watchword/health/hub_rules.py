"""What a hub needs so that clusters can find it, join it and keep their credentials: facts in, findings out."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import Label
from watchword.credentials.certificates.requests import APPROVED, read_decision
from watchword.credentials.driver import Side
from watchword.discovery.cluster_info import read_published
from watchword.discovery.token_secret import TokenUsage
from watchword.health.facts import SOURCES, HubFacts
from watchword.health.finding import CheckResult, Finding, fail, passed, warn
from watchword.health.formatting import format_age, format_count
from watchword.health.inventory import build_inventory
from watchword.health.inventory_rows import Inventory
from watchword.health.processes import decide_job_findings, decide_process_findings, deployments_of_hub
from watchword.health.row_findings import inventory_findings
from watchword.operator.cluster_manager import CLUSTER_MANAGER, enabled_servers, exposed_hosts
from watchword.pki.certificates import Certificate, split_bundle, verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.subjects import AlternativeNames, Usage
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import HubServer
from watchword.registration.hub.installation import UNGUARDED, is_installed

INIT = "watchword init"
LOGS = "watchword logs hub"
SIGNED_WITHIN = timedelta(seconds=30)
"""From the approval of a request to its certificate."""


class HubState(Struct, frozen=True):
    """What the rules decide from; the inventory is built from the same facts."""

    facts: HubFacts
    now: datetime
    catalog: Catalog = CATALOG

    @property
    def manager(self) -> Object:
        found = (each for each in self.facts.processes.managers if each["metadata"]["name"] == CLUSTER_MANAGER)
        return next(found, {})


def decide_hub_findings(facts: HubFacts, *, now: datetime, catalog: Catalog = CATALOG) -> list[CheckResult]:
    """Return what every view shows of a hub: first its own state, then each table of the inventory."""
    inventory = build_inventory(facts, now=now, catalog=catalog)
    return [*decide_own_findings(HubState(facts, now, catalog)), *decide_table_findings(inventory)]


def decide_own_findings(state: HubState) -> list[CheckResult]:
    return [CheckResult(name, list(rule(state)) or passed(well)) for name, (rule, well) in RULES.items()]


def decide_table_findings(inventory: Inventory) -> list[CheckResult]:
    found: dict[str, list[Finding]] = {}
    for table, finding in inventory_findings(inventory):
        found.setdefault(table, []).append(finding)
    counts = {
        "clusters": format_count(len(inventory.clusters), "cluster"),
        "add-ons": format_count(len(inventory.addons), "add-on"),
        "credentials": format_count(sum(row.count for row in inventory.credentials), "credential"),
    }
    return [
        CheckResult(table, sorted(found.get(table, passed(f"{count}, all well")), key=lambda each: each.severity))
        for table, count in counts.items()
    ]


def processes(state: HubState) -> Iterable[Finding]:
    facts = state.facts.processes
    reports = [("ClusterManager", manager) for manager in facts.managers]
    yield from decide_process_findings(facts, deployments_of_hub(facts), reports, now=state.now)
    yield from decide_job_findings(state.facts.jobs, now=state.now)


def acceptance(state: HubState) -> Iterator[Finding]:
    names = ("the admission policy", "the binding of the admission policy")
    if not any(name in state.facts.unseen for name in names) and not is_installed(state.facts.policies):
        yield fail("AcceptanceUnguarded", UNGUARDED, INIT)


def discovery(state: HubState) -> Iterator[Finding]:
    """Look whether cluster-info is published, and signed for every token that may sign."""
    facts = state.facts
    for each in facts.ignored_tokens:
        show = f"kubectl -n kube-system describe secret {each.name}"
        yield warn("TokenIgnored", f"Secret {each.name} is meant to be a token and is none: {each.why}", show)
    if "the hub's authority" in facts.unseen:
        return
    published = None if facts.cluster_info is None else read_published(facts.cluster_info)
    refused = annotations_of(facts.cluster_info or {}).get(ANNOTATION_SIGNING_REFUSED)
    if published is None:
        yield fail("NotPublished", "cluster-info is not published, so no cluster can find this hub by a token", INIT)
    elif refused:
        yield fail("SigningRefused", f"cluster-info is not signed because {refused}", INIT)
    else:
        for record in facts.tokens:
            if record.allows(TokenUsage.SIGNING, state.now) and not published.has_valid_signature_for(record.token):
                yield fail("NotSigned", f"cluster-info is not signed for token {record.token.id}", LOGS)


def signer(state: HubState) -> Iterator[Finding]:
    """Name approved requests without a certificate: a signer that does not run leaves them so."""
    for request in state.facts.requests:
        decision = read_decision(request)
        since = decision.decided_at or state.now
        if decision.verdict == APPROVED and not decision.certificate and state.now - since > SIGNED_WITHIN:
            name, age = request["metadata"]["name"], format_age(state.now - since)
            sentence = f"certificate request {name} was approved {age} ago and is not signed: does the signer run?"
            found = fail("SignerSilent", sentence, f"kubectl describe csr {shlex.quote(name)}")
            yield replace(found, cluster=labels_of(request).get(Label.CLUSTER_NAME, ""))


def servers(state: HubState) -> Iterator[Finding]:
    """Look at the authority and the certificate of each server of a driver."""
    published = {ObjectKey.of(obj): obj for obj in state.facts.servers}
    for server in enabled_servers(state.manager, state.catalog):
        if server.published is None:
            continue
        hosts, options = exposed_hosts(state.manager, server.exposure), state.catalog.options(Side.HUB)
        flags = [option.flag for option in options if option.exposure and option.exposure == server.exposure]
        if flags and not hosts:
            reason = f"no host is published by which agents outside this cluster reach {server.name}"
            yield warn("ServerNotExposed", reason, f"watchword init {flags[0]} HOST")
        yield from decide_server_findings(server, published.get(server.published), hosts, now=state.now)


def decide_server_findings(
    server: HubServer, published: Object | None, hosts: Sequence[str], *, now: datetime
) -> list[Finding]:
    """Return why agents would refuse a server; nothing when its certificate is good for every host."""
    data: Mapping[str, str] = (published or {}).get("data") or {}
    authorities = [each for kind in server.certificates if kind.is_authority for each in _read(data.get(kind.field))]
    serving = [each for kind in server.certificates if not kind.is_authority for each in _read(data.get(kind.field))]
    if not authorities or not serving:
        what = "certificate" if authorities else "authority"
        return [fail("ServerUnpublished", f"ConfigMap {server.published} contains no {what} of {server.name}", LOGS)]
    leaf, findings = serving[0], []
    try:
        verify_chain(leaf, authorities, now=now, usage=Usage.SERVER_AUTH)
    except PkiError as refusal:
        findings.append(
            fail("ServerUntrusted", f"agents do not trust the certificate of {server.name}: {refusal}", LOGS)
        )
    wanted = AlternativeNames.for_hosts(hosts)
    missing = [*(set(wanted.dns) - set(leaf.names.dns)), *(set(wanted.ips) - set(leaf.names.ips))]
    if missing:
        reason = f"the certificate of {server.name} is not valid for {', '.join(sorted(missing))}"
        findings.append(fail("ServerName", reason, LOGS))
    return findings


def _read(pem: str | None) -> tuple[Certificate, ...]:
    try:
        return split_bundle(pem.encode()) if pem else ()
    except PkiError:
        return ()


def leftovers(state: HubState) -> Iterator[Finding]:
    names = {obj["metadata"]["name"] for obj in state.facts.clusters}
    for obj in state.facts.namespaces if "clusters" not in state.facts.unseen else ():
        name = obj["metadata"]["name"]
        if labels_of(obj).get(Label.CLUSTER_NAME) not in names:
            sentence = f"namespace {name} belongs to no cluster any more"
            yield warn("NamespaceLeft", sentence, f"kubectl delete namespace {name}")


def unread(state: HubState) -> Iterator[Finding]:
    for what, why in state.facts.missing.items():
        plural = SOURCES[what][0].group_resource if what in SOURCES else "secrets"
        yield warn("NotRead", f"{what} could not be read: {why}", f"kubectl auth can-i list {plural} -A")


RULES: Mapping[str, tuple[Callable[[HubState], Iterable[Finding]], str]] = {
    "facts": (unread, "everything could be read"),
    "processes": (processes, "run, lead and report that the hub is as it should be"),
    "acceptance": (acceptance, "only those entitled can accept a cluster"),
    "discovery": (discovery, "cluster-info is published and signed for every token"),
    "signer": (signer, "every approved certificate was issued"),
    "servers": (servers, "agents can trust the servers of this hub's drivers"),
    "leftovers": (leftovers, "nothing is left of clusters that are gone"),
}
"""Rules about the hub itself, in the order in which they are shown, with the sentence where all is well."""
