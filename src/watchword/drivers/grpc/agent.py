"""The cluster's side: a certificate of the signer whose certificates the gRPC server accepts."""

from __future__ import annotations

from dataclasses import replace

from watchword.api.names import GRPC_SIGNER
from watchword.drivers.certificate_agent import CertificateAgentDriver
from watchword.drivers.certificate_decisions import CERTIFICATE, read_held_certificate, read_pending_key
from watchword.drivers.descriptor import HeldCredential
from watchword.drivers.interface import ENDPOINT_CONFIG, AgentContext, AgentDriver, SecretData


def make_agent_driver(context: AgentContext) -> AgentDriver:
    """Return the driver, ready to use."""
    return replace(CertificateAgentDriver.make(context), endpoint_signer=GRPC_SIGNER)


def read_held(data: SecretData) -> HeldCredential | None:
    """Return the facts about the certificate in a Secret that describes a gRPC server; None without one."""
    return read_held_certificate(data) if ENDPOINT_CONFIG in data and CERTIFICATE in data else None


def read_pending(data: SecretData) -> str:
    """Return the thumbprint of the key for which a certificate is requested; empty when there is none."""
    return read_pending_key(data) if ENDPOINT_CONFIG in data else ""
