"""`watchword join`: brings the cluster of a kubeconfig, or just this machine, to a hub."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from watchword.addons.catalog import ADDON_CATALOG
from watchword.admin.bootstrap_access import BootstrapAccess, HubAddress, find_hub, require_joinable
from watchword.admin.errors import NotReady
from watchword.admin.join import (
    KLUSTERLET,
    ClusterMembership,
    JoinWait,
    cluster_uid,
    find_server_problem,
    join,
    with_present,
)
from watchword.admin.node_join import NodeJoin
from watchword.api.conditions import is_true
from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.meta import Object, annotations_of
from watchword.api.names import AGENT_NAMESPACE, IMAGE_VARIABLE, Annotation, ConditionType
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.api.validation import format_duration, validate_dns_label, validate_dns_subdomain
from watchword.cli.connection_options import ClusterConnection, cluster_name, cluster_name_of, cluster_options
from watchword.cli.discovery_options import DiscoveryFlags, DiscoveryPlan, choose_plan, discovery_flags, parse_pins
from watchword.cli.driver_options import (
    driver_choice_options,
    driver_options,
    driver_settings,
    with_kubeconfig_settings,
)
from watchword.cli.options import NewFile, file_option, flag, gathered, named, option, text, with_options
from watchword.cli.output import echo, format_document, print_progress, show_result
from watchword.cli.process_options import FeatureGates, KeyValuePairs
from watchword.cli.secret_input import HELP, TOKEN_VARIABLE, SecretReader
from watchword.credentials.driver import Settings, Side, validate_options
from watchword.discovery.discover import ClusterDiscovery, HttpsClientFactory, PollOptions, Progress
from watchword.discovery.discovery_document import parse_endpoint
from watchword.kube.files import read_small_file
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import RequestsCertificate
from watchword.runtime.clock import SystemClock

T = TypeVar("T")


class HubPlan(Struct, frozen=True):
    """How the hub will be found, by one of two ways."""

    by_discovery: DiscoveryPlan | None
    by_address: HubAddress | None
    timeout: timedelta

    async def find(self, progress: Progress) -> BootstrapAccess:
        """Find the hub and make sure that it is the one; raises `DiscoveryError` or `AdminError`."""
        if self.by_address is not None:
            discovery = ClusterDiscovery(HttpsClientFactory(), PollOptions(self.timeout), progress)
            return await find_hub(discovery, self.by_address)
        assert self.by_discovery is not None  # one of the two
        if self.by_discovery.tls_token is None:
            raise click.UsageError("--discovery-file requires --tls-bootstrap-token")
        token = Sensitive(self.by_discovery.tls_token.reveal())
        return BootstrapAccess(await self.by_discovery.discover(progress), token)


HubChoice: TypeAlias = Callable[[timedelta | None], HubPlan]


def choose_hub_plan(
    given: DiscoveryFlags, hub_token: str, hub_apiserver: str, ca_file: Path | None, timeout: timedelta
) -> HubPlan:
    """Decide on one way to the hub; raise `click.UsageError` when the flags mix both."""
    secrets = SecretReader()
    if not (hub_token or hub_apiserver or ca_file):
        return HubPlan(choose_plan(given, secrets, timeout=timeout), None, timeout)
    if replace(given, pins=()) != DiscoveryFlags():
        raise click.UsageError(
            "--hub-token and --hub-apiserver are one way to name the hub, HOST:PORT with --token or --discovery-file "
            "the other: use one of them"
        )
    token = secrets.read(hub_token) if hub_token else secrets.from_environment()
    if not token:
        raise click.UsageError(f"--hub-apiserver needs --hub-token (@FILE and - work), or ${TOKEN_VARIABLE}")
    if not hub_apiserver:
        raise click.UsageError("--hub-token needs --hub-apiserver, the https address of the hub")
    return HubPlan(None, _address(token, hub_apiserver, ca_file, given.pins), timeout)


def _address(token: str, server: str, ca_file: Path | None, pins: tuple[str, ...]) -> HubAddress:
    bundle = b"" if ca_file is None else read_small_file(ca_file, "CA file", limit=MAX_DOCUMENT_BYTES)
    return HubAddress(parse_endpoint(server), Sensitive(token), bundle, parse_pins(pins))


def _hub_choice(
    given: DiscoveryFlags, discovery_timeout: timedelta, hub_token: str, hub_apiserver: str, ca_file: Path | None
) -> HubChoice:
    def choose(limit: timedelta | None) -> HubPlan:
        timeout = discovery_timeout if limit is None else min(limit, discovery_timeout)
        return choose_hub_plan(given, hub_token, hub_apiserver, ca_file, timeout)

    return choose


hub_access_options = gathered(
    "hub",
    _hub_choice,
    text("--hub-token", help=f"Any bearer token of the hub. {HELP}."),
    text("--hub-apiserver", help="https URL of the hub's API server; requires --hub-token."),
    file_option("--ca-file", help="CA bundle (PEM) for --hub-apiserver; not needed with a bootstrap token."),
    discovery_flags,
)
"""Adds the flags of both ways; the command gets `hub`, which makes the `HubPlan` within a time limit."""

OPTIONS = (
    named("--cluster-name", "--cluster", "cluster_name", default="", help="Name of this cluster on the hub; required."),
    text("--cluster-labels", "labels", type=KeyValuePairs(), help="Labels of the ManagedCluster."),
    text(
        "--cluster-annotations",
        "--klusterlet-annotation",
        "annotations",
        type=KeyValuePairs(),
        help="Annotations of the ManagedCluster; names begin with agent.open-cluster-management.io/.",
    ),
    text("--feature-gates", "gates", type=FeatureGates(), help="Feature gates of the Klusterlet; agents ignore them."),
    option(
        "--klusterlet-name", "klusterlet", default=KLUSTERLET, help="Name of the Klusterlet; a cluster has one per hub."
    ),
    named("--namespace", default="", help=f"Namespace of the agent; {AGENT_NAMESPACE} on a new cluster."),
    text(
        "--image",
        envvar=IMAGE_VARIABLE,
        help="Image of the agent, built and pushed by you; by default that of the Klusterlet.",
    ),
    click.option(
        "--deploy/--no-deploy",
        default=None,
        help="Deploy the agent in this cluster, or run it elsewhere; deployed on a new cluster.",
    ),
    text("--node-name", help="Request a kubelet certificate for this machine instead of joining a cluster."),
    click.option(
        "--credential-file", type=NewFile(), help="With --node-name: file for the machine's kubeconfig (0600)."
    ),
    flag("--singleton", hidden=True, help="Ignored; the agent is always one process."),
)


@click.command("join")
@hub_access_options
@with_options(*OPTIONS[:1])
@driver_choice_options()
@driver_options(Side.CLUSTER, stored=True)
@driver_options(Side.JOIN)
@with_options(*OPTIONS[1:])
@cluster_options(
    dry_run="Find and query the hub without changing anything.",
    wait="the cluster has joined",
    also="limit",
    output=True,
)
async def command(connection: ClusterConnection, hub: HubChoice, output: str, **flags: Any) -> None:
    """Join this cluster to a hub.

    The hub is named by HOST:PORT with a token and the pin of its CA, as `watchword init` prints them, by
    --discovery-file, or by --hub-apiserver and --hub-token. No secret is sent before the hub has proved its
    identity. Run it again to change settings or to replace the token: what the command line does not name
    stays as it is.
    """
    if flags["node_name"]:
        await _join_machine(hub, flags, output)
        return
    membership = _membership(flags, connection)
    limit = flags["limit"]
    document = await within(limit, _join(connection, hub(limit), membership, flags))
    lines = [f"would apply {name}" for name in document["applied"]] if flags["dry_run"] else []
    lines += [f"{document['cluster']}: {document['state']}", document["next"]]
    show_result(document, output, lambda: "\n".join(lines))


def _membership(flags: dict[str, Any], connection: ClusterConnection) -> ClusterMembership:
    if flags["credential_file"]:
        raise click.UsageError("--credential-file requires --node-name: a cluster keeps its credential in a Secret")
    name = cluster_name(flags["cluster_name"])
    objection = validate_dns_label(flags["namespace"]) if flags["namespace"] else None
    if objection:
        raise click.BadParameter(f"{flags['namespace']!r} {objection}", param_hint="--namespace")
    objection = validate_dns_subdomain(flags["klusterlet"])
    if objection:
        raise click.BadParameter(f"{flags['klusterlet']!r} {objection}", param_hint="--klusterlet-name")
    given: Settings = {**driver_settings(flags, Side.CLUSTER), **driver_settings(flags, Side.JOIN)}
    auth = flags["registration_auth"]
    registration_auth = CATALOG.find(auth).name if auth else ""
    settings = with_kubeconfig_settings(given, Side.CLUSTER, registration_auth, cluster_name_of(connection))
    addon_auth = ADDON_CATALOG.find(flags["addon_auth"]).name if flags["addon_auth"] else ""
    objections = [*CATALOG.validate(Side.CLUSTER, settings), *CATALOG.validate(Side.JOIN, settings)]
    objections += validate_options(ADDON_CATALOG.options, settings)
    if objections:
        raise click.UsageError("; ".join(objections))
    taken = ("klusterlet", "namespace", "image", "labels", "annotations", "gates")
    return ClusterMembership(
        cluster=name,
        registration_auth=registration_auth,
        addon_auth=addon_auth,
        settings=settings,
        **{field: flags[field] for field in taken},
    )


async def _join(
    connection: ClusterConnection, hub: HubPlan, membership: ClusterMembership, flags: dict[str, Any]
) -> dict[str, Any]:
    wait, dry_run, loop = flags["wait"], flags["dry_run"], asyncio.get_running_loop()
    started = loop.time()
    async with connection.client() as client:
        uid = await cluster_uid(client)
        membership = await with_present(client, membership)
        access = await hub.find(print_progress)
        async with access.client() as joining:
            known = await require_joinable(joining, membership.cluster, uid)
            applied = await join(client, membership, access, deploy=flags["deploy"], dry_run=dry_run)
            print_progress(f"{'would apply' if dry_run else 'applied'} {len(applied)} objects")
            problem = "" if dry_run else await find_server_problem(client, membership)
            if problem:
                warning = f"the agent joins through a server that does not answer from here ({problem}): make sure that"
                print_progress(f"warning: {warning} this cluster reaches it, or join again with the right address")
            if wait is not None and not dry_run:
                left = wait - timedelta(seconds=loop.time() - started) if flags["limit"] else wait
                await JoinWait(client, joining, left, print_progress).run(membership)
    state = _state(known, dry_run=dry_run, joined=wait is not None)
    return {
        "cluster": membership.cluster,
        "state": state,
        "hub-apiserver": access.info.server,
        "registration-auth": membership.registration_driver,
        "applied": applied,
        "next": choose_next(membership, known) if state == ASKS else "",
    }


async def within(limit: timedelta | None, work: Coroutine[Any, Any, T]) -> T:
    """Return the result; `NotReady` when there is none within the limit.

    Waits end at the limit with a reason of their own; requests that hang get a second more.
    """
    try:
        async with asyncio.timeout(None if limit is None else limit.total_seconds() + 1) as timer:
            return await work
    except TimeoutError as cause:
        if limit is None or not timer.expired():
            raise
        raise NotReady(f"not done within {format_duration(limit)}: give a longer --timeout") from cause


ASKS = "asks to join"


def _state(known: Object | None, *, dry_run: bool, joined: bool) -> str:
    if known is not None and is_true(known, ConditionType.JOINED) and is_true(known, ConditionType.HUB_ACCEPTED):
        return "would stay joined, with these settings" if dry_run else "has joined before; its settings are applied"
    return "would ask to join" if dry_run else "joined" if joined else ASKS


def choose_next(membership: ClusterMembership, known: Object | None) -> str:
    """Return what to do on the hub: where a cluster with a key of its own left, its name belongs to the earlier key."""
    cluster, has_key = membership.cluster, isinstance(CATALOG.find(membership.registration_driver), RequestsCertificate)
    if has_key and Annotation.LEFT_ON in annotations_of(known or {}):
        return f"give its new key the name on the hub with: watchword rejoin --take-over --cluster-name {cluster}"
    return f"accept it on the hub with: watchword accept {cluster}"


async def _join_machine(hub: HubChoice, flags: dict[str, Any], output: str) -> None:
    name, path = flags["node_name"], flags["credential_file"]
    objection = validate_dns_subdomain(name)
    if objection:
        raise click.BadParameter(f"{name!r} {objection}", param_hint="--node-name")
    if flags["cluster_name"]:
        raise click.UsageError("--node-name is for a machine, --cluster-name for a cluster: give one of them")
    if path is None:
        raise click.UsageError("--node-name needs --credential-file, where the machine's kubeconfig is written")
    limit: timedelta | None = flags["limit"]
    machine = NodeJoin(name, path, SystemClock(), limit or timedelta(minutes=5), print_progress)
    plan = hub(limit)
    existing_certificate = machine.existing_certificate()
    if existing_certificate is None:
        work = _rehearse(plan) if flags["dry_run"] else _run_machine(machine, plan)
        existing_certificate = await within(limit, work)
    expires = "" if existing_certificate is None else rfc3339(existing_certificate.not_after)
    document = {"node": name, "credential-file": str(path), "expires": expires}
    if output != "table":
        echo(format_document(document, output), nl=False)
    elif existing_certificate is not None:
        echo(f"{path} is the credential of {name} until {expires}")


async def _run_machine(machine: NodeJoin, plan: HubPlan) -> Any:
    loop = asyncio.get_running_loop()
    started = loop.time()
    access = await plan.find(print_progress)
    left = machine.patience - timedelta(seconds=loop.time() - started)
    return await replace(machine, patience=left).run(access)


async def _rehearse(plan: HubPlan) -> None:
    access = await plan.find(print_progress)
    print_progress(f"would ask {access.info.server} for a certificate")
