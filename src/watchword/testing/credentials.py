"""Keys, certificates and kubeconfigs of a cluster made for a test."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct, field

from watchword.kube.client import Client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.kubeconfig import ClusterEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import encode_kubeconfig
from watchword.kube.tls import ClientCertificate
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject
from watchword.runtime.clock import Clock, SystemClock

LIFETIME = timedelta(days=7)
ADMIN = "watchword:test-admin"
ADMIN_GROUPS = ("system:masters",)
HOSTS = ("127.0.0.1", "localhost", "kubernetes.default.svc")


class ClusterCredentials(Struct, frozen=True):
    """A certificate authority, and the folder of what it signs; every file has mode 0600."""

    folder: Path
    authority: Authority
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def make(cls, folder: Path) -> ClusterCredentials:
        """Create the files `ca`, `server` and `sa` that a real control plane needs."""
        made = cls(folder, Authority.make("watchword-test-ca", now=datetime.now(UTC)))
        accounts = PrivateKey.generate_rsa()
        write_private(folder / "ca.crt", made.ca_pem)
        write_private(folder / "ca.key", made.authority.key.pem.reveal())
        write_private(folder / "sa.key", accounts.pem.reveal())
        write_private(folder / "sa.pub", accounts.public.pem)
        made.write_serving()
        return made

    def rotate_signing_key(self, *, keep_old: bool) -> None:
        """Write a new `sa.key`; `sa.pub` may keep the public keys of the earlier ones, so their tokens stay valid."""
        accounts = PrivateKey.generate_rsa()
        earlier = (self.folder / "sa.pub").read_bytes() if keep_old else b""
        write_private(self.folder / "sa.key", accounts.pem.reveal())
        write_private(self.folder / "sa.pub", accounts.public.pem + earlier)

    def write_serving(self) -> None:
        """Write `server.crt` and `server.key` for a server on loopback."""
        key = PrivateKey.generate()
        names = AlternativeNames.for_hosts(HOSTS)
        certificate = self.authority.issue_serving(key.public, names, now=self.clock.now(), lifetime=LIFETIME)
        write_private(self.folder / "server.crt", certificate.pem)
        write_private(self.folder / "server.key", key.pem.reveal())

    @property
    def ca_pem(self) -> bytes:
        return self.authority.certificate.pem

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.ca_pem.decode())

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> ClientCertificate:
        key = PrivateKey.generate()
        subject = CertificateSubject(user, tuple(groups))
        certificate = self.authority.issue_client(key.public, subject, now=self.clock.now(), lifetime=LIFETIME)
        return ClientCertificate(certificate.pem, key.pem)

    def kubeconfig(self, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig with a client certificate for that user; the same path for the same user."""
        path = self.folder / f"{_file_name(user, groups)}.kubeconfig"
        if not path.exists():
            held = self.client_certificate(user, groups)
            entry = UserEntry(certificate_data=held.chain, key_data=held.key)
            config = Kubeconfig.single("test", ClusterEntry(server, ca_data=self.ca_pem), entry)
            write_private(path, encode_kubeconfig(config))
        return path


def connect_by_certificate(server: str, credentials: ClusterCredentials, user: str, groups: Sequence[str]) -> Client:
    credential = Credential(certificate=credentials.client_certificate(user, groups))
    return Client(HttpsTransport(Endpoint(server, credentials.ca_pem), FixedCredential(credential)))


def write_private(path: Path, data: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


def _file_name(user: str, groups: Sequence[str]) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", "+".join((user, *groups)))[:180]
