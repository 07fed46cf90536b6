"""The cluster's side: a certificate of the signer whose certificates the gRPC server accepts."""

from __future__ import annotations

from msgspec.structs import replace

from watchword.api.names import GRPC_SIGNER
from watchword.credentials.certificates.agent import CertificateAgentDriver
from watchword.registration.interface import AgentContext, AgentDriver


def make_agent_driver(context: AgentContext) -> AgentDriver:
    """Return the driver, ready to use."""
    return replace(CertificateAgentDriver.make(context), endpoint_signer=GRPC_SIGNER)
