"""Clusters register and work over gRPC, with CloudEvents, where the hub's API server is not reachable."""

from __future__ import annotations

from watchword.api.lazy_function import LazyFunction
from watchword.credentials.certificates.decisions import read_endpoint_certificate, read_pending_key
from watchword.kube.errors import ConfigError
from watchword.registration.certificate_approval import CLUSTER_CERTIFICATE
from watchword.registration.descriptor import ClusterRegistration, Driver
from watchword.registration.grpc.hub_options import HUB_OPTIONS
from watchword.registration.grpc.manifests import SERVER
from watchword.registration.grpc.options import ANNOTATION, JOIN_OPTIONS, annotate, bootstrap_data
from watchword.registration.hub_connector import ConnectorContext, HubConnector


def make_connector(context: ConnectorContext) -> HubConnector:
    """Return how the hub is reached; `ConfigError` when the extra is not installed."""
    try:
        from watchword.registration.grpc.connector import GrpcConnector
    except ImportError as cause:
        raise ConfigError("the library for gRPC is not installed: pip install 'watchword[grpc]'") from cause
    return GrpcConnector.make(context)


DRIVER = Driver(
    name="grpc",
    options=(*JOIN_OPTIONS, *HUB_OPTIONS),
    cluster=ClusterRegistration(
        agent=LazyFunction("watchword.registration.grpc.agent", "make_agent_driver"),
        hub=LazyFunction("watchword.registration.grpc.hub", "make_hub_driver"),
        annotations=(ANNOTATION,),
        annotate=annotate,
        connector=make_connector,
        bootstrap_data=bootstrap_data,
        trial_settings=LazyFunction("watchword.registration.grpc.trial", "trial_settings"),
        credential=CLUSTER_CERTIFICATE,
        read_held=read_endpoint_certificate,
        read_pending_key=read_pending_key,
        needs_approval=True,
        server=SERVER,
    ),
)
