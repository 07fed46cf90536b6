"""What the commands of a hub say about a cluster that registers by AWS IAM."""

from __future__ import annotations

import orjson
import pytest
from tests.cli.conftest import Fleet

from watchword.api.conditions import Condition
from watchword.api.credential_report import CredentialValidity, format_validity
from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.cli._exit_codes import ExitCode
from watchword.registration.aws_irsa.options import MANAGED_ARN, READY
from watchword.runtime.status import StatusWriter
from watchword.testing.builders import a_cluster

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]

WELL = (
    Condition.true(ConditionType.HUB_ACCEPTED, "HubClusterAdminAccepted"),
    Condition.true(ConditionType.JOINED, "ManagedClusterJoined"),
    Condition.true(ConditionType.AVAILABLE, "ManagedClusterAvailable"),
    Condition.true(
        "ClusterRoleAssumable", "HubKubeconfigWritten", f"assumes ocm-hub-1 {format_validity(CredentialValidity())}"
    ),
)
MISSING_ROLE = "role ocm-managed-cluster-1 does not exist: run `watchword aws prerequisites cluster --apply`"


async def an_aws_cluster(fleet: Fleet, *conditions: Condition) -> str:
    """Create a ManagedCluster as a hub and an agent leave it."""
    await fleet.run("init", "--no-deploy", "--no-probe", "--token", "")
    name = fleet.unique("edge")
    arn = f"arn:aws:eks:eu-central-1:444455556666:cluster/{name}"
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True, annotations={MANAGED_ARN: arn}))
    for condition in conditions:
        found = await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        await StatusWriter(fleet.client, fleet.plane.clock).set_condition(MANAGED_CLUSTERS, found, condition)
    return name


async def test_status_says_what_renews_the_tokens(cli_fleet: Fleet) -> None:
    name = await an_aws_cluster(cli_fleet, *WELL)

    shown = await cli_fleet.run("status", "-o", "wide")

    row = next(line for line in shown.splitlines() if f"agent of {name}" in line)
    assert row.startswith("cluster IAM role")
    assert "tokens are renewed by the exec plugin" in row


async def test_forecast_leaves_out_what_does_not_expire(cli_fleet: Fleet) -> None:
    name = await an_aws_cluster(cli_fleet, *WELL)

    shown = await cli_fleet.run("forecast", "--days", "36500", "-o", "json")

    assert name not in {row.get("cluster") for row in orjson.loads(shown)}


async def test_doctor_shows_the_failing_identity_with_its_next_step(cli_fleet: Fleet) -> None:
    name = await an_aws_cluster(cli_fleet, *WELL, Condition.false(READY, "AgentRoleMissing", MISSING_ROLE))

    shown = await cli_fleet.run("doctor", "--read-only", code=ExitCode.ATTENTION)

    assert f"cluster {name}: {MISSING_ROLE}" in " ".join(shown.split())


async def test_denied_cluster_says_that_its_role_is_left(cli_fleet: Fleet) -> None:
    name = await an_aws_cluster(cli_fleet, *WELL)
    await cli_fleet.run("deny", "--clusters", name)
    left = f"role ocm-hub-1 has to be deleted with your AWS credentials: run `watchword aws revoke {name}`"
    found = await cli_fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    report = Condition.false(READY, "IdentityMissing", left)
    await StatusWriter(cli_fleet.client, cli_fleet.plane.clock).set_condition(MANAGED_CLUSTERS, found, report)

    shown = await cli_fleet.run("status", "-o", "json")

    row = next(row for row in orjson.loads(shown)["clusters"] if row["name"] == name)
    assert (row["accepted"], row["note"]) == (False, f"denied: {left}")
