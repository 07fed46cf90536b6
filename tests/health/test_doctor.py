"""`doctor` reports what is wrong, why, and the next command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.emulators.memory_aws import NAME, MemoryAws, hub_catalog

from watchword.admin.hub_setup import HubSetup, set_up_hub
from watchword.admin.init import SignerProbe, advise_other_drivers
from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED, CLUSTER_INFO
from watchword.api.credential_report import CredentialUse, CredentialValidity
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Label
from watchword.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    MANAGED_CLUSTERS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
)
from watchword.api.time import rfc3339_micro
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.token_secret import TokenRecord, TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.health.cluster_side import Membership, decide_acceptance_findings, decide_credential_findings
from watchword.health.examination import Examination, decide_skew_findings
from watchword.health.finding import Finding, Severity, urgent
from watchword.health.inventory_rows import ACCOUNT_TOKEN, AUTHORITY, PULL_SECRET, CredentialRow
from watchword.health.processes import decide_report_findings
from watchword.health.renewal_proof import STILL_OLD
from watchword.health.row_findings import credential_finding
from watchword.health.states import InventoryHealth
from watchword.operator.bundles import operator_bundle
from watchword.operator.rendering import OPERATOR
from watchword.pki.authority import Authority
from watchword.pki.certificates import split_bundle
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.processes.hub import HUB_LEASE
from watchword.registration.aws_irsa.options import HUB_ARN
from watchword.registration.catalog import CATALOG, Catalog
from watchword.testing.plane import Plane

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
EDGE = Membership("edge", "open-cluster-management-agent", "hub.test:6443")


def holding(data: dict[str, bytes]) -> Membership:
    return replace(EDGE, held=data)


pytestmark = pytest.mark.planes("embedded")  # the real one is shared, so what others left would be found


async def findings(plane: Plane, *, catalog: Catalog = CATALOG) -> dict[str, list[Finding]]:
    client = plane.client()
    probe = SignerProbe(client, plane.clock).run
    results = await Examination(client, plane.clock, probe_signer=probe, catalog=catalog).run()
    return {result.check: list(result.findings) for result in results}


async def a_hub(plane: Plane) -> None:
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    await set_up_hub(plane.client(), HubSetup(info, deploy=False))


def one(rows: list[Finding]) -> Finding:
    [row] = rows
    return row


@pytest.mark.parametrize(
    ("seconds", "level"),
    [
        pytest.param(None, Severity.OK, id="the server does not say"),
        pytest.param(2, Severity.OK, id="as good as the same"),
        pytest.param(-40, Severity.WARNING, id="behind"),
        pytest.param(301, Severity.FAILURE, id="so far ahead that new certificates are not valid yet"),
    ],
)
def test_decide_skew(seconds: int | None, level: Severity) -> None:
    skew = None if seconds is None else timedelta(seconds=seconds)

    assert [finding.severity for finding in decide_skew_findings(skew)] == [level]


@pytest.mark.parametrize(
    ("age", "level", "said"),
    [
        pytest.param(0, Severity.OK, "agent until 2026-04-10", id="fresh"),
        pytest.param(90, Severity.FAILURE, "was not renewed", id="overdue"),
        pytest.param(101, Severity.FAILURE, "expired", id="expired"),
    ],
)
def test_decide_credential(age: int, level: Severity, said: str) -> None:
    authority = Authority.make("ca", now=NOW)
    key = PrivateKey.generate()
    certificate = authority.issue_client(key.public, CertificateSubject("agent"), now=NOW, lifetime=100 * DAY)

    finding = one(decide_credential_findings(holding({"tls.crt": certificate.pem}), NOW + age * DAY))

    assert finding.severity is level
    assert said in finding.sentence
    assert bool(finding.command) is (level is Severity.FAILURE)


@pytest.mark.parametrize(
    ("data", "level"),
    [
        pytest.param({"tls.key": b"k"}, Severity.WARNING, id="waiting for the certificate"),
        pytest.param({"tls.crt": b"garbage"}, Severity.FAILURE, id="not a certificate"),
    ],
)
def test_decide_damaged_credential(data: dict[str, bytes], level: Severity) -> None:
    assert one(decide_credential_findings(holding(data), NOW)).severity is level


@pytest.mark.parametrize(
    ("accepted", "available", "said"),
    [
        pytest.param(False, True, "has not accepted edge yet", id="waits while its last word still counts"),
        pytest.param(True, False, "receives no lease of edge's agent", id="silent"),
        pytest.param(True, True, "accepts edge and receives its agent's lease", id="well"),
    ],
)
def test_decide_standing(accepted: bool, available: bool, said: str) -> None:  # noqa: FBT001 - a table
    conditions = [{"type": ConditionType.AVAILABLE, "status": str(available)}]
    cluster = MANAGED_CLUSTERS.manifest(
        ObjectKey.cluster("edge"), spec={"hubAcceptsClient": accepted}, status={"conditions": conditions}
    )

    (finding,) = decide_acceptance_findings(cluster, EDGE)

    assert said in finding.sentence


def test_the_key_that_asks_is_shown_as_the_hub_shows_it() -> None:
    key = PrivateKey.generate()

    finding = one(decide_credential_findings(holding({"pending.key": key.pem.reveal()}), NOW))

    assert f"asks with the key {key.public.thumbprint[:16]}" in finding.sentence


def a_credential(kind: str, cluster: str, health: InventoryHealth, *, note: str = "") -> CredentialRow:
    return CredentialRow(kind, cluster, "robot", "robot", CredentialValidity(), health, note)


async def test_doctor_advises_join_or_init_on_a_bare_cluster(plane: Plane) -> None:
    found = await findings(plane)

    finding = one(found["membership"])
    assert finding.severity is Severity.FAILURE
    assert "watchword init" in finding.command
    assert "watchword token create --print-join-command" in finding.command
    assert "hub" not in found  # no more is asked of what is nothing yet


async def its_controllers_run(plane: Plane) -> None:
    spec = {"holderIdentity": "hub-1", "renewTime": rfc3339_micro(plane.clock.now())}
    await plane.client().create(LEASES, LEASES.manifest(HUB_LEASE, spec=spec))


async def test_a_fresh_hub_whose_controllers_run_is_well(plane: Plane) -> None:
    await a_hub(plane)
    await its_controllers_run(plane)

    found = await findings(plane)

    assert {row.severity for rows in found.values() for row in rows} == {Severity.OK}


async def test_hub_whose_drivers_need_no_certificates_is_not_asked_for_one(plane: Plane) -> None:
    catalog = hub_catalog(MemoryAws("111122223333"))
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    arn = {HUB_ARN.flag: "arn:aws:eks:us-west-2:111122223333:cluster/fleet-hub"}
    await set_up_hub(plane.client(), HubSetup(info, (NAME,), arn, deploy=False, catalog=catalog))

    finding = one((await findings(plane, catalog=catalog))["issuing"])

    assert (finding.severity, finding.sentence) == (
        Severity.OK,
        "not tried: clusters register without certificates here",
    )


def test_hub_that_issues_no_certificates_is_told_which_drivers_need_none() -> None:
    advice = advise_other_drivers(hub_catalog(MemoryAws("111122223333")))

    assert advice == f"run a signer, or `watchword init --registration-auth grpc or {NAME}`, which does not need it"


async def test_a_hub_without_controllers_is_not_well(plane: Plane) -> None:
    await a_hub(plane)

    finding = one((await findings(plane))["processes"])

    assert (finding.severity, finding.command) == (Severity.FAILURE, "watchword hub")


async def test_the_pod_of_an_operator_that_is_pending_is_named(plane: Plane) -> None:
    client = plane.client()
    await a_hub(plane)
    _, operator = next(row for row in operator_bundle() if row[0] is DEPLOYMENTS)
    await client.create(DEPLOYMENTS, operator)
    await client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(OPERATOR))
    template = operator["spec"]["template"]
    pod = PODS.manifest(
        ObjectKey(OPERATOR.namespace, "operator-1"), metadata=template["metadata"], spec=template["spec"]
    )
    await client.create(PODS, pod)
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}
    status = {"phase": "Pending", "conditions": [unscheduled]}
    await client.patch(PODS, ObjectKey.of(pod), {"status": status}, subresource="status")

    (pending, missing) = (await findings(plane))["processes"]

    assert pending.sentence == f"pod {OPERATOR.namespace}/operator-1 is pending: no node fits"
    assert pending.command == f"kubectl -n {OPERATOR.namespace} describe pod operator-1"
    assert "cluster-manager-controller" in missing.sentence
    assert missing.command == "watchword init"


APPLIED = {"type": "Applied", "status": "True", "message": "as wanted"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        pytest.param([], ["has not reconciled"], id="not seen"),
        pytest.param([{**APPLIED, "observedGeneration": 1}], ["has not reconciled the newest"], id="an old report"),
        pytest.param([APPLIED, {"type": "Available", "status": "False", "message": "no pods"}], ["no pods"], id="down"),
        pytest.param(
            [APPLIED, {"type": "HubRegistrationDegraded", "status": "True", "message": "1 of 1 is not available"}],
            ["1 of 1 is not available"],
            id="degraded",
        ),
        pytest.param([APPLIED, {"type": "Available", "status": "True"}], [], id="well"),
    ],
)
def test_judge_what_the_operator_reports(rows: list[Object], said: list[str]) -> None:
    manager: Object = {"metadata": {"name": "cluster-manager", "generation": 2}, "status": {"conditions": rows}}

    reasons = [finding.sentence for finding in decide_report_findings("ClusterManager", manager)]

    assert len(reasons) == len(said)
    assert all(part in reason for part, reason in zip(said, reasons, strict=True))


async def test_tokens_without_signature_are_found(plane: Plane) -> None:
    await a_hub(plane)
    token = BootstrapToken.generate()
    await TokenStore(plane.client()).create(TokenRecord(token, expires=plane.clock.now() + DAY))

    finding = one((await findings(plane))["discovery"])

    assert finding.severity is Severity.FAILURE
    assert token.id in finding.sentence
    assert token.secret.reveal() not in repr(finding)


async def test_a_refusal_to_sign_is_passed_on(plane: Plane) -> None:
    await a_hub(plane)
    patch = {"metadata": {"annotations": {ANNOTATION_SIGNING_REFUSED: "it names another CA"}}}
    await plane.client().patch(CONFIG_MAPS, CLUSTER_INFO, patch)

    finding = one((await findings(plane))["discovery"])

    assert (finding.severity, finding.command) == (Severity.FAILURE, "watchword init")
    assert "it names another CA" in finding.sentence


async def test_controllers_that_stopped_are_found(plane: Plane) -> None:
    await a_hub(plane)
    spec = {"holderIdentity": "hub-1", "renewTime": rfc3339_micro(plane.clock.now() - timedelta(minutes=5))}
    await plane.client().create(LEASES, LEASES.manifest(HUB_LEASE, spec=spec))

    assert one((await findings(plane))["processes"]).severity is Severity.FAILURE


async def test_silent_clusters_and_leftovers_are_found(plane: Plane) -> None:
    await a_hub(plane)
    cluster = MANAGED_CLUSTERS.manifest(ObjectKey.cluster("edge"), spec={"hubAcceptsClient": True})
    await plane.client().create(MANAGED_CLUSTERS, cluster)
    await plane.client().patch(MANAGED_CLUSTERS, ObjectKey.cluster("edge"), _silent(), subresource="status")
    orphan = {"labels": {Label.CLUSTER_NAME: "gone"}}
    await plane.client().create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster("gone"), metadata=orphan))

    found = await findings(plane)

    assert one(found["leftovers"]).command == "kubectl delete namespace gone"
    assert "cluster edge: it fell silent" in [row.line for row in found["clusters"]]
    assert urgent(await Examination(plane.client(), plane.clock).run())


def _silent() -> Object:
    stated = {ConditionType.HUB_ACCEPTED: "True", ConditionType.JOINED: "True", ConditionType.AVAILABLE: "Unknown"}
    rows = [
        {
            "type": type_,
            "status": status,
            "reason": "Said",
            "message": "it fell silent",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for type_, status in stated.items()
    ]
    return {"status": {"conditions": rows}}


@pytest.mark.parametrize(
    ("row", "level", "command"),
    [
        pytest.param(
            a_credential("client certificate", "edge", InventoryHealth.EXPIRED),
            Severity.FAILURE,
            "watchword token create --for-cluster edge --print-join-command",
            id="certificate of a cluster",
        ),
        pytest.param(
            a_credential(ACCOUNT_TOKEN, "edge", InventoryHealth.OVERDUE),
            Severity.FAILURE,
            "watchword serviceaccount show robot -n edge",
            id="token of a managed service account",
        ),
        pytest.param(
            a_credential(AUTHORITY, "", InventoryHealth.PENDING),
            Severity.WARNING,
            "watchword init",
            id="authority that ends soon",
        ),
        pytest.param(
            a_credential(PULL_SECRET, "", InventoryHealth.OVERDUE),
            Severity.FAILURE,
            "watchword pull-secrets list --unhealthy",
            id="pull secret",
        ),
        pytest.param(
            replace(a_credential("token", "edge", InventoryHealth.PENDING, note=STILL_OLD), use=CredentialUse.PREVIOUS),
            Severity.WARNING,
            "watchword doctor --cluster edge",
            id="renewed and not used",
        ),
    ],
)
def test_every_kind_of_credential_has_its_next_command(row: CredentialRow, level: Severity, command: str) -> None:
    finding = credential_finding(row)

    assert finding is not None
    assert (finding.severity, finding.command) == (level, command)
