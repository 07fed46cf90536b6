"""What a managed cluster needs to stay a member of its hub."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import urlsplit

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, Annotation, ConditionType
from watchword.api.resources import APPLIED_MANIFEST_WORKS, KLUSTERLETS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.credentials.errors import CredentialUnreadable
from watchword.credentials.secret_data import decode_data
from watchword.health.checks import Check, CheckContext, CheckFinding, fail, passed, warn
from watchword.health.deployments import examine_agent_operator
from watchword.health.formatting import format_count, format_key
from watchword.health.states import InventoryHealth, decide_renewed_health, is_denied
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, NotFound, Unauthorized, Unreachable
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.request_sender import RetryPolicy
from watchword.operator.klusterlet_manifests import namespace_of
from watchword.pki.errors import PkiError
from watchword.registration.catalog import CATALOG, Catalog, make_connector
from watchword.registration.hub_connector import ConnectorContext

ONE_TRY = RetryPolicy(attempts=1, attempt_timeout=10.0, deadline=10.0)
ASK_THE_HUB = "watchword token create --print-join-command   # on the hub: it prints the rest of the command"


class Membership(Struct, frozen=True):
    """One hub that this cluster belongs to, as its Klusterlet says."""

    cluster: str
    namespace: str
    hub: str  # its address

    @property
    def rejoin(self) -> str:
        return f"watchword rejoin {self.hub} --cluster-name {self.cluster} --token TOKEN ...   # {ASK_THE_HUB}"

    @property
    def accept(self) -> str:
        return f"watchword accept --clusters {self.cluster}   # on the hub"

    @property
    def look(self) -> str:
        return f"kubectl -n {self.namespace} get pods"


async def memberships(context: CheckContext) -> list[Membership]:
    rows = (await context.client.list(KLUSTERLETS)).items
    return [
        Membership(
            str((row.get("spec") or {}).get("clusterName") or row["metadata"]["name"]),
            namespace_of(row),
            await _hub_address(context, row),
        )
        for row in rows
    ]


async def _hub_address(context: CheckContext, klusterlet: Object) -> str:
    """Return HOST:PORT of the hub as the agent knows it; its form when no Secret names one."""
    for name in (HUB_KUBECONFIG_SECRET, BOOTSTRAP_KUBECONFIG_SECRET):
        data = decode_data(await context.client.find(SECRETS, ObjectKey(namespace_of(klusterlet), name)))
        with contextlib.suppress(KubeError):
            return urlsplit(parse_kubeconfig(data.get(KUBECONFIG, b"")).choose().cluster.server).netloc
    return "HOST:PORT"


async def membership(context: CheckContext) -> Iterable[CheckFinding]:
    try:
        found = await memberships(context)
    except NotFound:
        return [fail("this is neither a hub nor a cluster that has joined one", f"watchword init, or {ASK_THE_HUB}")]
    if not found:
        return [fail("no Klusterlet says which hub this cluster belongs to", ASK_THE_HUB)]
    return passed(f"has joined as {', '.join(each.cluster for each in found)}")


async def credential(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at the credential for each hub, without using it."""
    return [finding for each in await memberships(context) for finding in await _examine_credential(context, each)]


async def _examine_credential(context: CheckContext, member: Membership) -> list[CheckFinding]:
    secret = await context.client.find(SECRETS, ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET))
    noted = annotations_of(secret or {})
    if Annotation.HUB_UNREACHABLE in noted:
        what = f"the agent cannot reach the hub: {noted[Annotation.HUB_UNREACHABLE]}"
        return [fail(what, "check the way to the hub: address, proxy, firewall")]
    if Annotation.NOT_REGISTERED in noted:
        return [fail(f"the hub does not register this cluster: {noted[Annotation.NOT_REGISTERED]}", member.rejoin)]
    data = decode_data(secret)
    if not data:
        bootstrap = await context.client.find(SECRETS, ObjectKey(member.namespace, BOOTSTRAP_KUBECONFIG_SECRET))
        if bootstrap is None:
            return [fail("there is neither a credential for the hub nor one to join with", ASK_THE_HUB)]
        return [warn("the hub has not issued a credential yet", member.accept)]
    return decide_credential_findings(data, member, now=context.clock.now(), catalog=context.catalog)


def decide_credential_findings(
    data: SecretData, member: Membership, *, now: datetime, catalog: Catalog = CATALOG
) -> list[CheckFinding]:
    asking = describe_pending_key(catalog.read_pending_key(data))
    try:
        held = catalog.read_held(data)
    except CredentialUnreadable as trouble:
        return [fail(str(trouble), member.rejoin)]
    if held is None:
        return [warn(f"the agent waits for its credential{asking}", member.accept)]
    if held.validity.expires is None:
        return passed(f"{held.subject or 'the credential'} does not expire")
    health = decide_renewed_health(held.validity, now=now)
    until = f"{held.validity.expires:%Y-%m-%d %H:%M}Z"
    if health is InventoryHealth.EXPIRED:
        return [fail(f"the credential expired at {until}{asking}", member.rejoin)]
    if health is InventoryHealth.OVERDUE:
        return [fail(f"the credential ends at {until} and was not renewed: does the agent run?", member.look)]
    key = f", with the key {format_key(held.key)}" if held.key else ""
    return passed(f"{held.subject or 'the credential'} until {until}{key}{asking}")


def describe_pending_key(key: str) -> str:
    """Say with which key the agent asks for a credential, as the hub shows it; empty when it does not ask."""
    return f"; it asks with the key {format_key(key)}" if key else ""


async def hub(context: CheckContext) -> Iterable[CheckFinding]:
    """Use each credential as the agent does, and read this cluster's own entry on the hub."""
    return [finding for each in await memberships(context) for finding in await _examine_hub(context, each)]


async def _examine_hub(context: CheckContext, member: Membership) -> list[CheckFinding]:
    data = await _held(context, member)
    driver = context.catalog.holder_of(data)
    if not driver:
        return [warn("the hub was not asked: there is no credential for it yet", member.accept)]
    try:
        connector = make_connector(
            context.catalog.find(driver), ConnectorContext(cluster=member.cluster, bootstrap=None)
        )
        client = Client(connector.own(data), retry=ONE_TRY)
    except (KubeError, PkiError) as trouble:
        return [fail(f"the credential cannot be used: {trouble}", member.rejoin)]
    try:
        return await _ask_hub(client, member)
    finally:
        await client.close()


async def _ask_hub(client: Client, member: Membership) -> list[CheckFinding]:
    name = member.cluster
    try:
        found = await client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    except Unauthorized:
        return [fail("the hub does not accept this cluster's credential any more", member.rejoin)]
    except (Forbidden, NotFound):  # a denied cluster may still see that it is denied
        again = f"watchword unjoin --cluster-name {name}   # then join again: {ASK_THE_HUB}"
        return [fail(f"the hub does not know {name} any more", again)]
    except Unreachable as trouble:
        return [fail(f"the hub does not answer: {trouble}", "check the way to the hub: address, proxy, firewall")]
    return decide_acceptance_findings(found, member)


def decide_acceptance_findings(found: Object, member: Membership) -> list[CheckFinding]:
    cluster = Cluster.read(found)
    if not cluster.accepted and is_denied(found):
        return [fail(f"the hub's administrator denied {cluster.name}", "ask the hub's administrator why")]
    if not cluster.accepted:
        return [fail(f"the hub has not accepted {cluster.name} yet", member.accept)]
    if not is_true(found, ConditionType.AVAILABLE):
        return [fail(f"the hub receives no lease of {cluster.name}'s agent", member.look)]
    clock = find_condition(found, ConditionType.CLOCK_SYNCED)
    if clock is not None and clock.status == "False":
        return [fail(clock.message, "timedatectl set-ntp true")]
    return passed(f"accepts {cluster.name} and receives its agent's lease")


async def work(context: CheckContext) -> Iterable[CheckFinding]:
    try:
        works = (await context.client.list(APPLIED_MANIFEST_WORKS)).items
    except NotFound:
        return passed("nothing is deployed by a hub")
    return passed(f"{format_count(len(works), 'work')} of the hub applied here")


async def _held(context: CheckContext, member: Membership) -> SecretData:
    return decode_data(await context.client.find(SECRETS, ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET)))


CHECKS = (
    Check("membership", membership, required=True),
    Check("operator", examine_agent_operator),
    Check("credential", credential),
    Check("hub", hub),
    Check("work", work),
)
