"""Metrics of a hub: refusals, and the time until a denial takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.helpers.fleet import AUTOMATIC, FleetHarness, PlaneConnector

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Label, cluster_role
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLES, CONFIG_MAPS, MANAGED_CLUSTERS
from watchword.credentials.certificates.agent import request_manifest
from watchword.credentials.driver import CredentialSubject, WantedCredential
from watchword.kube.client import Client
from watchword.kube.errors import Conflict
from watchword.pki.keys import PrivateKey
from watchword.registration.hub.credential_reports import revocation_metrics
from watchword.runtime.api_server_connection import leader_only_client
from watchword.runtime.cache import Cache
from watchword.runtime.health import HealthEndpoints
from watchword.runtime.metrics import Metrics, ReconcileResult
from watchword.runtime.raw_objects import Delta
from watchword.runtime.reconcile import Reader
from watchword.runtime.write_transports import Fence
from watchword.testing.plane import Plane

EDGE = ObjectKey.cluster("edge")
START = datetime(2026, 1, 1, tzinfo=UTC)


def read_page(metrics: Metrics, name: str, **labels: str) -> float:
    """Return one number of the page that is served under /metrics."""
    page = HealthEndpoints(metrics.registry).answer("/metrics").body.decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == name and labels.items() <= sample.labels.items())


async def shown(look: Callable[[], float], expected: float) -> None:
    """Wait until the page shows a number."""
    async with asyncio.timeout(60):
        while look() != expected:  # noqa: ASYNC110 - a metrics page cannot be watched
            await asyncio.sleep(0.05)


async def test_request_for_another_clusters_name_is_counted_once(fleet: FleetHarness) -> None:
    metrics, name = Metrics(), fleet.name()
    fleet.start_hub(AUTOMATIC, metrics=metrics)
    joining = Client(PlaneConnector(fleet.plane).joining())
    wanted = WantedCredential(name, CredentialSubject("system:open-cluster-management:another:agent"))

    created = await joining.create(CERTIFICATE_SIGNING_REQUESTS, request_manifest(wanted, PrivateKey.generate()))
    await shown(lambda: read_page(metrics, "watchword_denied_total", reason="CSRRefused"), 1)
    patch = {"metadata": {"annotations": {"look": "again"}}}
    await fleet.client.patch(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.of(created), patch)
    reconciled = {
        "controller": "csr-approval",
        "result": ReconcileResult.RETRY_AFTER.value,
    }  # a refusal is looked at again
    await shown(lambda: read_page(metrics, "watchword_reconcile_total", **reconciled), 2)

    assert read_page(metrics, "watchword_denied_total") == 1


async def test_the_time_from_a_denial_to_the_end_of_all_rights_is_measured(fleet: FleetHarness) -> None:
    metrics, name = Metrics(), fleet.name()
    fleet.start_hub(AUTOMATIC, metrics=metrics)
    fleet.start_agent(name)
    await fleet.joined(name)

    await fleet.accept(name, accepted=False)

    await shown(lambda: read_page(metrics, "watchword_revocation_seconds_count"), 1)
    assert read_page(metrics, "watchword_revocation_seconds_sum") < 60


async def test_fields_that_another_manager_owns_are_counted(plane: Plane) -> None:
    metrics, key = Metrics(), ObjectKey(await plane.namespace(), "shared")
    client = plane.client()
    fence = Fence(plane.clock, is_open=True)
    guarded = leader_only_client(client, fence, Cache.of(client), metrics)
    await client.apply(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"a": "1", "b": "1"}), manager="first")

    with pytest.raises(Conflict):
        await guarded.apply(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"a": "2", "b": "2"}), manager="second")
    stale = CONFIG_MAPS.manifest(key, metadata={"resourceVersion": "1"}, data={})
    with pytest.raises(Conflict):
        await guarded.update(CONFIG_MAPS, stale)  # another writer was faster: no conflict is counted

    assert read_page(metrics, "watchword_field_conflict_total", manager="first") == 1
    assert read_page(metrics, "watchword_field_conflict_total") == 1


@dataclass
class Desk(Reader):
    """A cluster and its role, as the cache shows them, and time that moves by hand."""

    accepted: bool = True
    rights: bool = True
    there: bool = True
    at: datetime = START
    metrics: Metrics = field(default_factory=Metrics)

    def now(self) -> datetime:
        return self.at

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        if resource is MANAGED_CLUSTERS and self.there:
            return MANAGED_CLUSTERS.manifest(key, spec={"hubAcceptsClient": self.accepted})
        if resource is CLUSTER_ROLES and self.rights and key.name == cluster_role("edge"):
            return CLUSTER_ROLES.manifest(key, metadata={"labels": {Label.CLUSTER_NAME: "edge"}}, rules=["any"])
        return None

    def stored(self, resource: Resource) -> bytes:
        key = EDGE if resource is MANAGED_CLUSTERS else ObjectKey.cluster(cluster_role("edge"))
        found = self.get(resource, key)
        return b"" if found is None else orjson.dumps(found)

    def list(self, resource: Resource, *, namespace: str = "", labels: str = "") -> Sequence[Object]:
        return []

    def by_index(self, resource: Resource, index: str, value: str) -> Sequence[Object]:
        return []


@pytest.mark.parametrize(
    ("steps", "measured"),
    [
        pytest.param([{}, {"accepted": False}, {"rights": False}], [1.0], id="denied, and its rights taken"),
        pytest.param([{}, {"accepted": False}, {}, {"rights": False}], [2.0], id="taken later"),
        pytest.param([{"accepted": False, "rights": False}, {}], [], id="denied before this process began"),
        pytest.param([{"accepted": False}, {"rights": False}], [1.0], id="begun in the midst of it"),
        pytest.param([{}, {"accepted": False}, {"accepted": True}, {"rights": False}], [], id="changed one's mind"),
        pytest.param([{}, {"there": False}, {"rights": False}], [], id="deleted, which takes the time it takes"),
        pytest.param([{"rights": False}, {"accepted": False}], [], id="never had any"),
    ],
)
def test_a_denial_is_measured_once(steps: list[dict[str, bool]], measured: list[float]) -> None:
    desk, before = Desk(), dict.fromkeys((MANAGED_CLUSTERS, CLUSTER_ROLES), b"")
    observers = list(revocation_metrics(desk, desk.metrics.credentials, desk))

    for step in steps:
        for name, value in step.items():
            setattr(desk, name, value)
        now = {resource: desk.stored(resource) for resource in before}
        for observer in observers:
            was, is_ = before.get(observer.resource), now.get(observer.resource)
            if was != is_:
                observer.observe(Delta(observer.resource, EDGE, was or None, is_ or None))
        before = now
        desk.at += timedelta(seconds=1)

    assert read_page(desk.metrics, "watchword_revocation_seconds_count") == len(measured)
    assert read_page(desk.metrics, "watchword_revocation_seconds_sum") == sum(measured)
