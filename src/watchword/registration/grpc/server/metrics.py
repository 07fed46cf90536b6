"""What the server counts, with bounded label values."""

from __future__ import annotations

from collections.abc import Callable

from grpclib.const import Status

from watchword.runtime.prometheus import CollectorRegistry, Counter, Gauge

UNKNOWN = "unknown"


class GrpcServerMetrics:
    """The metrics of one gRPC server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "watchword_grpc_requests",
            "Requests of agents, by method, data type and the status that they ended with",
            ["method", "data_type", "status"],
            registry=registry,
        )
        self._sent = Counter("watchword_grpc_events_sent", "Events sent to agents", ["data_type"], registry=registry)
        self._streams = Gauge("watchword_grpc_streams", "Open subscriptions", registry=registry)
        self._connections = Gauge("watchword_grpc_connections", "Open connections", registry=registry)

    def watch(self, *, streams: Callable[[], float], connections: Callable[[], float]) -> None:
        """Read the numbers of subscriptions and connections at every scrape."""
        self._streams.set_function(streams)
        self._connections.set_function(connections)

    def ended(self, method: str, data_type: str, status: Status) -> None:
        """Count a request that ended."""
        self._requests.labels(method, data_type or UNKNOWN, status.name).inc()

    def sent(self, data_type: str) -> None:
        """Count an event that was sent."""
        self._sent.labels(data_type).inc()
