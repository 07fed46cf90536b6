"""Every invariant of the simulation is broken on purpose once, and is detected each time."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import pytest
import structlog
from msgspec.structs import replace
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.access_probes import AccessProber
from tests.simulation.administrator import Administrator
from tests.simulation.cluster import SECRET
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.held_credentials import ADDON_SECRET
from tests.simulation.history import MOST_IN_AN_HOUR, MOST_REQUESTS_IN_AN_HOUR
from tests.simulation.incidents import Incident
from tests.simulation.network import ProcessRun
from tests.simulation.pillars import grpc
from tests.simulation.pillars.registration import validate_issued, validate_requester
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.simulation import SimulationScript, simulate
from tests.simulation.violations import Violations

from watchword.api.meta import ObjectKey
from watchword.api.names import AGENT_NAMESPACE, Annotation, Label, cluster_role
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    KLUSTERLETS,
    LEASES,
    MANAGED_CLUSTERS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.credentials.certificates.requests import CertificateSpec, certificate_request_manifest
from watchword.credentials.driver import ENDPOINT_CONFIG
from watchword.health import row_findings
from watchword.health.finding import Finding, Severity
from watchword.kube.backoff import Backoff
from watchword.kube.errors import Unreachable
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.processes.hub import HUB_LEASE
from watchword.testing.builders import a_config_map, a_namespace
from watchword.testing.virtual_time import EPOCH

LIFE = SimulationSettings(
    seed=1,  # one hub; edge-1 has an add-on with a token and a work, edge-2 an add-on with a certificate
    clusters=2,
    days=4,
    quiet=2 * DAY,
    lease=6 * HOUR,
    background_faults=FaultPlan(),
    shortest_life=timedelta(days=1, hours=12),
    longest_life=timedelta(days=1, hours=12),
)
EARLY, LATE, LAST_DAY = DAY, 4 * DAY - HOUR, 3 * DAY + 6 * HOUR
FIRST = ObjectKey.cluster("edge-1")


async def stop_the_agent(fleet: SimulatedFleet) -> None:
    fleet.members["edge-1"].agent.kill()


async def delete_the_cluster(fleet: SimulatedFleet) -> None:
    await fleet.team.stop()
    await fleet.hub.administrator().patch(MANAGED_CLUSTERS, FIRST, {"metadata": {"finalizers": None}})
    await fleet.hub.administrator().delete(MANAGED_CLUSTERS, FIRST)


async def write_for_no_reason(fleet: SimulatedFleet) -> None:
    await Administrator(fleet).client.patch(MANAGED_CLUSTERS, FIRST, {"metadata": {"labels": {"a": "b"}}})


async def write_without_pause(fleet: SimulatedFleet) -> None:
    client = Administrator(fleet).client
    for number in range(MOST_IN_AN_HOUR + 1):
        await client.patch(MANAGED_CLUSTERS, FIRST, {"metadata": {"labels": {"a": str(number)}}})


async def create_without_pause(fleet: SimulatedFleet) -> None:
    client, key = Administrator(fleet).client, ObjectKey("default", "unwanted")
    for _ in range(MOST_IN_AN_HOUR + 1):
        await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key))
        await fleet.hub.administrator().delete(CONFIG_MAPS, key)


async def read_without_pause(fleet: SimulatedFleet) -> None:
    client = Administrator(fleet).client
    for _ in range(MOST_REQUESTS_IN_AN_HOUR + 1):
        await client.get(MANAGED_CLUSTERS, FIRST)


async def move_unnoticed(fleet: SimulatedFleet) -> None:
    fleet.members["edge-1"].agent.kill()
    fleet.hub.moves += 1


async def change_authority_unnoticed(fleet: SimulatedFleet) -> None:
    fleet.members["edge-1"].agent.kill()
    fleet.hub.change_authority()


async def damage_the_kubeconfig_of_the_addon(fleet: SimulatedFleet) -> None:
    fleet.members["edge-1"].agent.kill()
    patch = {"data": {"kubeconfig": "c2NyaWJibGU="}}
    await fleet.members["edge-1"].client().patch(SECRETS, ADDON_SECRET, patch)


async def end_by_a_bug(fleet: SimulatedFleet) -> None:
    async def program(_: ProcessRun) -> None:
        raise ValueError("a bug")

    fleet.process("edge-1").program = program
    fleet.process("edge-1").kill(restart_after=1.0)


async def end_again_and_again(fleet: SimulatedFleet) -> None:
    async def program(_: ProcessRun) -> None:
        raise Unreachable("the hub does not answer", maybe_processed=False)

    fleet.process("edge-1").program = program
    fleet.process("edge-1").kill(restart_after=1.0)


async def leave_the_hub_without_a_leader(fleet: SimulatedFleet) -> None:
    await fleet.team.stop()
    await fleet.hub.administrator().delete(LEASES, HUB_LEASE)


async def refuse_every_token(fleet: SimulatedFleet) -> None:
    for process in fleet.processes_at("edge-1"):
        process.kill()
    await fleet.members["edge-1"].plane.change_token_key(keep_old=False)


async def damage_the_token(fleet: SimulatedFleet) -> None:
    fleet.process("accounts-hub").kill()
    fleet.process("edge-1-accounts").kill()
    changes = {"metadata": {"annotations": {Annotation.TOKEN_SERVER: None}}, "data": {"ca.crt": None}}
    await fleet.hub.administrator().patch(SECRETS, ObjectKey("edge-1", "robot"), changes)


async def unmap_the_roles(fleet: SimulatedFleet) -> None:
    if fleet.aws is not None:
        await fleet.team.stop()
        fleet.aws.entries.clear()


async def delete_a_role(fleet: SimulatedFleet) -> None:
    if fleet.aws is not None:
        await fleet.team.stop()
        fleet.aws.roles.clear()


async def make_a_second_account(fleet: SimulatedFleet) -> None:
    labels = {Label.CLUSTER_NAME: "edge-1"}
    account = SERVICE_ACCOUNTS.manifest(ObjectKey("edge-1", "another"), metadata={"labels": labels})
    await fleet.hub.administrator().create(SERVICE_ACCOUNTS, account)


async def make_a_second_secret(fleet: SimulatedFleet) -> None:
    secret = SECRETS.manifest(ObjectKey(AGENT_NAMESPACE, "another"), data={})
    await fleet.members["edge-1"].client().create(SECRETS, secret)


async def swap_credentials(fleet: SimulatedFleet) -> None:
    thief, owner = fleet.members["edge-1"], fleet.members["edge-2"]
    thief.agent.kill()
    stolen = {"data": (owner.stored.get(SECRETS, SECRET) or {})["data"]}
    await thief.client().patch(SECRETS, SECRET, stolen)


async def grant_too_much(fleet: SimulatedFleet, *, to: str, within: str) -> None:
    binding = ROLE_BINDINGS.manifest(
        ObjectKey(within, "too-much"),
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        subjects=[
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": f"system:open-cluster-management:{to}"}
        ],
    )
    await fleet.hub.administrator().create(ROLE_BINDINGS, binding)


async def open_the_neighbour(fleet: SimulatedFleet) -> None:
    await grant_too_much(fleet, to="edge-2", within="edge-1")


async def leave_a_namespace(fleet: SimulatedFleet) -> None:
    await fleet.hub.administrator().create(NAMESPACES, a_namespace("edge-9", labels={Label.CLUSTER_NAME: "edge-9"}))


async def leave_one_object_and_lose_another(fleet: SimulatedFleet) -> None:
    await fleet.team.stop()
    await leave_a_namespace(fleet)
    await fleet.hub.administrator().delete(CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(cluster_role("edge-1")))


async def ask_in_vain(fleet: SimulatedFleet) -> None:
    await fleet.team.stop()
    subject = CertificateSubject("system:open-cluster-management:edge-2:addon:other:agent:x")
    wanted = CertificateSpec(subject, labels={Label.CLUSTER_NAME: "edge-2", Label.ADDON_NAME: "other"})
    request = certificate_request_manifest(wanted, PrivateKey.generate())
    await fleet.hub.administrator().create(CERTIFICATE_SIGNING_REQUESTS, request)


async def publish_a_key(fleet: SimulatedFleet) -> None:
    core = fleet.members["edge-1"].held()["tls.key"].decode().splitlines()[1]
    spilled = a_config_map("spilled", namespace="default", data={"note": f"see {core}"})
    await fleet.members["edge-2"].client().create(CONFIG_MAPS, spilled)


async def log_a_key(fleet: SimulatedFleet) -> None:
    structlog.get_logger().warning("kept", key=fleet.members["edge-1"].held()["tls.key"])


async def log_an_error(_: SimulatedFleet) -> None:
    structlog.get_logger().error("something broke")


@pytest.mark.parametrize(
    ("at", "deed", "noticed"),
    [
        pytest.param(EARLY, stop_the_agent, "the cluster credential of edge-1 expired", id="a credential expires"),
        pytest.param(LATE, delete_the_cluster, "edge-1: the hub does not know it", id="a cluster does not settle"),
        pytest.param(LAST_DAY, write_for_no_reason, "a write without need on a quiet day", id="one does not rest"),
        pytest.param(EARLY, write_without_pause, "admin does not pause: PATCH", id="one does not wait"),
        pytest.param(EARLY, create_without_pause, "admin does not pause: POST", id="one creates without pause"),
        pytest.param(EARLY, read_without_pause, "admin sends more than 2400 requests", id="one asks without pause"),
        pytest.param(EARLY, make_a_second_account, "ServiceAccount edge-1/another is one too many", id="two accounts"),
        pytest.param(EARLY, make_a_second_secret, "edge-1 has Secrets too many", id="two Secrets"),
        pytest.param(LATE, swap_credentials, "held by edge-1 is that of 'edge-2'", id="the credential of another"),
        pytest.param(EARLY, open_the_neighbour, "the hub allowed edge-2 to", id="the rights of another"),
        pytest.param(EARLY, leave_a_namespace, "a finding stays: NamespaceLeft", id="a finding stays"),
        pytest.param(
            LATE, leave_one_object_and_lose_another, "Namespace edge-9 is left over", id="one object is left over"
        ),
        pytest.param(
            LATE, leave_one_object_and_lose_another, f"{cluster_role('edge-1')} is missing", id="one object is missing"
        ),
        pytest.param(
            EARLY, ask_in_vain, "edge-2: a request waits undecided, and no finding says so", id="no finding says it"
        ),
        pytest.param(LATE, publish_a_key, "the key of edge-1 can be read outside a Secret", id="a key in an object"),
        pytest.param(EARLY, log_a_key, "a secret can be read in the log", id="a key in the log"),
        pytest.param(EARLY, log_an_error, "an unexpected error", id="an error in the log"),
        pytest.param(EARLY, end_by_a_bug, "edge-1 ended with ValueError: a bug", id="a program ends by itself"),
        pytest.param(EARLY, end_again_and_again, "times by itself, in peace", id="a program ends again and again"),
        pytest.param(
            DAY / 2, move_unnoticed, "edge-1: its kubeconfig does not name where the hub is", id="another address"
        ),
        pytest.param(
            DAY / 2, change_authority_unnoticed, "edge-1: its kubeconfig lacks the hub's authority", id="authority"
        ),
        pytest.param(
            DAY / 2,
            damage_the_kubeconfig_of_the_addon,
            "edge-1: the kubeconfig of its add-on does not name the hub",
            id="kubeconfig of an add-on",
        ),
    ],
)
def test_broken_invariant_is_detected(
    images: PlaneImages, at: timedelta, deed: Callable[[SimulatedFleet], Awaitable[None]], noticed: str
) -> None:
    report = simulate(LIFE, images, SimulationScript(sabotage=(at, deed)))

    assert any(noticed in violation.what for violation in report.violations), str(report)


def test_hub_without_a_leader_is_noticed_where_it_has_two_replicas(images: PlaneImages) -> None:
    script = SimulationScript(sabotage=(EARLY, leave_the_hub_without_a_leader))

    reports = [simulate(replace(LIFE, seed=seed), images, script) for seed in (1, 4)]

    found = [any("a finding stays: NoLeader" in one.what for one in report.violations) for report in reports]
    assert found == [False, True]


def test_addon_without_rights_that_no_finding_names_is_noticed(
    images: PlaneImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = partial(Finding, Severity.FAILURE, "Other", "something else", "", "")  # it names the cluster, too
    monkeypatch.setattr(row_findings, "addon_finding", lambda row: other(row.cluster))
    taken = Incident(DAY, "agent_role_taken", "edge-1", 7 * HOUR, 0.5)

    report = simulate(replace(LIFE, clusters=1, pillars=("accounts",)), images, SimulationScript((taken,)))

    found = [violation.what for violation in report.violations]
    assert "edge-1: managed-serviceaccount has no rights, and no finding says so" in found


async def trust_no_certificate(fleet: SimulatedFleet) -> None:
    """Let the agents and the controllers notice nothing of it."""
    for member in fleet.members.values():
        member.agent.kill()
    await fleet.team.stop()
    fleet.hub.distrust(fleet.hub.change_authority().certificate)


def test_certificates_that_are_reported_good_and_refused_are_noticed(images: PlaneImages) -> None:
    life = replace(LIFE, shortest_life=4 * DAY, longest_life=4 * DAY)  # else they expire before they are shown again

    report = simulate(life, images, SimulationScript(sabotage=(EARLY, trust_no_certificate)))

    found = "\n".join(violation.what for violation in report.violations)
    assert "edge-1: the hub refuses its certificate, which is reported good, for 12:00:00 in peace" in found
    assert "edge-2: the hub refuses the certificate of its add-on, which is reported good, for 12:00:00 in" in found


@pytest.mark.slow
def test_clusters_that_ask_at_the_same_instants_are_noticed(
    images: PlaneImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "delay", lambda self, failures, _: min(self.limit, self.first * 2.0 ** (failures - 1)))
    outage = Incident(DAY, "api_outage", "", HOUR / 6, 0.5)

    report = simulate(replace(LIFE, clusters=8), images, SimulationScript((outage,)))

    found = [violation.what for violation in report.violations]
    assert "more than half of the clusters ask a hub that was away at once" in found


def test_credentials_that_are_good_after_all_are_noticed(images: PlaneImages) -> None:
    found: list[str] = []

    async def show_good_ones(fleet: SimulatedFleet) -> None:
        violations, member = Violations(fleet.history), fleet.members["edge-1"]
        prober = AccessProber(fleet, violations)
        await prober.expect_token_refused("edge-1", prober.token_of(member), "was withdrawn")
        await prober.expect_distrusted_ca_refused(member, fleet.hub.authority)
        found.extend(violation.what for violation in violations.all)

    simulate(LIFE, images, SimulationScript(sabotage=(DAY, show_good_ones)))

    assert len(found) == 2
    assert "the token of edge-1, which was withdrawn, was answered" in found[0]
    assert "the hub allowed edge-1, by an authority distrusted" in found[1]


def test_a_request_that_was_granted_for_another_cluster_is_noticed() -> None:
    authority, key = Authority.make("kubernetes", now=EPOCH), PrivateKey.generate()
    subject = CertificateSubject(
        "system:open-cluster-management:edge-2:agent", ("system:open-cluster-management:edge-2",)
    )
    issued = authority.issue_client(key.public, subject, now=EPOCH, lifetime=DAY)
    request = {
        "metadata": {"name": "edge-1-abc", "labels": {Label.CLUSTER_NAME: "edge-1"}},
        "spec": {"username": subject.common_name},
        "status": {"certificate": base64.b64encode(issued.pem).decode()},
    }

    granted_for, granted_to = validate_issued(request)

    assert "was granted for" in granted_for
    assert "was granted to system:open-cluster-management:edge-2:agent" in granted_to


def test_request_for_an_addon_by_another_identity_is_reported() -> None:
    labels = {Label.CLUSTER_NAME: "edge-1", Label.ADDON_NAME: "reporter"}
    request = {"metadata": {"name": "addon-edge-1", "labels": labels}, "spec": {"username": "a-bootstrap-user"}}

    assert list(validate_requester(request)) == [
        "request addon-edge-1 for an add-on was made by a-bootstrap-user, in vain"
    ]


async def lose_the_agent(fleet: SimulatedFleet) -> None:
    fleet.process("edge-1-operator").kill()
    await fleet.members["edge-1"].client().delete(DEPLOYMENTS, ObjectKey(AGENT_NAMESPACE, "klusterlet-agent"))


async def ask_for_an_unknown_mode(fleet: SimulatedFleet) -> None:
    fleet.process("edge-1-operator").kill()
    patch = {"spec": {"deployOption": {"mode": "Hosted"}}}
    await fleet.members["edge-1"].client().patch(KLUSTERLETS, ObjectKey.cluster("klusterlet"), patch)


@pytest.mark.parametrize(
    ("deed", "noticed"),
    [
        pytest.param(lose_the_agent, "edge-1: Klusterlet: what is deployed is not as the spec says", id="deployment"),
        pytest.param(ask_for_an_unknown_mode, "edge-1: Klusterlet: an invalid spec is not reported", id="report"),
    ],
)
def test_operator_that_does_not_do_its_work_is_noticed(
    images: PlaneImages, deed: Callable[[SimulatedFleet], Awaitable[None]], noticed: str
) -> None:
    report = simulate(replace(LIFE, pillars=("operator",)), images, SimulationScript(sabotage=(DAY, deed)))

    assert any(noticed in violation.what for violation in report.violations), str(report)


@pytest.mark.parametrize(
    ("pillar", "at", "deed", "noticed"),
    [
        pytest.param("aws-irsa", LATE, delete_a_role, "is not as the hub wants it", id="role is missing"),
        pytest.param("aws-irsa", EARLY, unmap_the_roles, "its identity is reported ready and refused", id="IAM"),
        pytest.param("accounts", EARLY, refuse_every_token, "the token of robot is reported and refused", id="account"),
        pytest.param("accounts", EARLY, damage_the_token, "the token of robot has another address", id="address"),
        pytest.param("accounts", EARLY, damage_the_token, "the token of robot has another authority", id="CA"),
        pytest.param(
            "pull-secrets", EARLY, refuse_every_token, "the pull secret of builder is refused", id="pull secret"
        ),
    ],
)
def test_credential_of_a_further_pillar_that_is_refused_is_noticed(
    images: PlaneImages,
    pillar: str,
    at: timedelta,
    deed: Callable[[SimulatedFleet], Awaitable[None]],
    noticed: str,
) -> None:
    script = SimulationScript(sabotage=(at, deed), is_sought=lambda what: noticed in what)
    report = simulate(replace(LIFE, pillars=(pillar,)), images, script)

    assert any(noticed in violation.what for violation in report.violations), str(report)


async def break_the_way_over_grpc(fleet: SimulatedFleet) -> None:
    member = fleet.members["edge-1"]
    member.agent.kill()
    await member.client().patch(SECRETS, SECRET, {"data": {ENDPOINT_CONFIG: None}})
    await fleet.team.stop()
    await fleet.hub.administrator().delete(CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(cluster_role("edge-1")))


def test_broken_promises_of_grpc_are_noticed(images: PlaneImages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc, "MOST_CONNECTIONS", 0)
    life = replace(LIFE, clusters=1, days=3, pillars=("grpc",), shortest_life=3 * DAY, longest_life=3 * DAY)

    report = simulate(life, images, SimulationScript(sabotage=(DAY, break_the_way_over_grpc)))

    found = [violation.what for violation in report.violations]
    assert "edge-1 has 1 connections with the gRPC server" in found
    assert "edge-1: its certificate is good, and the gRPC server refuses it, for 12:00:00 in peace" in found
    assert "edge-1: its config.yaml does not name where the gRPC server is, for 12:00:00 in peace" in found
