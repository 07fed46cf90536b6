"""What a managed cluster needs to stay a member of its hubs: facts read there, and the findings about them."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.cluster import Cluster
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import (
    ADDON_NAMESPACE,
    BOOTSTRAP_KUBECONFIG_SECRET,
    HUB_KUBECONFIG_SECRET,
    Annotation,
    ConditionType,
)
from watchword.api.resources import APPLIED_MANIFEST_WORKS, DEPLOYMENTS, KLUSTERLETS, MANAGED_CLUSTERS, PODS, SECRETS
from watchword.api.sensitive import HiddenFields
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import KUBECONFIG, HeldCredential, SecretData
from watchword.credentials.errors import CredentialUnreadable
from watchword.health.facts import PROCESS_SOURCES, ProcessFacts, process_facts
from watchword.health.finding import CheckResult, Finding, fail, notice, passed, warn
from watchword.health.formatting import format_count, format_key, format_timestamp
from watchword.health.hub_reader import read_sources
from watchword.health.processes import decide_process_findings
from watchword.health.states import InventoryHealth, decide_renewed_health, is_denied
from watchword.kube.client import Client
from watchword.kube.errors import ConfigError, Forbidden, KubeError, NotFound, Unauthorized
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.request_sender import RetryPolicy
from watchword.operator.klusterlet import agent_deployment, namespace_of
from watchword.operator.rendering import OPERATOR
from watchword.pki.errors import PkiError
from watchword.registration.catalog import CATALOG, Catalog, make_connector
from watchword.registration.driver import ConnectorContext
from watchword.runtime.informer import WatchScope

ONE_TRY = RetryPolicy(attempts=1, attempt_timeout=10.0, deadline=10.0)
ASK_THE_HUB = "watchword token create --print-join-command   # on the hub: it prints the rest of the command"
CLUSTER_SOURCES = {
    **PROCESS_SOURCES,
    "Klusterlets": (KLUSTERLETS, WatchScope()),
    "Deployments of add-ons": (DEPLOYMENTS, WatchScope(ADDON_NAMESPACE)),
    "pods of add-ons": (PODS, WatchScope(ADDON_NAMESPACE)),
    "applied works": (APPLIED_MANIFEST_WORKS, WatchScope()),
}


class Refusal(Enum):
    """Why the hub did not answer with the cluster's own ManagedCluster."""

    NOT_ASKED = "there is no credential to ask with"
    UNUSABLE = "the credential cannot be used"
    UNAUTHORIZED = "the hub does not accept the credential"
    FORBIDDEN = "the hub gives no rights"
    UNREACHABLE = "the hub does not answer"


class Membership(HiddenFields, frozen=True):
    """One hub that this cluster belongs to: what is held for it, and what it answered."""

    hidden = ("held",)

    cluster: str
    namespace: str
    hub: str  # its address
    held: SecretData = field(default_factory=dict)
    noted: Mapping[str, str] = field(default_factory=dict)  # annotations by which the agent says what it lacks
    may_join: bool = False  # there is a credential to join with
    entry: Object | None = None  # of this cluster, as the hub returned it
    refusal: Refusal = Refusal.NOT_ASKED
    detail: str = ""

    @property
    def rejoin(self) -> str:
        return f"watchword rejoin {self.hub} --cluster-name {self.cluster} --token TOKEN ...   # {ASK_THE_HUB}"

    @property
    def accept(self) -> str:
        return f"watchword accept {self.cluster}   # on the hub"


class ClusterFacts(Struct, frozen=True):
    """What was read of a managed cluster."""

    members: Sequence[Membership] = ()
    klusterlets: Sequence[Object] = ()
    processes: ProcessFacts = field(default_factory=ProcessFacts)
    works: int = 0
    unseen: Mapping[str, str] = field(default_factory=dict)
    joinable: bool = True  # the server knows Klusterlets


async def read_cluster_facts(client: Client, catalog: Catalog = CATALOG) -> ClusterFacts:
    found, unseen, _ = await read_sources(client, CLUSTER_SOURCES)
    joinable = unseen.pop("Klusterlets", "") == "" or "Klusterlets" in found
    unseen.pop("applied works", None)  # the kind is there once the first work is
    klusterlets = found.get("Klusterlets", ())
    members: list[Membership] = []
    for klusterlet in klusterlets:
        try:
            members.append(await _read_membership(client, klusterlet, catalog))
        except KubeError as error:
            unseen[f"Secrets in {namespace_of(klusterlet)}"] = str(error)
    found["Deployments"] = [*found.get("Deployments", ()), *found.pop("Deployments of add-ons", ())]
    found["pods"] = [*found.get("pods", ()), *found.pop("pods of add-ons", ())]
    processes = replace(process_facts(found, unseen), managers=())
    return ClusterFacts(members, klusterlets, processes, len(found.get("applied works", ())), unseen, joinable)


async def _read_membership(client: Client, klusterlet: Object, catalog: Catalog) -> Membership:
    namespace = namespace_of(klusterlet)
    name = str((klusterlet.get("spec") or {}).get("clusterName") or klusterlet["metadata"]["name"])
    names = (HUB_KUBECONFIG_SECRET, BOOTSTRAP_KUBECONFIG_SECRET)
    own, bootstrap = [await client.find(SECRETS, ObjectKey(namespace, secret)) for secret in names]
    held, noted = decode_data(own), annotations_of(own or {})
    hub = _hub_address([held, decode_data(bootstrap)])
    member = Membership(name, namespace, hub, held, noted, bootstrap is not None)
    driver = catalog.holder_of(held)
    if not driver:
        return member
    try:
        connector = make_connector(catalog.find(driver), ConnectorContext(cluster=name, bootstrap=None))
        asking = Client(connector.own(held), retry=ONE_TRY)
    except (KubeError, PkiError) as error:
        return replace(member, refusal=Refusal.UNUSABLE, detail=str(error))
    try:
        return replace(member, entry=await asking.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)))
    except Unauthorized as refusal:
        return replace(member, refusal=Refusal.UNAUTHORIZED, detail=str(refusal))
    except (Forbidden, NotFound) as refusal:  # without rights a cluster is refused even what is not there
        return replace(member, refusal=Refusal.FORBIDDEN, detail=str(refusal))
    except KubeError as error:
        # ConfigError is of a credential plugin: it may need the identity that only the agent's pods have.
        kind = Refusal.NOT_ASKED if isinstance(error, ConfigError) else Refusal.UNREACHABLE
        return replace(member, refusal=kind, detail=str(error))
    finally:
        await asking.close()


def _hub_address(secrets: Sequence[SecretData]) -> str:
    """Return HOST:PORT of the hub as the agent knows it; its form when no Secret names one."""
    for data in secrets:
        with contextlib.suppress(KubeError):
            return urlsplit(parse_kubeconfig(data.get(KUBECONFIG, b"")).choose().cluster.server).netloc
    return "HOST:PORT"


def decide_cluster_findings(
    facts: ClusterFacts, *, now: datetime, catalog: Catalog = CATALOG, alone: bool = False
) -> list[CheckResult]:
    """Return what is found on a cluster; one that has pull secrets `alone` need not be in a fleet."""
    unread = [
        warn("NotRead", f"{what} could not be read: {why}", "kubectl auth can-i --list")
        for what, why in facts.unseen.items()
    ]
    well = passed("run, lead and report that all is well")
    deployed = OPERATOR in {ObjectKey.of(obj) for obj in facts.processes.deployments}
    agents = [ObjectKey.of(agent_deployment(klusterlet)[1]) for klusterlet in facts.klusterlets if deployed]
    reports = [("Klusterlet", klusterlet) for klusterlet in facts.klusterlets]
    running = decide_process_findings(facts.processes, agents, reports, now=now)
    processes = CheckResult("processes", running or well)
    if not facts.klusterlets and (alone or facts.processes.configurations):
        return [processes]
    if not facts.klusterlets:
        bare = "no Klusterlet says which hub this cluster belongs to"
        if not facts.joinable:
            bare = "this is neither a hub nor a cluster that has joined one"
        return [CheckResult("membership", [fail("NoHub", bare, f"watchword init, or {ASK_THE_HUB}"), *unread])]
    names = ", ".join(each.cluster for each in facts.members)
    credentials = [each for member in facts.members for each in decide_credential_findings(member, now, catalog)]
    answers = [each for member in facts.members for each in decide_answer_findings(member)]
    return [
        CheckResult("membership", unread or passed(f"has joined as {names}")),
        processes,
        CheckResult("credential", credentials),
        CheckResult("hub", answers),
        CheckResult("work", passed(f"{format_count(facts.works, 'work')} of the hub applied here")),
    ]


def decide_credential_findings(member: Membership, now: datetime, catalog: Catalog = CATALOG) -> list[Finding]:
    """Judge the credential by what it says of itself, and by what the agent notes beside it."""
    if Annotation.HUB_UNREACHABLE in member.noted:
        sentence = f"the agent cannot reach the hub: {member.noted[Annotation.HUB_UNREACHABLE]}"
        return [fail("HubUnreachable", sentence, "watchword logs agent")]
    if Annotation.NOT_REGISTERED in member.noted:
        sentence = f"the hub does not register this cluster: {member.noted[Annotation.NOT_REGISTERED]}"
        return [fail("NotRegistered", sentence, member.rejoin)]
    return _held_findings(member, now, catalog)


def _held_findings(member: Membership, now: datetime, catalog: Catalog) -> list[Finding]:
    if not member.held and not member.may_join:
        return [fail("NoCredential", "there is neither a credential for the hub nor one to join with", ASK_THE_HUB)]
    key = catalog.read_pending_key(member.held)
    asking = f"; it asks with the key {format_key(key)}" if key else ""
    try:
        held = catalog.read_held(member.held)
    except CredentialUnreadable as error:
        return [fail("CredentialDamaged", str(error), member.rejoin)]
    if held is None:
        return [warn("CredentialPending", f"the agent waits for its credential{asking}", member.accept)]
    if held.validity.expires is None:
        return passed(f"{held.subject or 'the credential'} does not expire")
    return _validity_findings(member, held, asking, now)


def _validity_findings(member: Membership, held: HeldCredential, asking: str, now: datetime) -> list[Finding]:
    health = decide_renewed_health(held.validity, now=now)
    until = format_timestamp(held.validity.expires)
    if health is InventoryHealth.EXPIRED:
        return [fail("CredentialExpired", f"the credential expired at {until}{asking}", member.rejoin)]
    if health is InventoryHealth.OVERDUE:
        sentence = f"the credential ends at {until} and was not renewed: does the agent run?"
        return [fail("CredentialOverdue", sentence, "watchword logs agent")]
    shown = f", with the key {format_key(held.key)}" if held.key else ""
    return passed(f"{held.subject or 'the credential'} until {until}{shown}{asking}")


def decide_answer_findings(member: Membership) -> list[Finding]:
    """Judge what the hub answered to the agent's own credential."""
    name = member.cluster
    if member.entry is not None:
        return decide_acceptance_findings(member.entry, member)
    match member.refusal:
        case Refusal.NOT_ASKED if not member.detail:
            found = warn("HubNotAsked", "the hub was not asked: there is no credential for it yet", member.accept)
        case Refusal.NOT_ASKED:
            sentence = f"was not asked: only the agent's pods may have its identity, and here {member.detail}"
            found = notice("HubNotAsked", sentence, f"watchword clusters show {name}   # on the hub")
        case Refusal.UNUSABLE:
            found = fail("CredentialUnusable", f"the credential cannot be used: {member.detail}", member.rejoin)
        case Refusal.UNAUTHORIZED:
            refused = "the hub does not accept this cluster's credential any more"
            found = fail("CredentialRefused", refused, member.rejoin)
        case Refusal.FORBIDDEN:
            shown = (
                f"watchword clusters show {name}   # on the hub: accept it there; if it is gone, unjoin and join again"
            )
            found = fail("NoRights", f"the hub gives {name} no rights: it was denied, revoked or deleted there", shown)
        case Refusal.UNREACHABLE:
            look = "watchword logs agent"
            found = fail("HubUnreachable", f"the hub at {member.hub} does not answer: {member.detail}", look)
    return [found]


def decide_acceptance_findings(found: Object, member: Membership) -> list[Finding]:
    cluster = Cluster.read(found)
    if not cluster.accepted and is_denied(found):
        return [fail("Denied", f"the hub's administrator denied {cluster.name}", member.accept)]
    if not cluster.accepted:
        return [fail("NotAccepted", f"the hub has not accepted {cluster.name} yet", member.accept)]
    if not is_true(found, ConditionType.AVAILABLE):
        return [fail("LeaseExpired", f"the hub receives no lease of {cluster.name}'s agent", "watchword logs agent")]
    clock = find_condition(found, ConditionType.CLOCK_SYNCED)
    if clock is not None and clock.status == "False":
        return [fail("ClockSkewed", clock.message, "timedatectl set-ntp true")]
    return passed(f"accepts {cluster.name} and receives its agent's lease")
