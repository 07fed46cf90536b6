"""The startup steps of a fleet on this machine, the same as on real clusters, as data."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from watchword.accounts.clients import ClusterClients
from watchword.addons.catalog import ADDON_CATALOG
from watchword.addons.driver import RequestsAddonCertificate
from watchword.addons.hub.definition_controllers import run_addon
from watchword.addons.sample.hub import NAME as SAMPLE_ADDON
from watchword.addons.sample.hub import SAMPLE
from watchword.admin.accept import ClusterAcceptor, HubAdmin
from watchword.admin.addons import AccountsAddonAdmin
from watchword.admin.bootstrap_access import HubAddress, find_hub
from watchword.admin.errors import NotReady
from watchword.admin.hub_setup import HubSetup, set_up_hub, validate_signed
from watchword.admin.init import TokenSpec, ensure_token
from watchword.admin.join import ClusterMembership, join
from watchword.admin.service_accounts import validate_reported
from watchword.admin.wait import ObjectWaiter
from watchword.api.accounts import ADDON_NAME
from watchword.api.bootstrap import CLUSTER_INFO
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import CLUSTER_LEASE, ConditionType, Label
from watchword.api.pull_secrets import ANNOTATION_PULL_SECRET
from watchword.api.resources import (
    CONFIG_MAPS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339_micro
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.credentials.driver import Settings
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.discover import (
    ClusterDiscovery,
    HttpsClientFactory,
    PollAgain,
    PollOptions,
    Progress,
    ignore_progress,
    poll_until,
)
from watchword.discovery.token_secret import TokenStore
from watchword.health.facts import EVENT_SOURCE
from watchword.health.hub_observer import observe_hub
from watchword.health.inventory import decide_addon_row
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import AlreadyExists
from watchword.local.control_plane import LocalControlPlane
from watchword.local.fleet import LocalFleet, for_each
from watchword.local.trials import CLUSTER_SETTINGS, HUB_SETTINGS, JOIN_SETTINGS
from watchword.operator.pull_secret_manifests import PullSecretBundleOptions, pull_secret_bundle
from watchword.operator.rendering import PodSettings
from watchword.processes.hub import HUB_LEASE
from watchword.pullsecrets.inventory import PullSecretHealth, pull_secret_row
from watchword.pullsecrets.pull_secret import PullSecret, project_pull_secret
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import RequestsCertificate
from watchword.runtime.clock import Clock

ACCOUNT = ObjectKey("demo", "robot")
CLUSTER_SET = "demo"  # of the clusters with the add-on
SET_MEMBER = {"watchword.dev/demo": "accounts"}
ENABLED_ON = 2  # the first clusters: one for each driver
REGISTRY, AUDIENCE = "registry.example:5000", "registry.example"
PULLING_ACCOUNT = ObjectKey("default", "default")
_ADVICE = "see `kubectl -n watchword-pull-secrets get pods`"


async def start_accounts(fleet: LocalFleet) -> list[LocalControlPlane]:
    """Have the hub serve accounts, enable the add-on on the first clusters, declare one account; return them."""
    members = fleet.clusters[:ENABLED_ON]
    client = fleet.hub.client
    await AccountsAddonAdmin(client).install()
    binding = MANAGED_CLUSTER_SET_BINDINGS.manifest(
        ObjectKey(ACCOUNT.namespace, CLUSTER_SET), spec={"clusterSet": CLUSTER_SET}
    )
    addons = [MANAGED_CLUSTER_ADDONS.manifest(ObjectKey(member.name, ADDON_NAME), spec={}) for member in members]
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": SET_MEMBER}}
    chosen = MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(CLUSTER_SET), spec={"clusterSelector": selector})
    for member in members:
        await client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(member.name), {"metadata": {"labels": SET_MEMBER}})
    for resource, manifest in (
        (MANAGED_CLUSTER_SETS, chosen),
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ACCOUNT.namespace))),
        (MANAGED_CLUSTER_SET_BINDINGS, binding),
        *((MANAGED_CLUSTER_ADDONS, addon) for addon in addons),
        (MANAGED_SERVICE_ACCOUNTS, MANAGED_SERVICE_ACCOUNTS.manifest(ACCOUNT, spec={})),
    ):
        with suppress(AlreadyExists):  # a fleet that was up before
            await client.create(resource, manifest)
    return members


async def await_pull_secret(member: LocalControlPlane, clock: Clock, progress: Progress) -> str:
    """Wait until an account has a pull secret with a valid token, and return the name of the secret."""
    waiter = ObjectWaiter(member.client, progress=progress)
    account = await waiter.until(SERVICE_ACCOUNTS, PULLING_ACCOUNT, validate_reference, advice=_ADVICE)
    name = annotations_of(account)[ANNOTATION_PULL_SECRET]
    key = ObjectKey(PULLING_ACCOUNT.namespace, name)
    await waiter.until(SECRETS, key, partial(validate_token, clock), advice=_ADVICE)
    return name


def validate_reference(account: Object | None) -> str:
    named = annotations_of(account or {}).get(ANNOTATION_PULL_SECRET)
    return "" if named else f"ServiceAccount {PULLING_ACCOUNT} waits for its pull secret"


def validate_token(clock: Clock, secret: Object | None) -> str:
    projected = None if secret is None else project_pull_secret(secret)
    found = None if projected is None else PullSecret.read(projected)
    is_healthy = found is not None and pull_secret_row(found, now=clock.now()).health is PullSecretHealth.HEALTHY
    return "" if is_healthy else f"the pull secret of ServiceAccount {PULLING_ACCOUNT} waits for a token"


ReportDetail: TypeAlias = Callable[[str], None]
"""Reports progress of the step that is running."""


def is_ready_for_decision(cluster: Object | None, requests: Sequence[Object], *, by_request: bool = True) -> bool:
    """Whether a cluster can be decided about: it was before, or its request is there, where its driver makes one.

    A request that is approved already counts: a crash may come between the approval and the acceptance.
    """
    if cluster is None:
        return False
    name = cluster["metadata"]["name"]
    asked = any(labels_of(csr).get(Label.CLUSTER_NAME) == name for csr in requests)
    return asked or not by_request or is_decided(cluster)


def is_decided(cluster: Object) -> bool:
    """Whether the administrator accepted or denied a cluster already: a denial stands."""
    accepted = (cluster.get("spec") or {}).get("hubAcceptsClient") is True
    return accepted or find_condition(cluster, ConditionType.HUB_ACCEPTED) is not None


def is_settled(cluster: Object | None, lease: Object | None, since: datetime) -> bool:
    """Whether a cluster has reached its final state: it works and reports, its lease is renewed, or it was denied.

    Conditions survive a restart; a lease that was renewed since proves that the agent runs.
    """
    if cluster is None:
        return False
    if (cluster.get("spec") or {}).get("hubAcceptsClient") is not True:
        return is_decided(cluster)
    credential = CATALOG.find_credential(cluster)
    has_credential = credential is not None and credential.status == "True"
    works = is_true(cluster, ConditionType.JOINED) and is_true(cluster, ConditionType.AVAILABLE)
    return works and has_credential and is_renewed_since(lease, since)


def is_renewed_since(lease: Object | None, since: datetime) -> bool:
    renewed = ((lease or {}).get("spec") or {}).get("renewTime") or ""
    return str(renewed) >= rfc3339_micro(since)


class UpStep(Struct, frozen=True):
    """One step; `run` returns its result as text."""

    key: str
    title: str
    run: Callable[[LocalFleet, ReportDetail], Awaitable[str]]
    of_clusters: bool = True  # left out when there are none


async def start_control_planes(fleet: LocalFleet, report: ReportDetail) -> str:
    if fleet.cloud is not None:
        report(f"the emulator of {fleet.cloud.trial.name}")
        await fleet.start_cloud(fleet.cloud)
    report(fleet.hub.name)
    await fleet.start_member(fleet.hub)
    if fleet.cloud is not None:
        await fleet.cloud.prove_hub(fleet.hub.client)
    report(_count(fleet.clusters))
    await for_each(fleet.clusters, fleet.start_member)
    fleet.write_kubeconfig()
    return f"hub and {_count(fleet.clusters)} on loopback ports" if fleet.clusters else "hub on a loopback port"


async def make_hub(fleet: LocalFleet, report: ReportDetail) -> str:
    """Make one of them a hub: an operator and a ClusterManager, which deploys the controllers."""
    server = fleet.hub.instance.server
    report("operator, kinds, roles and cluster-info")
    driver = fleet.layout.registration_auth
    drivers = (driver,) if fleet.cloud is not None else (CATALOG.default, driver) if driver else ()
    settings = fleet.cloud.trial.hub_settings if fleet.cloud is not None else HUB_SETTINGS.get(driver, {})
    info = ClusterInfo((server,), fleet.authorities)
    await set_up_hub(fleet.hub.client, HubSetup(info, drivers=drivers, settings=settings))
    fleet.observer = await fleet.stack.enter_async_context(observe_hub(fleet.hub.client, {}, extra=(EVENT_SOURCE,)))
    report("operator at work, waiting for the controllers")
    await fleet.hub_observer.until(lambda: is_renewed_since(fleet.lease(HUB_LEASE), fleet.since))
    return server


async def make_token(fleet: LocalFleet, report: ReportDetail) -> str:
    record = fleet.token = await ensure_token(TokenStore(fleet.hub.client), TokenSpec(), now=fleet.clock.now())

    def signed() -> bool:
        missing = validate_signed(record.token.id, fleet.hub_observer.cache.get(CONFIG_MAPS, CLUSTER_INFO))
        if missing:
            report(missing)
        return not missing

    await fleet.hub_observer.until(signed)
    return f"token {record.token.id}, good for a day"


async def discover_hub(fleet: LocalFleet, report: ReportDetail) -> str:
    record = fleet.token
    assert record is not None, "made in the step before"
    pins = tuple(authority.pin for authority in fleet.authorities)
    address = HubAddress(fleet.hub.instance.server, Sensitive(record.token.reveal()), pins=pins)
    discovery = ClusterDiscovery(HttpsClientFactory(), PollOptions(timedelta(seconds=20)), report)

    async def one(member: LocalControlPlane) -> None:
        fleet.access[member.name] = await find_hub(discovery, address)

    await for_each(fleet.clusters, one)
    return f"signature and CA pin checked by {_count(fleet.clusters)}"


async def join_clusters(fleet: LocalFleet, report: ReportDetail) -> str:
    """Give each cluster a Klusterlet and an operator, which deploys the agent; one that joined before stays itself."""
    ways = addon_drivers(fleet)
    driver = fleet.layout.registration_auth
    settings = {**CLUSTER_SETTINGS, **await driver_settings(fleet)}

    async def one(member: LocalControlPlane) -> None:
        own = await cloud_settings(fleet, member)
        membership = ClusterMembership(
            member.name, registration_auth=driver, addon_auth=ways[member.name], settings={**settings, **own}
        )
        await join(member.client, membership, fleet.access[member.name])

    report("operators and Klusterlets")
    await for_each(fleet.clusters, one)
    names = set(ways)

    def introduced() -> bool:
        known = {cluster["metadata"]["name"] for cluster in fleet.hub_observer.clusters()} & names
        report(f"{len(known)} of {len(names)} known to the hub")
        return known == names

    await fleet.hub_observer.until(introduced)
    return f"{_count(fleet.clusters)} known to the hub"


def addon_drivers(fleet: LocalFleet) -> dict[str, str]:
    """Return how the add-ons of each cluster get their credential: in turn, so that every way is seen.

    A hub in a cloud signs no certificates.
    """
    names = [
        driver.name
        for driver in reversed(ADDON_CATALOG.drivers)
        if fleet.cloud is None or not isinstance(driver, RequestsAddonCertificate)
    ]
    return {member.name: names[number % len(names)] for number, member in enumerate(fleet.clusters)}


async def cloud_settings(fleet: LocalFleet, member: LocalControlPlane) -> Settings:
    if fleet.cloud is None:
        return {}
    await fleet.cloud.prove_agent(member.name, member.client)
    return fleet.cloud.trial.cluster_settings(fleet.clusters.index(member) + 1)


async def driver_settings(fleet: LocalFleet) -> Settings:
    """Return the flags with which clusters reach the server of their driver, once the hub has made it ready."""
    find = JOIN_SETTINGS.get(fleet.layout.registration_auth)
    if find is None:
        return {}
    server = f"localhost:{fleet.layout.server_port}"

    async def ask() -> Settings:
        found = await find(fleet.hub.client, server, fleet.folder.path)
        if found is None:
            waiting = "waiting for the hub to prepare the server of its driver"
            raise PollAgain(waiting, NotReady(f"{waiting}: see the log of the hub's pod"))
        return found

    return await poll_until(ask, PollOptions(timedelta(minutes=1), pause=timedelta(milliseconds=200)), ignore_progress)


async def accept_clusters(fleet: LocalFleet, report: ReportDetail) -> str:
    """Accept each cluster as an administrator would: once it has a request, and nothing contradicts it."""
    acceptor = ClusterAcceptor(HubAdmin(fleet.hub.client, fleet.clock), ApprovalTerms())
    by_request = isinstance(CATALOG.find(fleet.layout.registration_auth), RequestsCertificate)
    accepted: list[str] = []

    async def one(member: LocalControlPlane) -> None:
        await fleet.hub_observer.until(
            lambda: is_ready_for_decision(
                cluster_of(fleet, member.name), fleet.hub_observer.requests(), by_request=by_request
            )
        )
        cluster = cluster_of(fleet, member.name)
        if cluster is not None and not is_decided(cluster):
            await acceptor.accept(member.name)
            accepted.append(member.name)
            report(f"accepted {member.name}")

    await asyncio.gather(*map(one, fleet.clusters))
    return f"accepted {len(accepted)} of {len(fleet.clusters)}" if accepted else "all accepted before"


async def await_members(fleet: LocalFleet, report: ReportDetail) -> str:
    names = [member.name for member in fleet.clusters]

    def settled() -> bool:
        leases = {name: fleet.lease(ObjectKey(name, CLUSTER_LEASE)) for name in names}
        ready = [name for name in names if is_settled(cluster_of(fleet, name), leases[name], fleet.since)]
        report(f"{len(ready)} of {len(names)} available")
        return len(ready) == len(names)

    await fleet.hub_observer.until(settled)
    return f"{_count(fleet.clusters)} available, each with its own credential"


async def enable_addon(fleet: LocalFleet, report: ReportDetail) -> str:
    """Enable the sample add-on; where the hub signs, with a token on one cluster and a certificate on the other."""
    members = fleet.clusters[:ENABLED_ON]
    fleet.supervisor.start(
        "sample add-on", lambda stop: run_addon(fleet.hub.client, SAMPLE, clock=fleet.clock, stop=stop)
    )
    for member in members:
        with suppress(AlreadyExists):  # a fleet that was up before
            key = ObjectKey(member.name, SAMPLE_ADDON)
            await fleet.hub.client.create(MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTER_ADDONS.manifest(key, spec={}))
    await _await_addon(fleet, SAMPLE_ADDON, members, report)
    ways = [f"{member.name} by {addon_drivers(fleet)[member.name]}" for member in members]
    return f"sample-addon at work on {' and '.join(ways)}"


async def report_tokens(fleet: LocalFleet, report: ReportDetail) -> str:
    members = await start_accounts(fleet)
    report("waiting for the tokens at the hub")
    async with ClusterClients(fleet.hub.client, ACCOUNT.name, namespace=ACCOUNT.namespace) as clusters:
        answers = [await who_am_i(await clusters.client(member.name, within=60)) for member in members]
    waiter = ObjectWaiter(fleet.hub.client, progress=report)
    for member in members:
        key = ObjectKey(member.name, ACCOUNT.name)
        await waiter.until(MANAGED_SERVICE_ACCOUNTS, key, validate_reported, advice="see `watchword doctor`")
    await _await_addon(fleet, ADDON_NAME, members, report)
    return f"{answers[0].username} on {' and '.join(member.name for member in members)}, by tokens from the hub"


async def issue_pull_secrets(fleet: LocalFleet, report: ReportDetail) -> str:
    member = fleet.clusters[0]
    # Deploy the controllers as `watchword manifests pull-secrets` prints them.
    options = PullSecretBundleOptions(registries=(REGISTRY,), audience=AUDIENCE, pods=PodSettings(replicas=1))
    for resource, manifest in pull_secret_bundle(options):
        with suppress(AlreadyExists):  # a fleet that was up before
            await member.client.create(resource, manifest)
    name = await await_pull_secret(member, fleet.clock, report)
    return f"Secret {name} of ServiceAccount {PULLING_ACCOUNT} on {member.name} has a token for {REGISTRY}"


async def _await_addon(
    fleet: LocalFleet, name: str, members: Sequence[LocalControlPlane], report: ReportDetail
) -> None:

    def served() -> bool:
        addons = {ObjectKey.of(addon): addon for addon in fleet.hub_observer.addons()}
        found = [addons[key] for key in (ObjectKey(member.name, name) for member in members) if key in addons]
        ready = [
            addon
            for addon in found
            if decide_addon_row(addon).credential == "yes" and is_true(addon, ConditionType.ADDON_AVAILABLE)
        ]
        report(f"{len(ready)} of {len(members)} at work")
        return len(ready) == len(members)

    await fleet.hub_observer.until(served)


def cluster_of(fleet: LocalFleet, name: str) -> Object | None:
    return fleet.hub_observer.cache.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))


def _count(clusters: list[LocalControlPlane]) -> str:
    return "1 cluster" if len(clusters) == 1 else f"{len(clusters)} clusters"


STEPS: tuple[UpStep, ...] = (
    UpStep("planes", "Start the control planes", start_control_planes, of_clusters=False),
    UpStep("hub", "Make one a hub", make_hub, of_clusters=False),
    UpStep("token", "Make a join token", make_token, of_clusters=False),
    UpStep("discovery", "Find the hub by the token", discover_hub),
    UpStep("join", "Join the hub", join_clusters),
    UpStep("acceptance", "Accept the clusters", accept_clusters),
    UpStep("members", "Wait for the members", await_members),
    UpStep("add-on", "Enable the sample add-on", enable_addon),
    UpStep("account", "Use a managed service account", report_tokens),
    UpStep("pull-secret", "Issue image pull secrets", issue_pull_secrets),
)


def choose_steps(clusters: int) -> tuple[UpStep, ...]:
    return tuple(step for step in STEPS if clusters or not step.of_clusters)
