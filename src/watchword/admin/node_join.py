"""A machine without a cluster of its own gets its first certificate, as a kubelet would."""

from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct, field

from watchword.admin.bootstrap_access import BootstrapAccess
from watchword.credentials.certificates.issued_certificate import IssuedCertificate, load_or_create_key
from watchword.credentials.certificates.requests import CertificateSpec
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.discover import Progress, ignore_progress
from watchword.discovery.tls_bootstrap import TlsBootstrap
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import read_kubeconfig, write_kubeconfig
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.errors import PkiError
from watchword.pki.subjects import CertificateSubject
from watchword.runtime.clock import Clock


def write_certificate_kubeconfig(path: Path, info: ClusterInfo, issued: IssuedCertificate) -> None:
    cluster = ClusterEntry(info.server, ca_data=info.ca_bundle)
    user = UserEntry(certificate_data=issued.chain_pem, key_data=issued.key.pem)
    write_kubeconfig(path, Kubeconfig.single("default", cluster, user))


NODE_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
NODES_GROUP = "system:nodes"
NODE_USER = "system:node:"


class NodeJoin(Struct, frozen=True):
    """Requests a node's certificate and stores it, with the cluster's endpoint, in one kubeconfig (0600)."""

    node: str
    path: Path
    clock: Clock
    patience: timedelta
    progress: Progress = field(default=ignore_progress)

    @property
    def subject(self) -> CertificateSubject:
        return CertificateSubject(NODE_USER + self.node, (NODES_GROUP,))

    def existing_certificate(self) -> Certificate | None:
        """Return the certificate of an earlier run, when it is still good."""
        return find_valid_certificate(self.path, self.subject, now=self.clock.now())

    async def run(self, access: BootstrapAccess) -> Certificate:
        """Return the certificate; raises `BootstrapFailed`.

        The key is kept until then, so that a second try continues the first.
        """
        pending = self.path.with_name(self.path.name + ".key")
        key = load_or_create_key(pending)
        certificate_spec = CertificateSpec(self.subject, signer=NODE_SIGNER, name_prefix="node-csr-")
        async with access.client() as client:
            bootstrap = TlsBootstrap(client, self.clock, patience=self.patience, progress=self.progress)
            issued = await bootstrap.obtain(certificate_spec, key)
        write_certificate_kubeconfig(self.path, access.info, issued)
        pending.unlink(missing_ok=True)
        return issued.certificate


def find_valid_certificate(path: Path, subject: CertificateSubject, *, now: datetime) -> Certificate | None:
    """Return the certificate in a kubeconfig when it names the subject and is valid; None otherwise."""
    if not path.exists():
        return None
    try:
        certificate = parse_certificate(read_kubeconfig(path).choose().user.certificate_data)
    except (ConfigError, PkiError):
        return None
    named = (certificate.common_name, tuple(certificate.organisations)) == (subject.common_name, subject.organisations)
    return certificate if named and certificate.is_current(now) else None
