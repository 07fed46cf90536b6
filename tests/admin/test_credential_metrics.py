"""Metrics of an agent: expiry, rotations and refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from watchword.api.bootstrap import CLUSTER_INFO, KUBECONFIG_KEY
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTERS, SECRETS
from watchword.api.time import rfc3339
from watchword.credentials.driver import NewCredential, ObtainResult, Pending, ValidCredential
from watchword.discovery.cluster_info import ClusterInfo, write_cluster_info
from watchword.discovery.token_secret import TokenRecord, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.pki.authority import Authority
from watchword.processes.hub import find_addon_credential
from watchword.registration.agent.controllers import CredentialMetricsObserver, remaining_validity_ratio
from watchword.registration.catalog import CATALOG, HubDrivers
from watchword.registration.hub.credential_reports import (
    MeasuredCredentials,
    expiry_metrics,
    read_authority_validity,
    read_join_token_validity,
)
from watchword.runtime.metrics import CredentialMetrics, remaining_life
from watchword.runtime.prometheus import CollectorRegistry
from watchword.runtime.raw_objects import Delta

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
EDGE = ObjectKey.cluster("edge")


@dataclass
class HandClock:
    """A clock that the test moves."""

    at: datetime = START

    def now(self) -> datetime:
        return self.at


@dataclass
class Counted:
    """One counted credential with a registry of its own."""

    clock: HandClock = field(default_factory=HandClock)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.report = CredentialMetricsObserver(CredentialMetrics(self.registry), "edge", self.clock)

    async def hears(self, answer: ObtainResult, *, after: timedelta = timedelta(0)) -> None:
        self.clock.at += after
        await self.report.on_answer(answer, {})

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def issued(at: datetime = START) -> NewCredential:
    return NewCredential({}, at, at + 10 * DAY, at + 8 * DAY)


REFUSED = Pending("CSRDenied", "no", recheck=DAY, failed=True)


async def test_rotation_is_counted_with_the_remaining_validity() -> None:
    counted = Counted()

    await counted.hears(issued(), after=timedelta(seconds=3))
    await counted.hears(issued(START + 8 * DAY), after=8 * DAY - timedelta(seconds=3))

    assert counted.value("watchword_join_seconds_sum") == 3
    assert counted.value("watchword_rotation_total", kind="cluster", result="success", reason="") == 1
    assert counted.value("watchword_rotation_remaining_ratio_sum", kind="cluster") == pytest.approx(0.2)


async def test_remaining_time_decreases_without_updates() -> None:
    counted = Counted()
    await counted.hears(issued())

    counted.clock.at += 9 * DAY

    left = counted.value("watchword_credential_expires_seconds", kind="cluster", cluster="edge")
    assert left == DAY.total_seconds()


async def test_one_refusal_is_counted_once_however_often_it_is_seen() -> None:
    counted = Counted()

    for _ in range(3):
        await counted.hears(REFUSED)

    assert counted.value("watchword_rotation_total", kind="cluster", result="failure", reason="CSRDenied") == 1


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(issued(START - 8 * DAY), 0.2, id="issued in this life"),
        pytest.param(
            ValidCredential(START, START + 2 * DAY, issued_at=START - 8 * DAY),
            0.2,
            id="issued before a restart",
        ),
        pytest.param(ValidCredential(START, START + 2 * DAY), 0.0, id="unknown time of issue"),
        pytest.param(issued(START - 11 * DAY), 0.0, id="too late"),
        pytest.param(ValidCredential(None, None), 1.0, id="does not expire"),
    ],
)
def test_choose_ratio(held: ValidCredential | NewCredential, expected: float) -> None:
    assert remaining_validity_ratio(held, START) == pytest.approx(expected)


def reporting(until: datetime) -> Object:
    row = {
        "type": ConditionType.CERTIFICATE_ROTATED,
        "status": "True",
        "message": f"valid from 2026-01-01T00:00:00Z until {until:%Y-%m-%dT%H:%M:%SZ}",
    }
    return MANAGED_CLUSTERS.manifest(EDGE, status={"conditions": [row]})


def test_a_hub_measures_what_its_clusters_report_until_they_are_gone() -> None:
    registry, clock, found = CollectorRegistry(), HandClock(), orjson.dumps(reporting(START + 10 * DAY))
    measured = MeasuredCredentials(CredentialMetrics(registry), clock)
    observers = expiry_metrics(measured, HubDrivers(CATALOG, {}), find_addon_credential)
    observe = next(each.observe for each in observers if each.resource is MANAGED_CLUSTERS)
    labels = {"kind": "cluster", "cluster": "edge"}

    observe(Delta(MANAGED_CLUSTERS, EDGE, None, found))
    clock.at += DAY
    seconds = registry.get_sample_value("watchword_credential_expires_seconds", labels)
    ratio = registry.get_sample_value("watchword_credential_remaining_ratio", labels)
    observe(Delta(MANAGED_CLUSTERS, EDGE, found, None))

    assert seconds == (9 * DAY).total_seconds()
    assert ratio == pytest.approx(0.9)
    assert registry.get_sample_value("watchword_credential_expires_seconds", labels) is None


def test_of_several_credentials_the_worst_is_measured() -> None:
    registry, clock = CollectorRegistry(), HandClock()
    measured = MeasuredCredentials(CredentialMetrics(registry), clock)
    labels = {"kind": "addon", "cluster": "edge"}

    short = CredentialValidity(START - DAY, START + DAY)
    for name, validity in (("a", short), ("b", CredentialValidity(START - 9 * DAY, START + 2 * DAY))):
        measured.observe("addon", "edge", name, validity)
    seconds = registry.get_sample_value("watchword_credential_expires_seconds", labels)
    ratio = registry.get_sample_value("watchword_credential_remaining_ratio", labels)
    measured.observe("addon", "edge", "b", None)

    assert seconds == DAY.total_seconds()
    assert ratio == pytest.approx(2 / 11)
    assert registry.get_sample_value("watchword_credential_remaining_ratio", labels) == pytest.approx(0.5)


def test_life_of_unknown_length_has_no_ratio() -> None:
    life = remaining_life([CredentialValidity(expires=START + DAY)], now=START)

    assert life.seconds == DAY.total_seconds()
    assert math.isnan(life.ratio)


def test_authority_that_is_published_is_measured() -> None:
    old, new = (Authority.make(name, now=START, lifetime=days * DAY) for name, days in (("old", 10), ("new", 100)))
    published = ClusterInfo(("https://hub:6443",), (old.certificate, new.certificate))
    config_map = CONFIG_MAPS.manifest(CLUSTER_INFO, data={KUBECONFIG_KEY: write_cluster_info(published)})

    validity = read_authority_validity(config_map)

    assert validity is not None
    assert validity.expires == new.certificate.not_after


def test_join_token_is_measured_from_its_creation_to_its_expiry() -> None:
    record = TokenRecord(BootstrapToken.generate(), expires=START + DAY)
    secret = write_token_secret(record)
    secret["metadata"]["creationTimestamp"] = rfc3339(START)

    assert read_join_token_validity(secret) == CredentialValidity(START, START + DAY)
    assert read_join_token_validity(SECRETS.manifest(EDGE)) is None
