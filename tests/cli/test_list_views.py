"""`status` and `forecast` have the options of every list, and name the next command."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
import pytest_asyncio
from tests.cli.conftest import Fleet
from tests.helpers.credential_fleet import HOUR, CredentialFleet

from watchword.cli._exit_codes import ExitCode

pytestmark = [pytest.mark.real_time, pytest.mark.planes("embedded")]  # the tables show everything that the hub holds

KIND = "managedcluster.cluster.open-cluster-management.io"


@pytest_asyncio.fixture
async def fleet(cli_fleet: Fleet) -> Fleet:
    """A hub with a cluster in each of two regions; the certificate of one is not renewed."""
    hub = CredentialFleet(cli_fleet.client, datetime.now(UTC))
    await hub.install()
    await hub.cluster("edge")
    await hub.cluster("paris", age=22 * HOUR)
    await hub.addon("edge")
    return cli_fleet


async def test_status_shows_the_clusters_that_a_selector_chooses(fleet: Fleet) -> None:
    chosen = orjson.loads(await fleet.run("status", "-l", "region=us-east", "-o", "json"))

    assert [row["name"] for row in chosen["clusters"]] == ["edge"]
    assert {row["cluster"] for row in chosen["credentials"]} == {"edge"}
    assert not [row for row in chosen["findings"] if row["cluster"] == "paris"]
    assert "no cluster has labels that match region=moon" in await fleet.run("status", "-l", "region=moon")
    assert "expected" in await fleet.run("status", "-l", "a=b=c", code=ExitCode.NOT_USABLE)


async def test_status_prints_names_and_parts(fleet: Fleet) -> None:
    assert (await fleet.run("status", "-o", "name")).splitlines() == [f"{KIND}/edge", f"{KIND}/paris"]
    assert await fleet.run("status", "-o", "jsonpath={.clusters[*].name}") == "edge paris\n"
    assert "choose from cluster" in await fleet.run("status", "--sort-by", "shoe-size", code=ExitCode.NOT_USABLE)


async def test_forecast_names_the_next_command_where_no_renewal_is_announced(fleet: Fleet) -> None:
    rows = orjson.loads(await fleet.run("forecast", "-o", "json"))
    shown = await fleet.run("forecast", "--sort-by", "holder")
    names = (await fleet.run("forecast", "-o", "name", "-l", "region=eu-central")).splitlines()

    found = {row["holder"]: row["finding"] for row in rows}
    assert (found["agent of paris"]["reason"], found["agent of edge"]) == ("CredentialOverdue", None)
    assert f"next: {found['agent of paris']['command']}" in shown
    assert shown.index("add-on sample") < shown.index("agent of edge") < shown.index("agent of paris")
    assert names == ["agent of paris"]
    assert "cannot be watched" in await fleet.run("forecast", "-w", code=ExitCode.NOT_USABLE)
