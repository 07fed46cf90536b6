"""Writes the kubeconfig of a client whose certificate was issued."""

from __future__ import annotations

from pathlib import Path

from watchword.certificates.issued_certificate import IssuedCertificate
from watchword.discovery.cluster_info import ClusterInfo
from watchword.kube.kubeconfig import ClusterEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import write_kubeconfig


def to_kubeconfig(info: ClusterInfo, issued: IssuedCertificate, *, name: str = "default") -> Kubeconfig:
    """Return a kubeconfig that reaches the cluster as the certificate's owner."""
    cluster = ClusterEntry(info.server, ca_data=info.ca_bundle)
    return Kubeconfig.single(name, cluster, UserEntry(certificate_data=issued.chain_pem, key_data=issued.key.pem))


def write_certificate_kubeconfig(
    path: Path, info: ClusterInfo, issued: IssuedCertificate, *, name: str = "default"
) -> None:
    """Write that kubeconfig in one step, readable by its owner alone."""
    write_kubeconfig(path, to_kubeconfig(info, issued, name=name))
