"""What a managed cluster needs to stay a member of its hub."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from watchword.admin.doctor.model import Check, CheckContext, CheckFinding, fail, passed, warn
from watchword.admin.formatting import format_count
from watchword.admin.health import InventoryHealth, decide_renewed_health
from watchword.agent.secret_data import CLUSTER_NAME, decode_data
from watchword.api.cluster import Cluster
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, ConditionType
from watchword.api.resources import APPLIED_MANIFEST_WORKS, KLUSTERLETS, MANAGED_CLUSTERS, SECRETS
from watchword.drivers.catalog import CATALOG, Catalog
from watchword.drivers.errors import CredentialUnreadable
from watchword.drivers.hub_connector import ConnectorContext
from watchword.drivers.interface import SecretData
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, NotFound, Unauthorized, Unreachable
from watchword.kube.retry import RetryPolicy
from watchword.pki.errors import PkiError

ONE_TRY = RetryPolicy(attempts=1, attempt_timeout=10.0, deadline=10.0)
REJOIN = "watchword rejoin"


async def membership(context: CheckContext) -> Iterable[CheckFinding]:
    """Look whether this cluster has joined anything."""
    try:
        found = (await context.client.list(KLUSTERLETS)).items
    except NotFound:
        return [fail("this is neither a hub nor a cluster that has joined one", "watchword join, or watchword init")]
    if not found:
        return [fail("no Klusterlet says which hub this cluster belongs to", "watchword join")]
    names = ", ".join(str((each.get("spec") or {}).get("clusterName") or "?") for each in found)
    return passed(f"has joined as {names}")


async def credential(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at the credential for the hub, without using it."""
    data = await _held(context)
    if not data:
        bootstrap = await context.client.find(SECRETS, ObjectKey(AGENT_NAMESPACE, BOOTSTRAP_KUBECONFIG_SECRET))
        if bootstrap is None:
            return [fail("there is neither a credential for the hub nor one to join with", "watchword join")]
        return [warn("the hub has not issued a credential yet", "watchword accept --clusters NAME   # on the hub")]
    return decide_credential_findings(data, now=context.clock.now(), catalog=context.catalog)


def decide_credential_findings(data: SecretData, *, now: datetime, catalog: Catalog = CATALOG) -> list[CheckFinding]:
    """Judge the credential that the Secret holds."""
    try:
        held = catalog.read_held(data)
    except CredentialUnreadable as trouble:
        return [fail(str(trouble), REJOIN)]
    if held is None:
        return [warn("the agent waits for its credential", "watchword accept --clusters NAME   # on the hub")]
    if held.validity.expires is None:
        return passed(f"{held.subject or 'the credential'} does not expire")
    health = decide_renewed_health(held.validity, now=now)
    until = f"{held.validity.expires:%Y-%m-%d %H:%M}Z"
    if health is InventoryHealth.EXPIRED:
        return [fail(f"the credential expired at {until}", REJOIN)]
    if health is InventoryHealth.OVERDUE:
        return [fail(f"the credential ends at {until} and was not renewed: does the agent run?", "watchword agent")]
    return passed(f"{held.subject} until {until}")


async def hub(context: CheckContext) -> Iterable[CheckFinding]:
    """Use the credential as the agent does, and read this cluster's own entry on the hub."""
    data = await _held(context)
    driver = context.catalog.holder_of(data)
    if not driver:
        return [warn("the hub was not asked: there is no credential for it yet")]
    name = data.get(CLUSTER_NAME, b"").decode(errors="replace")
    try:
        connector = context.catalog.connector(driver, ConnectorContext(cluster=name, bootstrap=None))
        client = Client(connector.own(data), retry=ONE_TRY)
    except (KubeError, PkiError) as trouble:
        return [fail(f"the credential cannot be used: {trouble}", REJOIN)]
    try:
        return await _ask_hub(client, name)
    finally:
        await client.close()


async def _ask_hub(client: Client, name: str) -> list[CheckFinding]:
    try:
        found = await client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    except Unauthorized:
        return [fail("the hub does not accept this cluster's credential any more", REJOIN)]
    except (Forbidden, NotFound):  # who is denied may still see that
        return [
            fail(f"the hub does not know {name} any more", f"watchword unjoin --cluster-name {name}; then join anew")
        ]
    except Unreachable as trouble:
        return [fail(f"the hub does not answer: {trouble}", "check the way to the hub: address, proxy, firewall")]
    return decide_acceptance_findings(found)


def decide_acceptance_findings(found: Object) -> list[CheckFinding]:
    """Judge what the hub says of this cluster."""
    cluster = Cluster.read(found)
    if not cluster.accepted:
        return [
            fail(
                f"the hub does not let {cluster.name} in", f"watchword accept --clusters {cluster.name}   # on the hub"
            )
        ]
    if not is_true(found, ConditionType.AVAILABLE):
        return [fail(f"the hub does not hear {cluster.name}'s agent", "watchword agent")]
    return passed(f"lets {cluster.name} in and hears its agent")


async def work(context: CheckContext) -> Iterable[CheckFinding]:
    """Look for what was deployed here by a hub that is gone."""
    try:
        works = (await context.client.list(APPLIED_MANIFEST_WORKS)).items
    except NotFound:
        return passed("nothing is deployed by a hub")
    return passed(f"{format_count(len(works), 'work')} of the hub applied here")


async def _held(context: CheckContext) -> SecretData:
    return decode_data(await context.client.find(SECRETS, ObjectKey(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET)))


CHECKS = (
    Check("membership", membership, required=True),
    Check("credential", credential),
    Check("hub", hub),
    Check("work", work),
)
