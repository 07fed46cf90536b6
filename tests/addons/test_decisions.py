"""The decisions about add-ons, from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.helpers.leases import a_lease

from watchword.addons.agent.controllers import decide_addon_health
from watchword.addons.agent.credentials import AddonDrivers, choose_registration_status
from watchword.addons.catalog import ADDON_CATALOG
from watchword.addons.hub.deployment import (
    decide_applied_condition,
    decide_available_condition,
    is_completed,
    is_current,
    is_hook,
    merge_configs,
    split_manifests,
)
from watchword.addons.hub.feature_labels import choose_labels
from watchword.addons.hub.installation import InstallationStep, choose_installation_step
from watchword.addons.templates.definition import config_keys
from watchword.addons.templates.rendering import substitute_variables
from watchword.addons.token.hub import (
    TokenInfrastructureAction,
    choose_token_infrastructure_action,
    decide_retirement_delay,
    parse_ready_message,
)
from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import ADDON_TEMPLATES, CLUSTER_MANAGEMENT_ADDONS
from watchword.testing.builders import a_cluster, an_addon

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OWN = "system:serviceaccount:c1:c1-a-agent"
SHORT = "system:serviceaccount:c1:a-agent"
SIGNER = "kubernetes.io/kube-apiserver-client"
PREFIX = "feature.open-cluster-management.io/addon-"


def an_addon_with(
    *registrations: Object, conditions: dict[str, tuple[str, str]] | None = None, **status: Any
) -> Object:
    rows = [{"type": t, "status": s, "message": m, "reason": "R"} for t, (s, m) in (conditions or {}).items()]
    obj = an_addon("a", cluster="c1", uid="u", resourceVersion="1")
    return {**obj, "status": {"registrations": list(registrations), "conditions": rows, **status}}


def kube_client(driver: str = "", user: str = "", *groups: str) -> Object:
    subject = {**({"user": user} if user else {}), **({"groups": list(groups)} if groups else {})}
    inner = {**({"driver": driver} if driver else {}), **({"subject": subject} if subject else {})}
    return {"type": "kubeClient", "kubeClient": inner}


CERTIFICATE = kube_client(
    "csr",
    "system:open-cluster-management:cluster:c1:addon:a:agent:a",
    "system:open-cluster-management:cluster:c1:addon:a",
    "system:open-cluster-management:addon:a",
)
READY = {"TokenInfrastructureReady": ("True", "ServiceAccount c1/a-agent (UID: 1) is ready")}
FOREIGN = {"TokenInfrastructureReady": ("True", "ServiceAccount c1/default (UID: 1) is ready")}
CUSTOM = {"type": "customSigner", "customSigner": {"signerName": "example.com/s"}}


@pytest.mark.parametrize(
    ("addon", "auth", "expected"),
    [
        pytest.param(an_addon_with(kube_client()), "token", kube_client("token", OWN), id="token"),
        pytest.param(an_addon_with(kube_client()), "csr", CERTIFICATE, id="certificate"),
        pytest.param(an_addon_with(kube_client()), "", CERTIFICATE, id="certificate when nothing is said"),
        pytest.param(an_addon_with(CERTIFICATE), "token", kube_client("token", OWN), id="certificate to token"),
        pytest.param(an_addon_with(kube_client("token", OWN)), "csr", CERTIFICATE, id="token to certificate"),
        pytest.param(
            an_addon_with(kube_client("token", SHORT)), "token", kube_client("token", SHORT), id="shipped name stays"
        ),
        pytest.param(
            an_addon_with(kube_client("token", OWN), conditions=READY),
            "token",
            kube_client("token", SHORT),
            id="account that a shipped hub made",
        ),
        pytest.param(
            an_addon_with(kube_client("token", OWN), conditions=FOREIGN),
            "token",
            kube_client("token", OWN),
            id="account that cannot be ours",
        ),
        pytest.param(
            an_addon_with(kube_client("token", "system:admin", "system:masters")),
            "token",
            kube_client("token", OWN),
            id="subject that is not ours",
        ),
        pytest.param(
            an_addon_with(kube_client("csr", "chosen-by-the-hub")),
            "csr",
            kube_client("csr", "chosen-by-the-hub"),
            id="subject that the hub controller chose",
        ),
        pytest.param(
            an_addon_with(CUSTOM),
            "token",
            {
                "type": "customSigner",
                "customSigner": {
                    "signerName": "example.com/s",
                    "subject": {"user": "system:open-cluster-management:cluster:c1:addon:a:agent:a"},
                },
            },
            id="signer of its own",
        ),
        pytest.param(
            an_addon_with({"signerName": SIGNER}),
            "token",
            {"signerName": SIGNER, "subject": {"user": OWN}},
            id="older shape",
        ),
    ],
)
def test_agent_declares(addon: Object, auth: str, expected: Object) -> None:
    change = choose_registration_status(Addon.read(addon), AddonDrivers(ADDON_CATALOG, auth))

    assert change.fields is not None
    assert change.fields["registrations"] == [expected]


@pytest.mark.parametrize(
    ("auth", "registrations", "obsolete"),
    [
        pytest.param("csr", [kube_client()], {"AddonTokenRefreshed", "TokenRefreshed"}, id="certificate"),
        pytest.param("token", [kube_client()], {"ClusterCertificateRotated"}, id="token"),
        pytest.param("token", [kube_client(), CUSTOM], set(), id="token beside a signer"),
    ],
)
def test_conditions_of_another_driver_are_obsolete(auth: str, registrations: list[Object], obsolete: set[str]) -> None:
    change = choose_registration_status(Addon.read(an_addon_with(*registrations)), AddonDrivers(ADDON_CATALOG, auth))

    assert set(change.without) == obsolete


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("ServiceAccount c1/a-agent (UID: 12-3) is ready", ("c1", "a-agent", "12-3"), id="both systems"),
        pytest.param("all is well (UID: 7)", ("", "", "7"), id="only the UID"),
        pytest.param("ServiceAccount c1/a-agent is ready", None, id="no UID"),
        pytest.param("", None, id="nothing"),
        pytest.param("(UID: )", None, id="empty UID"),
    ],
)
def test_uid_is_read_from_the_message(message: str, expected: tuple[str, str, str] | None) -> None:
    found = parse_ready_message(message)

    assert (None if found is None else (found.namespace, found.name, found.uid)) == expected


@pytest.mark.parametrize(
    ("addon", "accepted", "made", "plan"),
    [
        pytest.param(an_addon_with(), True, False, TokenInfrastructureAction.NOTHING, id="asks for nothing"),
        pytest.param(an_addon_with(CERTIFICATE), True, False, TokenInfrastructureAction.NOTHING, id="another driver"),
        pytest.param(
            an_addon_with(CERTIFICATE, conditions=READY), True, False, TokenInfrastructureAction.RETIRE, id="switched"
        ),
        pytest.param(
            an_addon_with(CERTIFICATE),
            True,
            True,
            TokenInfrastructureAction.RETIRE,
            id="switched, and the condition was lost",
        ),
        pytest.param(
            an_addon_with(kube_client("token")),
            True,
            False,
            TokenInfrastructureAction.NOTHING,
            id="subject not declared yet",
        ),
        pytest.param(
            an_addon_with(kube_client("token", OWN)), True, False, TokenInfrastructureAction.CREATE, id="declared"
        ),
        pytest.param(
            an_addon_with(kube_client("token", SHORT)),
            True,
            False,
            TokenInfrastructureAction.CREATE,
            id="declared as shipped",
        ),
        pytest.param(
            an_addon_with(kube_client("token", OWN)), False, True, TokenInfrastructureAction.REVOKE, id="cluster denied"
        ),
        pytest.param(
            an_addon_with(kube_client("token", OWN, "system:masters")),
            True,
            True,
            TokenInfrastructureAction.CORRECT_SUBJECT,
            id="hostile group",
        ),
        pytest.param(
            an_addon_with({"signerName": SIGNER, "subject": {"user": OWN}}, kubeClientDriver="token"),
            True,
            False,
            TokenInfrastructureAction.CREATE,
            id="older shape",
        ),
    ],
)
def test_choose_plan(addon: Object, accepted: bool, made: bool, plan: TokenInfrastructureAction) -> None:  # noqa: FBT001 - columns
    assert choose_token_infrastructure_action(Addon.read(addon), accepted=accepted, made=lambda: made) is plan


@pytest.mark.parametrize(
    ("works", "age", "left"),
    [
        pytest.param("True", 4, 6, id="new credential works, but not for long"),
        pytest.param("True", 10, 0, id="new credential works"),
        pytest.param("False", 10, 290, id="no new credential yet"),
        pytest.param("False", 300, 0, id="no new credential at all"),
    ],
)
def test_decide_retirement(works: str, age: int, left: int) -> None:
    addon = an_addon_with(conditions={"ClusterCertificateRotated": (works, "")})

    wait = decide_retirement_delay(addon, NOW - timedelta(seconds=age), now=NOW)

    assert max(wait, timedelta(0)) == timedelta(seconds=left)


@pytest.mark.parametrize(
    ("lease", "status", "reason", "recheck"),
    [
        pytest.param(None, "Unknown", "ManagedClusterAddOnLeaseNotFound", None, id="no lease"),
        pytest.param(
            a_lease("a", namespace="n"), "Unknown", "ManagedClusterAddOnLeaseNotFound", None, id="never renewed"
        ),
        pytest.param(
            a_lease("a", namespace="n", renewed_at=NOW - timedelta(seconds=299)),
            "True",
            "ManagedClusterAddOnLeaseUpdated",
            1,
            id="late but within patience",
        ),
        pytest.param(
            a_lease("a", namespace="n", renewed_at=NOW - timedelta(seconds=300)),
            "False",
            "ManagedClusterAddOnLeaseUpdateStopped",
            None,
            id="patience exhausted to the second",
        ),
    ],
)
def test_decide_lease(lease: Object | None, status: str, reason: str, recheck: int | None) -> None:
    condition, recheck_in = decide_addon_health("a", lease, now=NOW)

    assert (condition.status, condition.reason) == (status, reason)
    assert recheck_in == (None if recheck is None else timedelta(seconds=recheck))


def accepted(*, labels: dict[str, str] | None = None, **metadata: Any) -> Object:
    row = {"type": "HubAcceptedManagedCluster", "status": "True"}
    return {**a_cluster("c1", accepted=True, labels=labels or {}, **metadata), "status": {"conditions": [row]}}


def a_kind(**metadata: Any) -> Object:
    return CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster("a"), metadata={"uid": "k", **metadata}, spec={})


IN = accepted()
OPTED_OUT = accepted(annotations={"addon.open-cluster-management.io/disable-automatic-installation": "true"})
BY_STRATEGY = {"addon.watchword.dev/installed-by": "ClusterSets"}
OWNED = [{"uid": "k"}]
GOING = "2026-01-01T00:00:00Z"
BY_HAND = an_addon("a", cluster="c1", ownerReferences=OWNED)
INSTALLED = an_addon("a", cluster="c1", annotations=BY_STRATEGY, ownerReferences=OWNED)
LEAVING = an_addon("a", cluster="c1", annotations=BY_STRATEGY, deletionTimestamp=GOING)


@pytest.mark.parametrize(
    ("known", "cluster", "present", "selected", "step"),
    [
        pytest.param(a_kind(), IN, None, None, InstallationStep.NOTHING, id="enabled by hand only"),
        pytest.param(a_kind(), IN, None, True, InstallationStep.ENABLE, id="chosen"),
        pytest.param(a_kind(), IN, None, False, InstallationStep.NOTHING, id="not chosen"),
        pytest.param(a_kind(), OPTED_OUT, None, True, InstallationStep.NOTHING, id="chosen, and opted out"),
        pytest.param(a_kind(), a_cluster("c1"), None, True, InstallationStep.NOTHING, id="cluster not accepted"),
        pytest.param(a_kind(), None, None, True, InstallationStep.NOTHING, id="no such cluster"),
        pytest.param(a_kind(deletionTimestamp=GOING), IN, None, True, InstallationStep.NOTHING, id="add-on going"),
        pytest.param(a_kind(), IN, an_addon("a", cluster="c1"), None, InstallationStep.ADOPT, id="enabled by hand"),
        pytest.param(a_kind(), IN, BY_HAND, None, InstallationStep.NOTHING, id="tied"),
        pytest.param(
            a_kind(), IN, BY_HAND, False, InstallationStep.NOTHING, id="enabled by hand where it is not chosen"
        ),
        pytest.param(a_kind(), IN, INSTALLED, True, InstallationStep.NOTHING, id="there as it should be"),
        pytest.param(a_kind(), IN, INSTALLED, False, InstallationStep.DISABLE, id="no longer chosen"),
        pytest.param(
            a_kind(), IN, INSTALLED, None, InstallationStep.NOTHING, id="installed by hand from now on, or unknown"
        ),
        pytest.param(
            a_kind(), OPTED_OUT, INSTALLED, True, InstallationStep.NOTHING, id="opted out with the add-on there"
        ),
        pytest.param(
            a_kind(), a_cluster("c1"), INSTALLED, True, InstallationStep.DISABLE, id="cluster no longer accepted"
        ),
        pytest.param(a_kind(), IN, LEAVING, False, InstallationStep.NOTHING, id="going already"),
    ],
)
def test_choose_step(
    known: Object,
    cluster: Object | None,
    present: Object | None,
    selected: bool | None,  # noqa: FBT001 - a column
    step: InstallationStep,
) -> None:
    assert choose_installation_step(known, cluster, present, selected=selected) is step


@pytest.mark.parametrize(
    ("present", "status", "changes"),
    [
        pytest.param({}, "True", {f"{PREFIX}a": "available"}, id="new"),
        pytest.param({f"{PREFIX}a": "available"}, "True", {}, id="as it is"),
        pytest.param({f"{PREFIX}a": "available"}, "False", {f"{PREFIX}a": "unhealthy"}, id="unhealthy"),
        pytest.param({f"{PREFIX}a": "available"}, "Unknown", {f"{PREFIX}a": "unreachable"}, id="unreachable"),
        pytest.param(
            {f"{PREFIX}gone": "available", "mine": "x"},
            "True",
            {f"{PREFIX}gone": None, f"{PREFIX}a": "available"},
            id="removed",
        ),
    ],
)
def test_choose_labels(present: dict[str, str], status: str, changes: dict[str, str | None]) -> None:
    assert choose_labels(present, [an_addon_with(conditions={"Available": (status, "")})]) == changes


def a_work(applied: str = "True", available: str = "True", *reports: Object) -> Object:
    rows = [{"type": "Applied", "status": applied, "message": "m"}, {"type": "Available", "status": available}]
    return {"status": {"conditions": rows, "resourceStatus": {"manifests": list(reports)}}}


def a_report(kind: str, **values: Any) -> Object:
    fields = [
        {"name": name, "fieldValue": {"integer" if isinstance(value, int) else "string": value}}
        for name, value in values.items()
    ]
    return {"resourceMeta": {"kind": kind, "namespace": "n", "name": "x"}, "statusFeedback": {"values": fields}}


@pytest.mark.parametrize(
    ("works", "status", "reason"),
    [
        pytest.param([], "Unknown", "WorkNotFound", id="no works"),
        pytest.param([a_work("False")], "Unknown", "WorkNotApplied", id="not applied"),
        pytest.param([a_work("True", "False")], "False", "WorkUnavailable", id="something missing"),
        pytest.param([a_work("True", "True", a_report("Deployment"))], "False", "ProbeUnavailable", id="no replica"),
        pytest.param(
            [a_work("True", "True", a_report("Deployment", ReadyReplicas=1))], "True", "ProbeAvailable", id="ready"
        ),
        pytest.param([a_work()], "True", "ProbeAvailable", id="nothing to probe"),
    ],
)
def test_decide_health(works: list[Object], status: str, reason: str) -> None:
    said = decide_available_condition(works)

    assert (said.status, said.reason) == (status, reason)


@pytest.mark.parametrize(
    ("works", "reason"),
    [
        pytest.param([a_work()], "AddonManifestApplied", id="applied"),
        pytest.param([a_work(), a_work("False")], "AddonManifestAppliedFailed", id="one failed"),
        pytest.param([a_work(), {}], "AddonManifestNotApplied", id="one not looked at"),
    ],
)
def test_decide_applied(works: list[Object], reason: str) -> None:
    assert decide_applied_condition(works).reason == reason


@pytest.mark.parametrize(
    ("report", "done"),
    [
        pytest.param(a_report("Job", JobComplete="True"), True, id="job complete"),
        pytest.param(a_report("Job", JobComplete="False"), False, id="job running"),
        pytest.param(a_report("Job"), False, id="job not reported"),
    ],
)
def test_hook_is_done_when_its_job_is(report: Object, done: bool) -> None:  # noqa: FBT001 - a column
    hook = {"kind": "Job", "metadata": {"namespace": "n", "name": "x"}}

    assert is_completed(a_work("True", "True", report), [hook]) is done


def test_hooks_are_told_from_the_rest_by_their_mark() -> None:
    mark = {"addon.open-cluster-management.io/addon-pre-delete": ""}
    hook, rest = {"kind": "Job", "metadata": {"annotations": mark}}, {"kind": "ConfigMap", "metadata": {}}

    assert [is_hook(obj) for obj in (rest, hook)] == [False, True]


def test_manifests_are_split_into_as_few_works_as_fit() -> None:
    manifests = [{"n": number, "text": "x" * size} for number, size in enumerate((40, 40, 40, 500, 10))]

    assert [[row["n"] for row in part] for part in split_manifests(manifests, limit=150)] == [[0, 1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("manifest", "current"),
    [
        pytest.param({"spec": {"replicas": 1}}, True, id="as wanted"),
        pytest.param({"spec": {"replicas": 1, "strategy": {}}, "status": {}}, True, id="as OCM writes it"),
        pytest.param({"metadata": {"creationTimestamp": None}, "spec": {"replicas": 1}}, True, id="null"),
        pytest.param({"spec": {"replicas": 1, "paused": True}}, False, id="one more field"),
        pytest.param({"spec": {"replicas": 2}}, False, id="another value"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_is_current(manifest: Object, current: bool) -> None:  # noqa: FBT001 - a column
    def a_work(body: Object, **spec: Any) -> Object:
        return {"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [body]}, **spec}}

    present = a_work(manifest, manifestConfigs=[{"name": "x", "filled": "in"}])
    wanted = a_work({"spec": {"replicas": 1}}, manifestConfigs=[{"name": "x"}])

    assert is_current(present, wanted) is current


def test_author_adds_to_what_the_hub_asks_to_be_told() -> None:
    one, other = {"resource": "deployments", "name": "a"}, {"resource": "jobs", "name": "b"}
    feedback = [{"resourceIdentifier": one, "feedbackRules": [{"type": "WellKnownStatus"}]}]
    strategy, paths = {"type": "CreateOnly"}, {"type": "JSONPaths"}
    own: list[Object] = [
        {"resourceIdentifier": one, "feedbackRules": [paths], "updateStrategy": strategy},
        {"resourceIdentifier": other, "updateStrategy": strategy},
    ]

    assert merge_configs(feedback, own) == [
        {
            "resourceIdentifier": one,
            "feedbackRules": [{"type": "WellKnownStatus"}, paths],
            "updateStrategy": strategy,
        },
        {"resourceIdentifier": other, "updateStrategy": strategy},
    ]


def test_template_is_never_chosen_by_what_an_agent_can_write() -> None:
    config = {"group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": "evil"}
    addon = {**an_addon("a", cluster="c1"), "status": {"configReferences": [config]}}
    known = {"spec": {"supportedConfigs": [{**config, "name": "", "defaultConfig": {"name": "right"}}]}}

    assert list(config_keys(addon, known, ADDON_TEMPLATES)) == [ObjectKey.cluster("right")]


def test_variables_are_filled_in_everywhere() -> None:
    manifest = {"a": ["{{CLUSTER_NAME}}-x", {"b": "{{OTHER}}"}], "n": 3}

    assert substitute_variables(manifest, {"CLUSTER_NAME": "c1"}) == {"a": ["c1-x", {"b": ""}], "n": 3}
