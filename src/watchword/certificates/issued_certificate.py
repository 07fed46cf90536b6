"""A certificate that came back: is it the one that was asked for, and where is it kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from watchword.discovery.cluster_info import ClusterInfo
from watchword.kube.files import read_small_file, write_private_file
from watchword.kube.kubeconfig import ClusterEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import write_kubeconfig
from watchword.pki.authority import BACKDATE
from watchword.pki.certificates import Certificate, join_bundle
from watchword.pki.chains import verify_chain
from watchword.pki.errors import ChainRefused
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A key and the certificate chain for it, leaf first."""

    key: PrivateKey
    chain: tuple[Certificate, ...]

    @property
    def certificate(self) -> Certificate:
        """The leaf."""
        return self.chain[0]

    @property
    def chain_pem(self) -> bytes:
        """The whole chain as PEM."""
        return join_bundle(self.chain)


def validate_issued_certificate(
    issued: IssuedCertificate,
    wanted: CertificateSubject,
    *,
    now: datetime,
    roots: tuple[Certificate, ...] = (),
    lifetime: timedelta | None = None,
) -> str:
    """Say in one sentence why a certificate is not the one asked for; empty when it is."""
    leaf = issued.certificate
    same_name = leaf.common_name == wanted.common_name
    same_groups = sorted(leaf.organisations) == sorted(set(wanted.organisations))
    too_long = lifetime is not None and leaf.not_after - now > lifetime + BACKDATE
    for wrong, complaint in (
        (leaf.key != issued.key.public, "it is for another key"),
        (not (same_name and same_groups), "it names somebody else"),
        (leaf.is_ca, "it is that of an authority"),
        (not leaf.is_current(now), "it is not valid now: compare the clocks"),
        ("client auth" not in leaf.extended_usages, "it is not meant for clients"),
        (too_long, "it lives longer than was asked for"),
    ):
        if wrong:
            return complaint
    return _validate_chain(issued, roots, now) if roots else ""


def _validate_chain(issued: IssuedCertificate, roots: tuple[Certificate, ...], now: datetime) -> str:
    try:
        verify_chain(issued.certificate, roots, now=now, intermediates=issued.chain[1:])
    except ChainRefused as refusal:
        return str(refusal)
    return ""


def load_or_create_key(path: Path) -> PrivateKey:
    """Return the key in a file, or make one there first: a second try must not look like a second machine."""
    if path.exists():
        return PrivateKey.from_pem(read_small_file(path, "key file"))
    key = PrivateKey.generate()
    write_private_file(path, key.pem.reveal())
    return key


def to_kubeconfig(info: ClusterInfo, issued: IssuedCertificate, *, name: str = "default") -> Kubeconfig:
    """Return a kubeconfig that reaches the cluster as the certificate's owner."""
    cluster = ClusterEntry(info.server, ca_data=info.ca_bundle)
    return Kubeconfig.single(name, cluster, UserEntry(certificate_data=issued.chain_pem, key_data=issued.key.pem))


def write_certificate_kubeconfig(
    path: Path, info: ClusterInfo, issued: IssuedCertificate, *, name: str = "default"
) -> None:
    """Write that kubeconfig in one step, for its owner's eyes only."""
    write_kubeconfig(path, to_kubeconfig(info, issued, name=name))
