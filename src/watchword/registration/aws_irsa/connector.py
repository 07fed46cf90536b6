"""Reaches an EKS hub with tokens of the cluster's own IAM role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from watchword.kube.connect import endpoint_of, make_client
from watchword.kube.errors import ConfigError
from watchword.kube.exec_plugin import ExecCredential
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.transport import Transport
from watchword.registration.aws_irsa.exec_entry import TokenSource
from watchword.registration.aws_irsa.options import ClusterPair
from watchword.registration.hub_connector import ConnectorContext
from watchword.registration.interface import KUBECONFIG, SecretData
from watchword.registration.kubeconfig_connector import KubeconfigConnector


@dataclass(kw_only=True)
class AwsIrsaConnector(KubeconfigConnector):
    """Joins with the bootstrap kubeconfig; afterwards it runs a program that this driver chose.

    The exec entry of a kubeconfig is never run as it stands, so a changed Secret cannot make the agent run another
    program.
    """

    source: TokenSource | None  # None: a command without settings, which reads it from the Secret
    environment: Mapping[str, str]

    @classmethod
    def make(cls, context: ConnectorContext) -> AwsIrsaConnector:
        """Return the connector, ready to use; `InvalidName` when its settings are malformed."""
        source = TokenSource.of(ClusterPair.read(context.settings)) if context.settings else None
        return cls(context.bootstrap, source=source, environment=context.environment)

    def own(self, data: SecretData) -> Transport:
        """Return a transport with tokens of the role that the hub gave this cluster; `ConfigError` without one."""
        # The address alone is read from the kubeconfig, so its exec entry need not be refused.
        cluster = parse_kubeconfig(data.get(KUBECONFIG, b""), environment={}).choose().cluster
        source = self.source or TokenSource.read(data)
        if source is None:
            raise ConfigError(
                "the kubeconfig in the Secret has no exec entry for an EKS hub: let the agent write it again"
            )
        self.known = cluster
        return make_client(endpoint_of(cluster), ExecCredential(source.choose_plugin(self.environment))).transport
