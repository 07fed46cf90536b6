"""What people see of pull secrets: metrics, a list, and never a token."""

from __future__ import annotations

import asyncio
import sys

import orjson
import pytest
from tests.helpers.leak_search import Canary
from tests.pullsecrets.harness import PullSecretHarness, token_of

from watchword.api.meta import ObjectKey
from watchword.api.pull_secrets import CONFIGURATION
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from watchword.health.examination import Examination
from watchword.pullsecrets.inventory import PullSecretHealth, list_pull_secrets
from watchword.runtime.metrics import Metrics
from watchword.testing.eventually import eventually, is_gone


def values_of(metrics: Metrics) -> dict[str, float]:
    lines = metrics.registry.exposition().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


@pytest.mark.planes("embedded")
async def test_metrics_tell_age_expiry_state_and_refreshes(cluster: PullSecretHarness) -> None:
    metrics = Metrics()
    cluster.start(metrics=metrics)
    await cluster.account("builder")
    secret = await cluster.listed("builder")
    await cluster.listed("default")
    await asyncio.sleep(600)

    found = values_of(metrics)

    assert found['watchword_pull_secrets{state="filled"}'] >= 2
    assert found['watchword_pull_secrets{state="empty"}'] == 0
    assert 590 <= found["watchword_pull_secret_oldest_token_age_seconds"] <= 610
    assert 2990 <= found["watchword_pull_secret_soonest_expiry_seconds"] <= 3010
    assert found['watchword_pull_secret_refresh_total{reason="missing"}'] >= 2
    assert found["watchword_pull_secret_first_token_seconds_count"] >= 2
    assert token_of(secret) not in metrics.registry.exposition().decode()


@pytest.mark.planes("embedded")
async def test_secret_that_is_gone_is_counted_no_more(cluster: PullSecretHarness) -> None:
    metrics = Metrics()
    cluster.start(metrics=metrics)
    await cluster.account("builder")
    secret = await cluster.listed("builder")
    await asyncio.sleep(60)  # until every account of the cluster has its token
    before = values_of(metrics)['watchword_pull_secrets{state="filled"}']

    await cluster.client.delete(SERVICE_ACCOUNTS, cluster.key("builder"))
    await eventually(cluster.client, SECRETS, ObjectKey.of(secret), is_gone)
    await asyncio.sleep(1)

    assert values_of(metrics)['watchword_pull_secrets{state="filled"}'] == before - 1


async def test_list_shows_the_unhealthy_first_and_no_token(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.legacy_pair(await cluster.account("old"))
    await cluster.account("builder")
    secret = await cluster.listed("builder")
    await cluster.listed("default")

    rows = await list_pull_secrets(cluster.client, now=cluster.plane.clock.now(), namespace=cluster.namespace)

    health = {row.account: row.health for row in rows}
    assert health["builder"] is PullSecretHealth.HEALTHY
    assert health["old"] is PullSecretHealth.LEGACY
    assert rows[0].account == "old"
    assert token_of(secret) not in str(rows)


async def test_doctor_names_a_configuration_that_is_not_followed(private_cluster: PullSecretHarness) -> None:
    namespace = NAMESPACES.manifest(ObjectKey.cluster(CONFIGURATION.namespace))
    await private_cluster.client.apply(NAMESPACES, namespace)
    config = CONFIG_MAPS.manifest(CONFIGURATION, data={"registries": "https://x"})
    await private_cluster.client.apply(CONFIG_MAPS, config)

    results = await Examination(private_cluster.client, private_cluster.plane.clock).run()

    (found,) = next(result.findings for result in results if result.check == "processes")
    assert (found.severity.label, "'https://x' is not a registry" in found.sentence) == ("failure", True)


async def test_doctor_examines_a_cluster_that_has_pull_secrets_and_is_in_no_fleet(
    private_cluster: PullSecretHarness,
) -> None:
    private_cluster.start()
    await private_cluster.account("builder")
    await private_cluster.listed("builder")

    results = await Examination(private_cluster.client, private_cluster.plane.clock).run()

    found = {result.check: [finding.severity.label for finding in result.findings] for result in results}
    assert found["pull secrets"] == ["ok"]
    assert "membership" not in found


@pytest.mark.real_time
async def test_command_runs_the_controllers_and_lists_what_they_made(
    cluster: PullSecretHarness, canary: Canary
) -> None:
    config = cluster.options.config_map
    base = [sys.executable, "-m", "watchword", "pull-secrets"]
    running = await asyncio.create_subprocess_exec(
        *base,
        f"--kubeconfig={cluster.plane.kubeconfig}",
        f"--config-map={config}",
        "--disable-leader-election",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    await cluster.account("builder")
    secret = await cluster.listed("builder")
    listing = await asyncio.create_subprocess_exec(
        *base,
        *("list", "-n", cluster.namespace, "-o", "json", f"--kubeconfig={cluster.plane.kubeconfig}"),
        stdout=asyncio.subprocess.PIPE,
    )
    listed, _ = await listing.communicate()
    running.terminate()
    logged, _ = await running.communicate()

    rows = {row["serviceAccount"]: row for row in orjson.loads(listed)["items"]}
    assert rows["builder"]["health"] == "healthy"
    assert rows["builder"]["secret"] == secret["metadata"]["name"]
    assert running.returncode == 0
    assert token_of(secret).split(".")[2] not in (logged + listed).decode()
