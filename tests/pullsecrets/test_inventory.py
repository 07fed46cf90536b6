"""Pull secrets in `status` and `forecast`: totals and the next expiry, and never one row for each of thousands."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.helpers.server_decision import grant
from tests.pullsecrets.harness import PullSecretHarness, token_of

from watchword.api.meta import ObjectKey
from watchword.api.pull_secrets import BOUND, CONFIGURATION
from watchword.api.resources import CONFIG_MAPS, NAMESPACES
from watchword.api.time import rfc3339
from watchword.cli.lists import ListRequest
from watchword.cli.status import describe_findings, render_inventory, summarise
from watchword.credentials.lifecycle import BoundToken
from watchword.health.facts import HubFacts
from watchword.health.hub_observer import observe_hub
from watchword.health.hub_reader import read_hub_facts
from watchword.health.hub_rules import decide_table_findings
from watchword.health.inventory import build_inventory, forecast_expiry, inventory_document
from watchword.health.inventory_rows import PULL_SECRET, CredentialRow
from watchword.health.states import InventoryHealth
from watchword.pullsecrets.pull_secret import Content, Corrupt, Credentials, Empty, PullSecret
from watchword.testing.virtual_time import EPOCH

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOW = EPOCH + timedelta(days=1)
MANY = 10_000


def a_pull_secret(number: int, content: Content, *, age: timedelta = HOUR) -> PullSecret:
    return PullSecret(
        key=ObjectKey("team-a", f"account-{number}-dockercfg-1234567890"),
        uid=f"uid-{number}",
        version="1",
        account=f"account-{number}",
        owner_uid="owner",
        binding=BOUND,
        legacy_token="",
        created_at=rfc3339(NOW - age),
        deleting=False,
        finalizers=(),
        content=content,
    )


def a_token(*, expires_in: timedelta) -> Credentials:
    expires: datetime = NOW + expires_in
    return Credentials(("registry.example",), BoundToken("subject", "", expires - HOUR, expires, key_id="key"))


def rows_of(secrets: list[PullSecret]) -> list[CredentialRow]:
    return list(build_inventory(HubFacts(pull_secrets=secrets), now=NOW).credentials)


@pytest.mark.parametrize(
    ("secret", "health", "note"),
    [
        pytest.param(
            a_pull_secret(1, a_token(expires_in=-MINUTE)),
            InventoryHealth.EXPIRED,
            "account-1-dockercfg",
            id="expired",
        ),
        pytest.param(a_pull_secret(1, Corrupt()), InventoryHealth.FAILING, "corrupt: team-a/account-1", id="corrupt"),
        pytest.param(
            a_pull_secret(1, Empty()), InventoryHealth.FAILING, "empty: team-a/account-1", id="empty for an hour"
        ),
        pytest.param(
            a_pull_secret(1, a_token(expires_in=5 * MINUTE)),
            InventoryHealth.OVERDUE,
            "account-1-dockercfg",
            id="overdue",
        ),
        pytest.param(
            replace(a_pull_secret(1, Empty()), legacy_token="builder-token"),
            InventoryHealth.GOOD,
            "made from long-lived tokens",
            id="legacy",
        ),
        pytest.param(
            a_pull_secret(1, Empty(), age=MINUTE / 2), InventoryHealth.GOOD, "waits for its first token", id="new"
        ),
        pytest.param(a_pull_secret(1, a_token(expires_in=55 * MINUTE)), InventoryHealth.GOOD, "", id="healthy"),
    ],
)
def test_pull_secret_is_shown_with_its_state(secret: PullSecret, health: InventoryHealth, note: str) -> None:
    (row,) = rows_of([secret])

    assert (row.kind, row.holder, row.health) == (PULL_SECRET, "service account team-a/account-1", health)
    assert note in row.note


def test_thousands_of_pull_secrets_are_one_row_with_the_first_to_expire() -> None:
    secrets = [a_pull_secret(number, a_token(expires_in=50 * MINUTE)) for number in range(MANY)]
    secrets[77] = a_pull_secret(77, a_token(expires_in=45 * MINUTE))
    inventory = build_inventory(HubFacts(pull_secrets=secrets), now=NOW)

    (row,) = inventory.credentials

    assert (row.holder, row.count) == (f"{MANY} service accounts", MANY)
    assert row.validity.expires == NOW + 45 * MINUTE
    assert "team-a/account-77-dockercfg" in row.note
    assert summarise(inventory) == f"{MANY} credentials: all well"
    assert inventory_document(inventory, NOW)["credentials"][0]["count"] == MANY


def test_broken_pull_secrets_are_counted_beside_healthy_ones() -> None:
    secrets = [a_pull_secret(number, a_token(expires_in=50 * MINUTE)) for number in range(MANY)]
    secrets[:3] = [a_pull_secret(number, a_token(expires_in=-MINUTE)) for number in range(3)]
    inventory = build_inventory(HubFacts(pull_secrets=secrets), now=NOW)

    assert [row.count for row in inventory.credentials] == [3, MANY - 3]
    line, command = describe_findings(decide_table_findings(inventory))
    assert line.startswith(
        "failure: pull secret of 3 service accounts: team-a/account-0-dockercfg-1234567890 and 2 more"
    )
    assert command == "  next: watchword pull-secrets list --unhealthy"
    assert inventory.problems == 3


def test_forecast_names_the_next_expiry_and_what_is_not_renewed_before_it() -> None:
    secrets = [a_pull_secret(number, a_token(expires_in=50 * MINUTE)) for number in range(5)]
    secrets.append(a_pull_secret(9, a_token(expires_in=5 * MINUTE)))
    inventory = build_inventory(HubFacts(pull_secrets=secrets), now=NOW)

    expiring = forecast_expiry(inventory, now=NOW, within=timedelta(days=7))

    assert [(each.row.count, each.requires_action) for each in expiring] == [(1, True), (5, False)]
    assert all("can no longer pull" in each.row.consequence for each in expiring)


async def test_status_reads_and_follows_the_pull_secrets_of_a_cluster(private_cluster: PullSecretHarness) -> None:
    private_cluster.start()
    await private_cluster.account("builder")
    secret = await private_cluster.listed("builder")
    now = private_cluster.plane.clock.now()

    facts = await read_hub_facts(private_cluster.client)
    read = build_inventory(facts, now=now)
    async with observe_hub(
        private_cluster.client, dict(facts.unseen), pull_secrets=True, absent=facts.absent
    ) as observer:
        followed = build_inventory(observer.facts(), now=now)

    for inventory in (read, followed):
        assert PULL_SECRET in {row.kind for row in inventory.credentials}
        assert (
            list(describe_findings(decide_table_findings(inventory))) == []
        )  # this cluster is no hub, and need not be one
        page = render_inventory(inventory, now, ListRequest("wide"), None)
        assert PULL_SECRET in page
        assert token_of(secret) not in page


async def test_hub_without_pull_secrets_costs_one_empty_list(private_cluster: PullSecretHarness) -> None:
    facts = await read_hub_facts(private_cluster.client)

    assert facts.pull_secrets == []


async def test_user_who_may_not_read_secrets_is_told_only_where_pull_secrets_are_configured(
    private_cluster: PullSecretHarness,
) -> None:
    await _may_read_config_maps(private_cluster, "viewer")
    viewer = private_cluster.plane.fresh_client("viewer", ())

    before = await read_hub_facts(viewer)
    await private_cluster.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(CONFIGURATION.namespace)))
    await private_cluster.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(CONFIGURATION, data={}))
    after = await read_hub_facts(viewer)

    assert before.pull_secrets is None
    assert "pull secrets" not in before.unseen
    assert "pull secrets" in after.unseen


async def _may_read_config_maps(cluster: PullSecretHarness, user: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    await grant(cluster.client, ObjectKey.cluster("config-maps"), rules, user)
