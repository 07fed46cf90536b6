"""Commands that show a fleet do so whatever one object holds, and say when there is no fleet."""

from __future__ import annotations

import orjson
import pytest
import pytest_asyncio
from tests.cli.conftest import Fleet

from watchword.api.json import copy_json
from watchword.api.meta import ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS, MANAGED_CLUSTERS
from watchword.cli._exit_codes import ExitCode

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]


@pytest_asyncio.fixture
async def hostile(cli_fleet: Fleet) -> str:
    """A cluster whose lease duration no timedelta holds, stored before the CRD bounded it."""
    await cli_fleet.init("--no-probe")
    name, crd = cli_fleet.unique("hostile"), ObjectKey.cluster("managedclusters.cluster.open-cluster-management.io")
    definition = await cli_fleet.client.get(CUSTOM_RESOURCE_DEFINITIONS, crd)
    (version,) = definition["spec"]["versions"]
    bounded = copy_json(version)
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["leaseDurationSeconds"] = {"type": "integer"}
    await cli_fleet.client.patch(CUSTOM_RESOURCE_DEFINITIONS, crd, {"spec": {"versions": [version]}})
    spec = {"hubAcceptsClient": False, "leaseDurationSeconds": 10**15}
    cluster = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec=spec)
    await cli_fleet.client.create(MANAGED_CLUSTERS, cluster)
    await cli_fleet.client.patch(CUSTOM_RESOURCE_DEFINITIONS, crd, {"spec": {"versions": [bounded]}})
    return name


@pytest.mark.planes("embedded")  # a changed CRD is in force at once
async def test_one_unreadable_cluster_does_not_end_the_views(cli_fleet: Fleet, hostile: str) -> None:
    assert hostile in await cli_fleet.run("status")
    assert hostile in await cli_fleet.run("clusters")
    await cli_fleet.run("doctor", "--read-only", code=ExitCode.ATTENTION)
    await cli_fleet.run("forecast")


@pytest.mark.planes("embedded")
@pytest.mark.parametrize("verb", [["deny", "--clusters"], ["revoke", "cluster", "--yes"]])
async def test_an_unreadable_cluster_can_be_denied(cli_fleet: Fleet, hostile: str, verb: list[str]) -> None:
    await cli_fleet.run(*verb, hostile)

    found = await cli_fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(hostile))
    assert Annotation.DENIED_ON in found["metadata"]["annotations"]
    assert "denied" in await cli_fleet.run("status")


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["status"], id="status"),
        pytest.param(["forecast"], id="forecast"),
        pytest.param(["clusters"], id="clusters"),
        pytest.param(["addon", "list"], id="addon list"),
        pytest.param(["serviceaccount", "list"], id="serviceaccount list"),
        pytest.param(["accept", "--clusters", "edge"], id="accept"),
        pytest.param(["deny", "--clusters", "edge"], id="deny"),
    ],
)
async def test_a_cluster_that_is_no_hub_is_reported_with_the_next_command(cli_fleet: Fleet, argv: list[str]) -> None:
    said = await cli_fleet.run(*argv, code=ExitCode.REFUSED)

    assert "this cluster is not a hub" in said
    assert "`watchword init`" in said


async def test_check_of_a_cluster_that_is_no_hub_needs_attention_and_says_what_to_do(cli_fleet: Fleet) -> None:
    said = await cli_fleet.run("status", "--check", code=ExitCode.ATTENTION)
    rows = orjson.loads(await cli_fleet.run("status", "--check", "-o", "json", code=ExitCode.ATTENTION))
    diagnosed = await cli_fleet.run("doctor", code=ExitCode.ATTENTION)

    assert [(row["severity"], row["reason"]) for row in rows] == [("failure", "NoHub")]
    assert rows[0]["message"] in said
    assert f"next: {rows[0]['command']}" in said
    assert rows[0]["message"] in " ".join(diagnosed.split())


async def test_the_timeout_of_join_bounds_the_search_for_the_hub(cli_fleet: Fleet) -> None:
    pin = f"sha256:{'a' * 64}"
    token = ["--token", "x7k2m9.q8w3e5r1t0y6u4i2", "--discovery-token-ca-cert-hash", pin]

    # Without the bound the test would run into its own time limit: the search takes five minutes by default.
    said = await cli_fleet.run(
        "join", "127.0.0.1:1", *token, "--cluster-name", "edge", "--timeout", "1s", code=ExitCode.UNREACHABLE
    )

    assert "127.0.0.1:1" in said


async def test_a_new_token_is_announced_as_a_secret(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe")
    assert await cli_fleet.start("token", "create") == 0

    assert "any holder can request to join this hub" in cli_fleet.output.readouterr().err
