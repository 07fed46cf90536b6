"""Where an agent looks for its hub: in its Secret, in the bootstrap kubeconfig, in what the hub publishes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.helpers.cluster_info_server import ClusterInfoServer, FakeNetwork

from watchword.credentials.credential_secret import hub_kubeconfig
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.discovery.cluster_info import ClusterInfo
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.kube.transport import Transport
from watchword.pki.authority import Authority
from watchword.registration.agent.hub_endpoint import HubEndpoint, HubEndpointMonitor, known_servers, original_server

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD, NEW = (Authority.make(name, now=NOW) for name in ("old", "new"))
A, B, C = "https://a:6443", "https://b:6443", "https://c:6443"


@dataclass
class Configured:
    """A connector of which only counts what the bootstrap kubeconfig says."""

    said: ClusterEntry | None

    def entry(self) -> ClusterEntry:
        if self.said is None:
            raise ConfigError("there is no bootstrap kubeconfig")
        return self.said

    def has_bootstrap_credential(self) -> bool:
        return self.said is not None

    def joining(self) -> Transport:
        raise NotImplementedError

    def own(self, data: SecretData) -> Transport:
        raise NotImplementedError


def an_entry(server: str = A, *by: Authority) -> ClusterEntry:
    return ClusterEntry(server, ca_data=b"".join(authority.certificate.pem for authority in by or (OLD,)))


def a_secret(entry: ClusterEntry) -> dict[str, bytes]:
    return {KUBECONFIG: hub_kubeconfig(entry, UserEntry())}


def info(*endpoints: str, by: tuple[Authority, ...] = (OLD,)) -> ClusterInfo:
    return ClusterInfo(endpoints, tuple(authority.certificate for authority in by))


def a_hub(published: ClusterInfo, authority: Authority = OLD) -> ClusterInfoServer:
    hub = ClusterInfoServer(authority)
    hub.publish(published)
    return hub


def an_endpoint(configured: ClusterEntry | None, recorded: ClusterEntry | None = None) -> HubEndpoint:
    """Return the endpoint of an agent that restarts with this Secret; by default with what was configured."""
    endpoint, recorded = HubEndpoint(Configured(configured)), recorded or configured
    if recorded is not None:
        endpoint.restore(a_secret(recorded))
    return endpoint


def a_monitor(endpoint: HubEndpoint, network: FakeNetwork) -> HubEndpointMonitor:
    return HubEndpointMonitor(endpoint=endpoint, client_factory=network)


async def check(monitor: HubEndpointMonitor) -> bool:
    """Look as the agent does: at what is configured, then at what is published."""
    return await monitor.check_configuration() or await monitor.check_published()


def test_a_hub_that_moved_is_known_by_its_first_address() -> None:
    endpoint = an_endpoint(an_entry())

    assert endpoint.record_move(B, OLD.certificate.pem)

    assert (endpoint.entry().server, original_server(endpoint.entry())) == (B, A)
    assert not endpoint.record_move(B, OLD.certificate.pem)
    assert endpoint.new_configuration() is None


def test_hub_that_moved_twice_keeps_its_original_address() -> None:
    endpoint = an_endpoint(an_entry())
    endpoint.record_move(B, OLD.certificate.pem)
    endpoint.record_move(C, NEW.certificate.pem)

    entry = endpoint.entry()
    assert (entry.server, entry.ca_data, original_server(entry)) == (C, NEW.certificate.pem, A)


@pytest.mark.parametrize("configured", [an_entry(), None], ids=["the old address is configured", "nothing is"])
def test_after_a_restart_the_hub_is_where_it_was_found(configured: ClusterEntry | None) -> None:
    before = an_endpoint(an_entry())
    before.record_move(B, NEW.certificate.pem, (B, C))

    after = an_endpoint(configured, recorded=before.entry())

    assert after.entry() == before.entry()
    assert (original_server(after.entry()), known_servers(after.entry())) == (A, (B, C))
    assert after.new_configuration() is None


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(an_entry(C), id="another address"),
        pytest.param(an_entry(A, NEW), id="another authority"),
        pytest.param(replace(an_entry(), tls_server_name="hub.internal"), id="another name in the certificate"),
    ],
)
def test_a_changed_bootstrap_kubeconfig_is_noticed(changed: ClusterEntry) -> None:
    before = an_endpoint(an_entry())
    before.record_move(B, OLD.certificate.pem)

    assert an_endpoint(changed, recorded=before.entry()).new_configuration() == changed


async def test_a_rotation_of_the_authority_reaches_the_agent() -> None:
    hub, endpoint = a_hub(info(A, by=(OLD, NEW))), an_endpoint(an_entry())
    monitor = a_monitor(endpoint, FakeNetwork({A: hub}))

    assert await check(monitor)

    assert endpoint.entry().ca_data == an_entry(A, OLD, NEW).ca_data
    assert not await check(monitor)


async def test_a_hub_is_followed_when_its_address_ends() -> None:
    network = FakeNetwork({A: a_hub(info(B)), B: a_hub(info(B))})
    endpoint = an_endpoint(an_entry())
    assert await check(a_monitor(endpoint, network))
    assert (endpoint.entry().server, known_servers(endpoint.entry())) == (A, (B,))  # it works where it is

    network.servers[A].up = False
    restarted = an_endpoint(an_entry(), recorded=endpoint.entry())

    assert await check(a_monitor(restarted, network))
    assert restarted.entry().server == B


async def test_a_changed_bootstrap_kubeconfig_is_adopted_though_the_old_address_works() -> None:
    network = FakeNetwork({A: a_hub(info(A)), C: a_hub(info(C))})
    endpoint = an_endpoint(an_entry(C), recorded=an_entry(A))

    assert await check(a_monitor(endpoint, network))

    assert endpoint.entry() == an_entry(C)


@pytest.mark.parametrize(
    "there",
    [
        pytest.param({}, id="no server answers"),
        pytest.param({C: a_hub(info(C, by=(NEW,)), NEW)}, id="a server of another authority answers"),
    ],
)
async def test_a_changed_bootstrap_kubeconfig_counts_only_once_its_server_proved_itself(
    there: dict[str, ClusterInfoServer],
) -> None:
    endpoint = an_endpoint(an_entry(C), recorded=an_entry(A))

    assert not await check(a_monitor(endpoint, FakeNetwork({A: a_hub(info(A)), **there})))

    assert endpoint.entry() == an_entry(A)


async def test_a_hub_that_went_back_to_its_first_address_is_found_there() -> None:
    before = an_endpoint(an_entry())
    before.record_move(B, OLD.certificate.pem)
    endpoint = an_endpoint(an_entry(), recorded=before.entry())

    assert await check(a_monitor(endpoint, FakeNetwork({A: a_hub(info(A))})))

    assert endpoint.entry() == an_entry()


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(None, id="nothing is configured"),
        pytest.param(replace(an_entry(), proxy_url="http://proxy"), id="through a proxy"),
        pytest.param(replace(an_entry(), tls_server_name="hub"), id="under another name"),
        pytest.param(replace(an_entry(), insecure=True, ca_data=b""), id="without trust"),
        pytest.param(ClusterEntry(A), id="by the roots of the system"),
        pytest.param(ClusterEntry(A, ca_data=b"nonsense"), id="by nonsense"),
    ],
)
async def test_manual_configuration_is_left_unchanged(said: ClusterEntry | None) -> None:
    network = FakeNetwork({A: a_hub(info(A, by=(OLD, NEW)))})

    assert not await check(a_monitor(an_endpoint(said), network))

    assert network.servers[A].requests == []
