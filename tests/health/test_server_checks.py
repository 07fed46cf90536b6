"""`doctor` looks at the servers that drivers bring to a hub."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from watchword.admin.hub_setup import HubSetup, set_up_hub
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES
from watchword.discovery.cluster_info import ClusterInfo
from watchword.health.examination import Examination
from watchword.health.finding import Finding, Severity
from watchword.health.hub_rules import LOGS, decide_server_findings
from watchword.operator.bundles import operator_bundle
from watchword.pki.authority import Authority
from watchword.pki.certificates import split_bundle
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames
from watchword.registration.grpc.driver import BUNDLE_KEY, CA_BUNDLE, HOSTS, SERVER, SERVING_KEY
from watchword.testing.builders import a_config_map, a_namespace
from watchword.testing.plane import Plane

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MONTH = timedelta(days=30)
HOST = "grpc.example.com"
pytestmark = pytest.mark.planes("embedded")  # the real one is shared, so what others left would be found


def published(*, host: str = HOST, foreign: bool = False, now: datetime = NOW) -> Object:
    trusted, other = Authority.make("signer", now=now), Authority.make("other", now=now)
    names = AlternativeNames((host,), ("192.0.2.7",))
    signer = other if foreign else trusted
    serving = signer.issue_serving(PrivateKey.generate().public, names, now=now, lifetime=MONTH)
    data = {BUNDLE_KEY: trusted.certificate.pem.decode(), SERVING_KEY: serving.pem.decode()}
    return a_config_map(CA_BUNDLE.name, namespace=CA_BUNDLE.namespace, data=data)


@pytest.mark.parametrize(
    ("found", "days", "said"),
    [
        pytest.param(None, 1, "contains no authority", id="the controllers never ran"),
        pytest.param(published(host="old.example.com"), 1, f"is not valid for {HOST}", id="for another host"),
        pytest.param(published(foreign=True), 1, "agents do not trust the certificate", id="of another authority"),
        pytest.param(published(), 31, "agents do not trust the certificate", id="expired"),
    ],
)
def test_server_that_agents_refuse_is_found_with_the_next_step(found: Object | None, days: int, said: str) -> None:
    (finding,) = decide_server_findings(SERVER, found, [HOST, "192.0.2.7"], now=NOW + timedelta(days=days))

    assert (finding.severity, finding.command) == (Severity.FAILURE, LOGS)
    assert said in finding.sentence


def test_server_with_a_good_certificate_is_well() -> None:
    assert decide_server_findings(SERVER, published(), [HOST], now=NOW) == []


async def a_hub(plane: Plane, *hosts: str) -> None:
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    settings = {HOSTS.flag: ",".join(hosts)} if hosts else {}
    await set_up_hub(plane.client(), HubSetup(info, ("csr", "grpc"), settings, deploy=False))
    await plane.client().apply(NAMESPACES, a_namespace(CA_BUNDLE.namespace), force=True)


async def findings(plane: Plane, check: str) -> list[Finding]:
    results = await Examination(plane.client(), plane.clock).run()
    return next(list(result.findings) for result in results if result.check == check)


async def test_doctor_is_content_with_a_server_that_agents_trust(plane: Plane) -> None:
    await a_hub(plane, HOST)
    await plane.client().create(CONFIG_MAPS, published(now=plane.clock.now()))

    (finding,) = await findings(plane, "servers")

    assert (finding.severity, finding.sentence) == (Severity.OK, "agents can trust the servers of this hub's drivers")


async def test_doctor_names_the_flag_where_no_host_is_published(plane: Plane) -> None:
    await a_hub(plane)
    await plane.client().create(CONFIG_MAPS, published(now=plane.clock.now()))

    (finding,) = await findings(plane, "servers")

    assert (finding.severity, finding.command) == (Severity.WARNING, "watchword init --grpc-server-hosts HOST")


async def test_doctor_says_once_that_a_certificate_was_not_renewed(plane: Plane) -> None:
    await a_hub(plane, HOST)
    await plane.client().create(CONFIG_MAPS, published(now=plane.clock.now() - timedelta(days=29)))

    (finding,) = await findings(plane, "credentials")

    assert "is the hub running? its controllers renew it" in finding.sentence


async def test_doctor_names_the_deployment_of_a_server_that_is_missing(plane: Plane) -> None:
    await a_hub(plane, HOST)
    _, operator = next(row for row in operator_bundle() if row[0] is DEPLOYMENTS)
    await plane.client().apply(NAMESPACES, a_namespace(ObjectKey.of(operator).namespace), force=True)
    await plane.client().create(DEPLOYMENTS, operator)

    reasons = [finding.sentence for finding in await findings(plane, "processes")]

    assert f"there is no Deployment {CA_BUNDLE.namespace}/cluster-manager-grpc-server" in reasons
