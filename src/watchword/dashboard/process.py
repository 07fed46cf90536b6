"""The dashboard put together: what `watchword dashboard` and `watchword up` run."""

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from watchword.api.sensitive import HiddenFields
from watchword.dashboard.fleet import Fleet
from watchword.dashboard.server import LOOPBACK_NAMES, DashboardServer, OwnAddress
from watchword.dashboard.sources import DASHBOARD_SOURCES, follow_new_sources, probe_sources
from watchword.dashboard.viewers import OwnRights, ReviewedRights, Viewers
from watchword.health.facts import SOURCES
from watchword.health.finding import FindingMetrics
from watchword.health.hub_observer import HubObserver, observe_hub
from watchword.http.limits import ServerLimits
from watchword.http.server import HttpServer
from watchword.kube.client import Client
from watchword.kube.endpoint import is_loopback_host
from watchword.runtime.clock import Clock
from watchword.runtime.event_loop import running
from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.metrics import Metrics
from watchword.runtime.prometheus import CollectorRegistry


class NotLoopback(Exception):
    """The dashboard was asked to serve a person's rights on an address that other machines reach."""


LIMITS = ServerLimits(connections=256, header_bytes=16 * 1024, body_bytes=64 * 1024, drain_seconds=1.0)


class DashboardOptions(HiddenFields, frozen=True):
    """Where the dashboard listens, and who may look."""

    hidden = ("tls",)

    serve: tuple[str, int] = ("127.0.0.1", 0)
    login: bool = False  # by bearer token, each person with their own rights
    names: tuple[str, ...] = ()  # under which browsers reach it, besides loopback
    secure: bool = False  # browsers reach it by https
    tls: ssl.SSLContext | None = None
    health: tuple[str, int] | None = None


class ServedDashboard(Struct, frozen=True):
    """A dashboard that listens."""

    url: str
    viewers: Viewers

    def address(self) -> str:
        """Return the address to open: with a one-time code where there is no login."""
        if self.viewers.login:
            return self.url
        return f"{self.url}?code={self.viewers.sessions.code(self.viewers.clock.now())}"


async def run_dashboard(
    client: Client,
    options: DashboardOptions,
    *,
    clock: Clock,
    stop: asyncio.Event,
    started: Callable[[ServedDashboard], None] = lambda _: None,
) -> None:
    """Serve the dashboard of the hub that the client reaches until asked to stop."""
    async with AsyncExitStack() as stack:
        observer = await stack.enter_async_context(observe_readable(client))
        registry = Metrics().registry
        if options.health is not None:
            await stack.enter_async_context(serve_health(HealthEndpoints(registry), *options.health))
        dashboard = serve_dashboard(client, observer, options, clock=clock, registry=registry)
        started(await stack.enter_async_context(dashboard))
        await stop.wait()


@asynccontextmanager
async def observe_readable(client: Client) -> AsyncIterator[HubObserver]:
    """Follow what this client may read of a hub, and the rest as soon as it may."""
    async with observe_hub(client, {}, absent=SOURCES) as observer, follow_readable(client, observer):
        yield observer


@asynccontextmanager
async def follow_readable(client: Client, observer: HubObserver) -> AsyncIterator[None]:
    """Let an observer follow everything that the dashboard shows; entered once all of it is known."""
    missing = await probe_sources(client)
    for source in DASHBOARD_SOURCES:
        if source not in missing:
            observer.follow(source.resource, source.scope, source.project)
        elif missing[source]:
            observer.unseen[source.name] = missing[source]
    await observer.cache.sync()
    async with running(follow_new_sources(client, observer, list(missing)), "dashboard sources"):
        yield


@asynccontextmanager
async def serve_dashboard(
    client: Client,
    observer: HubObserver,
    options: DashboardOptions,
    *,
    clock: Clock,
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[ServedDashboard]:
    """Serve the dashboard from an observer; raises `NotLoopback`, and `OSError` when the port is taken."""
    require_loopback(options)
    fleet = Fleet(observer, clock, FindingMetrics(registry or CollectorRegistry()))
    viewers: Viewers = OwnRights(client, clock)
    if options.login:
        viewers = ReviewedRights(client, clock, fleet.index.places)
    secure = options.secure or options.tls is not None
    address = OwnAddress((*LOOPBACK_NAMES, *options.names), secure)
    server = DashboardServer(fleet, viewers, address, choose_cookie_name(secure=secure))
    listener = HttpServer(server.handle, LIMITS, context=options.tls)
    port = await listener.start(*options.serve)
    try:
        async with running(fleet.run(), "dashboard rows"):
            yield ServedDashboard(f"{address.scheme}://{_host(options.serve[0])}:{port}/", viewers)
    finally:
        await listener.stop()


def require_loopback(options: DashboardOptions) -> None:
    """Refuse to show a kubeconfig's rights on an address that other machines reach."""
    host = options.serve[0]
    if not options.login and not is_loopback_host(host):
        raise NotLoopback(
            f"{host} can be reached from other machines: listen on 127.0.0.1, or give --login so that each person "
            "signs in with their own token"
        )


def choose_cookie_name(*, secure: bool) -> str:
    """Return a name of this process's own, because all ports of a host share their cookies.

    Browsers accept `__Host-` only over https, and keep such a cookie for this host alone.
    """
    return f"{'__Host-' if secure else ''}watchword-{secrets.token_hex(4)}"


def _host(host: str) -> str:
    first = host.partition(",")[0]
    return f"[{first}]" if ":" in first else first
