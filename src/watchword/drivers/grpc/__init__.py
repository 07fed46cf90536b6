"""Clusters register and work over gRPC, with CloudEvents, where the hub's API server is not reachable."""

from __future__ import annotations

from watchword.api.lazy_function import LazyFunction
from watchword.drivers.certificate_decisions import read_endpoint_certificate, read_pending_key
from watchword.drivers.cluster_certificate import CLUSTER_CERTIFICATE
from watchword.drivers.descriptor import ClusterRegistration, Driver
from watchword.drivers.grpc.hub_options import HUB_OPTIONS
from watchword.drivers.grpc.manifests import SERVER
from watchword.drivers.grpc.options import ANNOTATION, JOIN_OPTIONS, annotate, bootstrap_data
from watchword.drivers.hub_connector import ConnectorContext, HubConnector
from watchword.kube.errors import ConfigError


def make_connector(context: ConnectorContext) -> HubConnector:
    """Return how the hub is reached; `ConfigError` when the extra is not installed."""
    try:
        from watchword.drivers.grpc.connector import GrpcConnector
    except ImportError as cause:
        raise ConfigError("the library for gRPC is not installed: pip install 'watchword[grpc]'") from cause
    return GrpcConnector.make(context)


DRIVER = Driver(
    name="grpc",
    options=(*JOIN_OPTIONS, *HUB_OPTIONS),
    cluster=ClusterRegistration(
        agent=LazyFunction("watchword.drivers.grpc.agent", "make_agent_driver"),
        hub=LazyFunction("watchword.drivers.grpc.hub", "make_hub_driver"),
        annotations=(ANNOTATION,),
        annotate=annotate,
        connector=make_connector,
        bootstrap_data=bootstrap_data,
        trial_settings=LazyFunction("watchword.drivers.grpc.trial", "trial_settings"),
        credential=CLUSTER_CERTIFICATE,
        read_held=read_endpoint_certificate,
        read_pending_key=read_pending_key,
        needs_approval=True,
        server=SERVER,
    ),
)
