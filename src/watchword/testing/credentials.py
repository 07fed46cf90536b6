"""The keys and certificates of a cluster made for a test, and kubeconfigs signed with them."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from watchword.api.meta import Object
from watchword.kube.tls import ClientCertificate
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, Subject

LIFETIME = timedelta(days=7)
ADMIN = "watchword:test-admin"
ADMIN_GROUPS = ("system:masters",)
HOSTS = ("127.0.0.1", "localhost", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """A folder with `ca.crt`, `ca.key`, `server.crt`, `server.key`, `sa.key` and `sa.pub`, all 0600."""

    folder: Path
    authority: Authority

    @classmethod
    def make(cls, folder: Path) -> ClusterCredentials:
        """Create everything that a control plane needs to be trusted and to trust."""
        now = datetime.now(UTC)
        authority = Authority.make("watchword-test-ca", now=now)
        server_key = PrivateKey.generate()
        server = authority.issue_serving(
            server_key.public, AlternativeNames.for_hosts(HOSTS), now=now, lifetime=LIFETIME, common_name="server"
        )
        accounts = PrivateKey.generate_rsa()
        write_private(folder / "ca.crt", authority.certificate.pem)
        write_private(folder / "ca.key", authority.key.pem.reveal())
        write_private(folder / "server.crt", server.pem)
        write_private(folder / "server.key", server_key.pem.reveal())
        write_private(folder / "sa.key", accounts.pem.reveal())
        write_private(folder / "sa.pub", accounts.public.pem)
        return cls(folder, authority)

    @property
    def ca_pem(self) -> bytes:
        """What clients must trust."""
        return self.authority.certificate.pem

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> ClientCertificate:
        """Issue a certificate that makes its holder this user in these groups."""
        key = PrivateKey.generate()
        subject = Subject(user, tuple(groups))
        certificate = self.authority.issue_client(key.public, subject, now=datetime.now(UTC), lifetime=LIFETIME)
        return ClientCertificate(certificate.pem, key.pem)

    def kubeconfig(self, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig with a client certificate for that user; the same path for the same user."""
        path = self.folder / f"{_file_name(user, groups)}.kubeconfig"
        if not path.exists():
            held = self.client_certificate(user, groups)
            credential = {
                "client-certificate-data": _base64(held.chain),
                "client-key-data": _base64(held.key.reveal()),
            }
            write_private(path, orjson.dumps(kubeconfig(server, self.ca_pem, credential)))
        return path


def kubeconfig(server: str, ca_pem: bytes, credential: Object) -> Object:
    """Return a kubeconfig with one cluster, one user and one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": _base64(ca_pem)}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": credential}],
    }


def write_private(path: Path, data: bytes) -> Path:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


def _file_name(user: str, groups: Sequence[str]) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", "+".join((user, *groups)))[:180]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
