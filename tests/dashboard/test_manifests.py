"""The rendered rights are all that the dashboard needs, and each of them is needed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from tests.dashboard.harness import a_person, allow, open_dashboard
from tests.helpers.credential_fleet import CredentialFleet

from watchword.api import yaml
from watchword.api.meta import ObjectKey
from watchword.api.rbac import RbacRule
from watchword.api.resources import CLUSTER_ROLES, DEPLOYMENTS, NAMESPACES, OCM_MANAGED_SERVICE_ACCOUNTS, ROLES
from watchword.cli.dashboard import command, options_of
from watchword.cli.main import cli
from watchword.health.facts import HUB_SOURCES, PROCESS_SOURCES
from watchword.operator.bundles import (
    AUTHORITY_RIGHTS,
    DASHBOARD,
    DASHBOARD_RIGHTS,
    PULL_SECRETS_RIGHTS,
    TOKENS_RIGHTS,
    DashboardBundleOptions,
    dashboard_bundle,
)
from watchword.testing.plane import Plane

USER = f"system:serviceaccount:{DASHBOARD.namespace}:{DASHBOARD.name}"
PROCESSES = {*PROCESS_SOURCES, *HUB_SOURCES, "leases of clusters"} - {"the configuration of pull secrets"}
PROMISED = {
    "account token", "add-on", "add-on token", "certificate request", "cluster", "cluster certificate", "event",
    "hub authority", "join token", "pull secret", *PROCESSES,
}  # fmt: skip
OTHER_GROUP = OCM_MANAGED_SERVICE_ACCOUNTS.group  # the accounts of the fleet are of the first group

pytestmark = pytest.mark.planes("embedded")  # the fleet is everything that the hub holds


async def shown(
    plane: Plane, hub: CredentialFleet, options: DashboardBundleOptions, missing: RbacRule | None = None
) -> set[str]:
    """Apply the manifests without one rule, and return what an administrator who signs in is shown."""
    await plane.client().apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(DASHBOARD.namespace)))  # the hub's
    for resource, obj in dashboard_bundle(options):
        if resource in (ROLES, CLUSTER_ROLES) and missing is not None:
            obj = {**obj, "rules": [rule for rule in obj["rules"] if rule != missing.rule]}  # noqa: PLW2901 - the same role
        if resource is not DEPLOYMENTS:
            await plane.client().apply(resource, obj, force=True)
    await hub.everything()
    person, token = await a_person(plane, "admin")
    await allow(plane, person, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    async with open_dashboard(plane, plane.client(USER, ("system:serviceaccounts",)), login=True) as dashboard:
        await dashboard.sign_in(token)
        if not dashboard.cookie:
            return set()
        answer = await dashboard.get("/api/live")
        if answer.status != 200:
            return set()
        board = await dashboard.board()
    rows = board["put"].values()
    tables = {
        row["table"] if row["table"] != "credential" else row["kind"] for row in rows if row["table"] != "finding"
    }
    requests = {"certificate request"} - {name.removesuffix("s") for name in board["unseen"]}
    processes = PROCESSES - set(board["unseen"])
    return tables | requests | processes | ({"event"} if "events" not in board["unseen"] else set())


async def test_rendered_rights_are_enough(plane: Plane, hub: CredentialFleet) -> None:
    assert await shown(plane, hub, DashboardBundleOptions(join_tokens=True, pull_secrets=True)) == PROMISED


async def test_secrets_are_readable_only_on_request(plane: Plane, hub: CredentialFleet) -> None:
    assert await shown(plane, hub, DashboardBundleOptions()) == PROMISED - {"join token", "pull secret"}


@pytest.mark.parametrize(
    "right",
    [right for right in (*DASHBOARD_RIGHTS, *AUTHORITY_RIGHTS, *TOKENS_RIGHTS) if right.group != OTHER_GROUP],
    ids=lambda right: f"{right.group}-{right.resources[0]}",
)
async def test_without_any_right_something_is_not_shown(plane: Plane, hub: CredentialFleet, right: RbacRule) -> None:
    assert await shown(plane, hub, DashboardBundleOptions(join_tokens=True), right) < PROMISED - {"pull secret"}


def test_role_never_writes_anything_but_reviews() -> None:
    rights = (*DASHBOARD_RIGHTS, *AUTHORITY_RIGHTS, *TOKENS_RIGHTS, *PULL_SECRETS_RIGHTS)

    assert {verb for right in rights if "reviews" not in right.resources[0] for verb in right.verbs} == {
        "get",
        "list",
        "watch",
    }


def test_printed_deployment_starts_with_options_that_the_command_knows() -> None:
    printed = CliRunner().invoke(cli, ["manifests", "dashboard", "--name", "fleet.example", "--https"])
    (workload,) = [obj for obj in yaml.load_all(printed.output) if obj["kind"] == "Deployment"]
    _, *arguments = [
        each.replace("$(POD_IP)", "10.0.0.1") for each in workload["spec"]["template"]["spec"]["containers"][0]["args"]
    ]

    context = command.make_context("dashboard", arguments)
    options = options_of(context.params)

    assert (options.login, options.names, options.secure) == (True, ("fleet.example",), True)
    assert (options.serve, options.health) == (("10.0.0.1,127.0.0.1", 8080), ("10.0.0.1", 8000))
