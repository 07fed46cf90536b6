"""The certificates of drivers' servers in the inventory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from watchword.api.meta import Object
from watchword.health.facts import HubFacts
from watchword.health.inventory import build_inventory, forecast_expiry
from watchword.health.states import InventoryHealth
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames
from watchword.registration.grpc.driver import BUNDLE_KEY, CA_BUNDLE, SERVING_KEY
from watchword.testing.builders import a_config_map

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MONTH = timedelta(days=30)


def published() -> Object:
    authority = Authority.make("signer", now=NOW)
    names = AlternativeNames(("grpc.example.com",))
    serving = authority.issue_serving(PrivateKey.generate().public, names, now=NOW, lifetime=MONTH)
    earlier = Authority.make("earlier", now=NOW, lifetime=MONTH)
    bundle = (authority.certificate.pem + earlier.certificate.pem).decode()
    data = {BUNDLE_KEY: bundle, SERVING_KEY: serving.pem.decode()}
    return a_config_map(CA_BUNDLE.name, namespace=CA_BUNDLE.namespace, data=data)


@pytest.mark.parametrize(
    ("days", "health"),
    [
        pytest.param(1, InventoryHealth.GOOD, id="just issued"),
        pytest.param(29, InventoryHealth.OVERDUE, id="not renewed"),
        pytest.param(31, InventoryHealth.EXPIRED, id="expired"),
    ],
)
def test_server_certificate_has_a_row(days: int, health: InventoryHealth) -> None:
    inventory = build_inventory(HubFacts(servers=[published()]), now=NOW + timedelta(days=days))

    rows = {row.kind: row for row in inventory.credentials}
    assert rows["gRPC server certificate"].health is health
    assert rows["gRPC authority"].subject == "signer"  # of several, the one that ends last
    assert rows["gRPC authority"].health is InventoryHealth.GOOD


def test_forecast_names_the_server_certificate() -> None:
    inventory = build_inventory(HubFacts(servers=[published()]), now=NOW)

    found = forecast_expiry(inventory, now=NOW, within=2 * MONTH)

    assert [row.row.kind for row in found] == ["gRPC server certificate"]
    assert not found[0].requires_action


@pytest.mark.parametrize("data", [{}, {BUNDLE_KEY: "damaged", SERVING_KEY: ""}])
def test_hub_without_the_server_has_no_row(data: dict[str, str]) -> None:
    config_map = a_config_map(CA_BUNDLE.name, namespace=CA_BUNDLE.namespace, data=data)

    assert build_inventory(HubFacts(servers=[config_map]), now=NOW).credentials == []
