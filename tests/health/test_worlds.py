"""Broken worlds: every view names the cause, in the same words, with the same next command."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import click
import orjson
import pytest
from tests.dashboard.harness import a_request
from tests.dashboard.test_fleet import following
from tests.health.conftest import CONTROLLER, World
from tests.health.test_server_checks import HOST, published
from tests.helpers.credential_fleet import DAY, HOUR

from watchword.admin.hub_setup import HubSetup, set_up_hub
from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED, CLUSTER_INFO, KUBECONFIG_KEY
from watchword.api.credential_report import CredentialValidity, format_validity
from watchword.api.meta import ObjectKey, Resource
from watchword.api.names import CLUSTER_LEASE, HUB_NAMESPACE, Annotation, ConditionType, Label
from watchword.api.pull_secrets import CONFIGURATION, DOCKERCFG_KEY
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
    SECRETS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from watchword.api.time import rfc3339
from watchword.cli.main import cli
from watchword.discovery.cluster_info import ClusterInfo, write_cluster_info
from watchword.discovery.token_secret import TokenRecord, TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.health.examination import Examination
from watchword.health.facts import LOCKS
from watchword.health.finding import Severity, urgent
from watchword.health.hub_reader import read_hub_facts
from watchword.health.hub_rules import decide_hub_findings
from watchword.health.inventory import build_inventory
from watchword.health.states import InventoryHealth
from watchword.operator.cluster_manager import CLUSTER_MANAGER
from watchword.operator.pull_secret_manifests import REGISTRY_AUTH
from watchword.operator.rendering import OPERATOR
from watchword.pki.authority import Authority
from watchword.pki.certificates import split_bundle
from watchword.registration.grpc.driver import HOSTS

pytestmark = pytest.mark.planes("embedded")  # the real one is shared, so what others left would be found

PROBED = ("rights", "guard", "issuing")  # only doctor tries these
EDGE = ObjectKey.cluster("edge")
REFUSAL = {"metadata": {"annotations": {ANNOTATION_SIGNING_REFUSED: "it has another CA"}}}
GRPC_SERVER = ObjectKey(HUB_NAMESPACE, "cluster-manager-grpc-server")
POLICY = ObjectKey.cluster("managedcluster-acceptance.watchword.dev")


async def attention(world: World) -> dict[str, set[tuple[str, str]]]:
    """Return what each view says needs attention: sentence and next command; the metric counts the same."""
    client, clock = world.plane.client(), world.plane.clock
    doctor = [each for each in await Examination(client, clock).run() if each.check not in PROBED]
    status = decide_hub_findings(await read_hub_facts(client), now=clock.now())
    async with following(world.plane) as fleet:
        rows = [row.fields() for objects in fleet.index.objects.values() for row in objects.rows]
        samples = list(fleet.metrics.gauge.samples())
    counted = {(labels["severity"], labels["reason"]): count for _, labels, count in samples if count}
    assert counted == Counter((each.severity.label, each.reason) for _, each in urgent(status))
    shown = [row for row in rows if InventoryHealth(row["health"]).needs_attention]
    return {
        "doctor": {(each.sentence, each.command) for _, each in urgent(doctor)},
        "status": {(each.sentence, each.command) for _, each in urgent(status)},
        "dashboard": {(row["note"], row["command"]) for row in shown},
    }


Break = Callable[[World], Awaitable[None]]
WAITING = {"reason": "ImagePullBackOff", "message": "lookup r.test: no such host"}


async def unsigned_request(world: World) -> None:
    request = a_request("edge")
    request["spec"]["signerName"] = "example.com/none"
    await world.create(CERTIFICATE_SIGNING_REQUESTS, request)
    ago = rfc3339(world.now - timedelta(seconds=60))
    approved = {"type": "Approved", "status": "True", "reason": "R", "message": "M", "lastTransitionTime": ago}
    patch = {"status": {"conditions": [approved]}}
    await world.patch(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster("edge-1"), patch, "approval")


async def unsigned_token(world: World) -> None:
    record = TokenRecord(BootstrapToken.parse("abcdef.0123456789abcdef"), expires=world.now + DAY)
    await TokenStore(world.plane.client()).create(record)


async def damaged_token(world: World) -> None:
    data = {"token-id": "YQ==", "token-secret": "YQ=="}
    key = ObjectKey("kube-system", "bootstrap-token-abcdef")
    await world.create(SECRETS, SECRETS.manifest(key, type="bootstrap.kubernetes.io/token", data=data))


async def stuck_job(world: World) -> None:
    pod = {"containers": [{"name": "c", "image": "r.test/nope"}], "restartPolicy": "Never"}
    job = JOBS.manifest(ObjectKey(HUB_NAMESPACE, "cluster-cleaner-1"), spec={"template": {"spec": pod}})
    await world.create(JOBS, job, {"active": 1, "startTime": rfc3339(world.now - timedelta(minutes=6))})


async def damaged_pull_secret(world: World) -> None:
    content = base64.b64encode(orjson.dumps({"registry.example:5000": {"auth": "bm90"}})).decode()
    await world.patch(SECRETS, ObjectKey("shop", "default-dockercfg"), {"data": {DOCKERCFG_KEY: content}})


async def expired_pull_secret(world: World) -> None:
    await world.fleet.pull_secret("late", age=25 * HOUR)


async def authority_ends(world: World, left: timedelta) -> None:
    made = Authority.make("kubernetes", now=world.now + left - timedelta(days=3650))
    found = await world.plane.client().get(CONFIG_MAPS, CLUSTER_INFO)
    info = write_cluster_info(ClusterInfo(("https://hub.test:6443",), (made.certificate,)))
    await world.patch(CONFIG_MAPS, CLUSTER_INFO, {"data": {**found["data"], KUBECONFIG_KEY: info}})


async def serve_grpc(world: World, *, host: str = HOST, replicas: int = 1, hosts: str = HOST) -> None:
    """Let clusters register over gRPC too, with a server and its certificate."""
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(world.plane.ca_pem))
    settings = {HOSTS.flag: hosts} if hosts else {}
    await set_up_hub(world.plane.client(), HubSetup(info, ("csr", "grpc"), settings, deploy=False))
    await world.create(CONFIG_MAPS, published(host=host, now=world.now))
    await world.deploy(GRPC_SERVER, replicas=replicas)


def said(resource: Resource, key: ObjectKey, type_: str, status: str, message: str = "M") -> Break:
    return lambda world: world.say(resource, key, type_, status, message)


def expired(message_of: str, resource: Resource, key: ObjectKey) -> Break:
    async def break_(world: World) -> None:
        message = format_validity(CredentialValidity(world.now - 2 * DAY, world.now - HOUR))
        await world.say(resource, key, message_of, "True", message)

    return break_


ADDON, ACCOUNT = ObjectKey("edge", "sample"), ObjectKey("edge", "robot")
WORLDS: dict[str, tuple[Break, str, str]] = {
    "hub's controllers never ran": (
        lambda world: world.delete(LEASES, LOCKS["the hub's controllers"]),
        "holds the lease",
        f"kubectl -n {HUB_NAMESPACE} get pods",
    ),
    "hub's controllers stopped": (
        lambda world: world.renew(LOCKS["the hub's controllers"], timedelta(minutes=1), seconds=1, holder=""),
        "holds the lease",
        f"kubectl -n {HUB_NAMESPACE} get pods",
    ),
    "hub's controllers hang": (
        lambda world: world.renew(LOCKS["the hub's controllers"], timedelta(minutes=1)),
        "renewed its lease 60s ago",
        f"kubectl -n {HUB_NAMESPACE} get pods",
    ),
    "operator hangs": (
        lambda world: world.renew(LOCKS["the operator"], timedelta(minutes=1)),
        "no process of the operator runs",
        f"kubectl -n {OPERATOR.namespace} get pods",
    ),
    "operator at zero replicas": (
        lambda world: world.redeploy(OPERATOR, replicas=0),
        "is scaled to 0",
        f"kubectl -n {OPERATOR.namespace} scale deployment {OPERATOR.name} --replicas=1",
    ),
    "hub's controllers at zero replicas": (
        lambda world: world.redeploy(CONTROLLER, replicas=0),
        "is scaled to 0",
        f"kubectl -n {HUB_NAMESPACE} scale deployment {CONTROLLER.name} --replicas=1",
    ),
    "image that cannot be pulled": (
        lambda world: world.redeploy(CONTROLLER, ready=False, state={"waiting": WAITING}),
        "cannot pull r.test/watchword:x from r.test: no such host",
        f"kubectl -n {HUB_NAMESPACE} describe pod {CONTROLLER.name}-1",
    ),
    "operator crashes": (
        lambda world: world.redeploy(
            OPERATOR, ready=False, state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
        ),
        "waits: CrashLoopBackOff",
        f"kubectl -n {OPERATOR.namespace} describe pod {OPERATOR.name}-1",
    ),
    "disk is full": (
        lambda world: world.redeploy(
            CONTROLLER,
            ready=False,
            state={"terminated": {"exitCode": 1, "message": "no space left on device"}},
        ),
        "no space left on device",
        f"kubectl -n {HUB_NAMESPACE} describe pod {CONTROLLER.name}-1",
    ),
    "hub's Deployment deleted with its namespace": (
        lambda world: world.delete(DEPLOYMENTS, CONTROLLER),
        f"there is no Deployment {CONTROLLER}",
        "watchword init",
    ),
    "ClusterManager is degraded": (
        said(CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER), "HubRegistrationDegraded", "True", "1 of 1 is away"),
        "1 of 1 is away",
        "kubectl describe clustermanager cluster-manager",
    ),
    "operator never saw the ClusterManager": (
        lambda world: world.patch(
            CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER), {"status": {"conditions": []}}, "status"
        ),
        "has not reconciled ClusterManager",
        "kubectl describe clustermanager cluster-manager",
    ),
    "pull secret controllers at zero replicas": (
        lambda world: world.deploy(ObjectKey(CONFIGURATION.namespace, "watchword-pull-secrets"), replicas=0),
        "is scaled to 0",
        f"kubectl -n {CONFIGURATION.namespace} scale deployment watchword-pull-secrets --replicas=1",
    ),
    "pull secrets are configured wrongly": (
        lambda world: world.create(CONFIG_MAPS, CONFIG_MAPS.manifest(CONFIGURATION, data={"registries": "https://x"})),
        "'https://x' is not a registry",
        f"kubectl edit configmap -n {CONFIGURATION.namespace} {CONFIGURATION.name}",
    ),
    "registry token service at zero replicas": (
        lambda world: world.deploy(REGISTRY_AUTH, replicas=0),
        "watchword-registry-auth is scaled to 0",
        f"kubectl -n {REGISTRY_AUTH.namespace} scale deployment watchword-registry-auth --replicas=1",
    ),
    "dashboard cannot start": (
        lambda world: world.deploy(
            ObjectKey(CONFIGURATION.namespace, "watchword-dashboard"), ready=False, state={"waiting": WAITING}
        ),
        "cannot pull",
        f"kubectl -n {CONFIGURATION.namespace} describe pod watchword-dashboard-1",
    ),
    "gRPC server at zero replicas": (
        lambda world: serve_grpc(world, replicas=0),
        f"{GRPC_SERVER.name} is scaled to 0",
        f"kubectl -n {HUB_NAMESPACE} scale deployment {GRPC_SERVER.name} --replicas=1",
    ),
    "gRPC server has a certificate for another host": (
        lambda world: serve_grpc(world, host="old.example.com"),
        f"is not valid for {HOST}",
        "watchword logs hub",
    ),
    "gRPC server cannot be reached from outside": (
        lambda world: serve_grpc(world, hosts=""),
        "no host is published",
        "watchword init --grpc-server-hosts HOST",
    ),
    "cleaner's Job does not end": (
        stuck_job,
        "has run for 6m",
        f"kubectl -n {HUB_NAMESPACE} describe job cluster-cleaner-1",
    ),
    "admission policy deleted": (
        lambda world: world.delete(VALIDATING_ADMISSION_POLICIES, POLICY),
        "lets every user who may create a ManagedCluster accept it",
        "watchword init",
    ),
    "admission policy only warns": (
        lambda world: world.patch(
            VALIDATING_ADMISSION_POLICY_BINDINGS, POLICY, {"spec": {"validationActions": ["Warn"]}}
        ),
        "lets every user who may create a ManagedCluster accept it",
        "watchword init",
    ),
    "cluster-info deleted": (
        lambda world: world.delete(CONFIG_MAPS, CLUSTER_INFO),
        "cluster-info is not published",
        "watchword init",
    ),
    "cluster-info emptied": (
        lambda world: world.patch(CONFIG_MAPS, CLUSTER_INFO, {"data": {KUBECONFIG_KEY: None}}),
        "cluster-info is not published",
        "watchword init",
    ),
    "cluster-info is not signed": (
        lambda world: world.patch(
            CONFIG_MAPS,
            CLUSTER_INFO,
            {"metadata": {"annotations": {ANNOTATION_SIGNING_REFUSED: "it has another CA"}}},
        ),
        "it has another CA",
        "watchword init",
    ),
    "token without a signature": (unsigned_token, "not signed for token abcdef", "watchword logs hub"),
    "damaged token Secret": (
        damaged_token,
        "is meant to be a token and is none",
        "kubectl -n kube-system describe secret bootstrap-token-abcdef",
    ),
    "signer does not run": (unsigned_request, "was approved 60s ago and is not signed", "kubectl describe csr edge-1"),
    "namespace of a deleted cluster": (
        lambda world: world.create(
            NAMESPACES,
            NAMESPACES.manifest(ObjectKey.cluster("gone"), metadata={"labels": {Label.CLUSTER_NAME: "gone"}}),
        ),
        "namespace gone belongs to no cluster",
        "kubectl delete namespace gone",
    ),
    "cluster waits": (
        lambda world: world.fleet.waiting_cluster("new"),
        "has registered",
        "watchword accept new",
    ),
    "agent stopped": (
        said(MANAGED_CLUSTERS, EDGE, ConditionType.AVAILABLE, "Unknown", "stopped renewing its lease"),
        "stopped renewing its lease",
        "watchword doctor --cluster edge",
    ),
    "agent stopped while the hub's controllers were away": (
        lambda world: world.renew(ObjectKey("edge", CLUSTER_LEASE), timedelta(minutes=8.5), seconds=60),
        "renewed its lease 8m ago",
        "watchword doctor --cluster edge",
    ),
    "clock of a cluster": (
        said(MANAGED_CLUSTERS, EDGE, ConditionType.CLOCK_SYNCED, "False", "its clock is 400 s behind"),
        "its clock is 400 s behind",
        "watchword doctor --cluster edge",
    ),
    "another key asks for a cluster's name": (
        lambda world: world.create(CERTIFICATE_SIGNING_REQUESTS, a_request("edge")),
        "another key asks for its name",
        "watchword doctor --cluster edge",
    ),
    "rights are not granted": (
        said(MANAGED_CLUSTERS, EDGE, ConditionType.HUB_ACCEPTED, "False", "the hub may not bind roles"),
        "the hub may not bind roles",
        "watchword doctor --cluster edge",
    ),
    "IAM refuses": (
        said(MANAGED_CLUSTERS, EDGE, "AwsIdentityReady", "False", "AccessDenied: iam:CreateRole"),
        "AccessDenied: iam:CreateRole",
        "watchword doctor --cluster edge",
    ),
    "certificate of a cluster expired": (
        expired(ConditionType.CERTIFICATE_ROTATED, MANAGED_CLUSTERS, EDGE),
        "expired",
        "watchword token create --for-cluster edge --print-join-command",
    ),
    "certificate of a cluster is not renewed": (
        said(MANAGED_CLUSTERS, EDGE, ConditionType.CERTIFICATE_ROTATED, "False", "the signer refuses"),
        "the signer refuses",
        "watchword doctor --cluster edge",
    ),
    "add-on without rights": (
        said(MANAGED_CLUSTER_ADDONS, ADDON, ConditionType.REGISTRATION_APPLIED, "False", "may not grant secrets"),
        "has no rights on the hub: may not grant secrets",
        "watchword addon show sample --cluster edge",
    ),
    "add-on stopped": (
        said(MANAGED_CLUSTER_ADDONS, ADDON, ConditionType.ADDON_AVAILABLE, "False", "stopped renewing its lease"),
        "stopped renewing its lease",
        "watchword addon show sample --cluster edge",
    ),
    "token of an add-on is refused": (
        said(MANAGED_CLUSTER_ADDONS, ADDON, ConditionType.ADDON_TOKEN_REFRESHED, "False", "the hub answers 401"),
        "the hub answers 401",
        "watchword addon show sample --cluster edge",
    ),
    "token of an add-on expired": (
        expired(ConditionType.ADDON_TOKEN_REFRESHED, MANAGED_CLUSTER_ADDONS, ADDON),
        "expired",
        "watchword addon show sample --cluster edge",
    ),
    "account is missing on its cluster": (
        said(MANAGED_SERVICE_ACCOUNTS, ACCOUNT, ConditionType.ALL_ACCOUNTS_PRESENT, "False", "another owner has it"),
        "another owner has it",
        "watchword serviceaccount show robot -n edge",
    ),
    "token of an account is not reported": (
        said(MANAGED_SERVICE_ACCOUNTS, ACCOUNT, ConditionType.TOKEN_REPORTED, "False", "the cluster refuses a token"),
        "the cluster refuses a token",
        "watchword serviceaccount show robot -n edge",
    ),
    "token of an account expired": (
        lambda world: world.patch(
            MANAGED_SERVICE_ACCOUNTS, ACCOUNT, {"status": {"expirationTimestamp": rfc3339(world.now - HOUR)}}, "status"
        ),
        "expired",
        "watchword serviceaccount show robot -n edge",
    ),
    "damaged pull secret": (
        damaged_pull_secret,
        "",
        "watchword pull-secrets list --unhealthy",
    ),
    "expired pull secret": (
        expired_pull_secret,
        "",
        "watchword pull-secrets list --unhealthy",
    ),
    "hub's authority ends soon": (
        lambda world: authority_ends(world, 30 * DAY),
        "publish its successor",
        "watchword init",
    ),
    "hub's authority has ended": (lambda world: authority_ends(world, -DAY), "", "watchword init"),
}


async def test_a_hub_on_which_all_is_well_is_well_in_every_view(world: World) -> None:
    assert await attention(world) == {"doctor": set(), "status": set(), "dashboard": set()}


async def test_lease_that_was_released_just_now_is_an_election(world: World) -> None:
    await world.renew(LOCKS["the hub's controllers"], timedelta(seconds=10), seconds=1, holder="")

    assert await attention(world) == {"doctor": set(), "status": set(), "dashboard": set()}


@pytest.mark.parametrize("name", WORLDS)
async def test_every_view_names_the_cause_with_the_same_command(world: World, name: str) -> None:
    break_, cause, command = WORLDS[name]

    await break_(world)

    views = await attention(world)
    commands = {view: {each for _, each in found} for view, found in views.items()}
    assert commands == {view: {command} for view in views}
    for view, found in views.items():
        assert any(cause in sentence for sentence, _ in found), (view, found)
    if command.startswith("watchword "):
        parse_command(command)


def parse_command(line: str) -> None:
    """Raise `click.UsageError` when the command line does not know what is printed."""
    command: click.Command = cli
    context = click.Context(cli, help_option_names=["-h", "--help"])  # as the command line makes it: click keeps it
    words = line.split()[1:]
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    command.make_context(command.name, words, parent=context)


async def test_denied_cluster_is_neither_good_nor_in_need_of_attention(world: World) -> None:
    noted = {"annotations": {Annotation.DENIED_ON: rfc3339(world.now)}}
    await world.patch(MANAGED_CLUSTERS, EDGE, {"metadata": noted, "spec": {"hubAcceptsClient": False}})

    facts = await read_hub_facts(world.plane.client())
    inventory = build_inventory(facts, now=world.now)

    assert {row.health for row in inventory.clusters} == {InventoryHealth.DENIED}
    own = [row for row in inventory.credentials if row.cluster == "edge" and not row.addon and "agent" in row.holder]
    assert {row.health for row in own} == {InventoryHealth.DENIED}


async def test_what_may_not_be_read_is_found_and_never_well(world: World) -> None:
    viewer = world.plane.client("viewer", ("system:authenticated",))

    results = await Examination(viewer, world.plane.clock).run()

    facts = next(each for each in results if each.check == "facts")
    assert {each.reason for each in facts.findings} == {"NotRead"}
    assert all(each.severity is Severity.WARNING for each in facts.findings)
    assert "clusters could not be read" in " ".join(each.sentence for each in facts.findings)


async def test_one_cluster_is_examined_from_its_hub(world: World) -> None:
    await world.fleet.waiting_cluster("new")
    await world.say(MANAGED_CLUSTERS, EDGE, ConditionType.AVAILABLE, "Unknown", "stopped renewing its lease")

    found = urgent(await Examination(world.plane.client(), world.plane.clock).run("edge"))

    assert [(each.line, each.command.split("   ")[0]) for _, each in found] == [
        ("cluster edge: stopped renewing its lease", "watchword doctor")
    ]


async def test_one_cluster_is_examined_on_a_hub_whose_grpc_server_is_well(world: World) -> None:
    await serve_grpc(world)

    assert urgent(await Examination(world.plane.client(), world.plane.clock).run("edge")) == []
