"""The credentials of a fleet by kind: where each is kept, how long it lives, and whether its server honours it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import orjson
from tests.helpers.fleet import transport_with

from watchword.api.meta import Object, ObjectKey
from watchword.api.pull_secrets import DOCKERCFG_KEY
from watchword.api.resources import SECRETS
from watchword.api.sensitive import Sensitive
from watchword.credentials.lifecycle import read_bound_token
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import Unauthorized
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.transport import InProcessTransport
from watchword.pki.certificates import parse_certificate
from watchword.pki.errors import PkiError
from watchword.testing.plane import Plane


class CredentialKind(StrEnum):
    """Every kind of credential that Watchword renews."""

    CLUSTER = "cluster certificate"
    ADDON_CERTIFICATE = "add-on certificate"
    ADDON_TOKEN = "add-on token"
    ACCOUNT = "managed service account token"
    PULL_SECRET = "pull secret token"


@dataclass(frozen=True, slots=True)
class HeldCredential:
    """One credential as its Secret holds it."""

    issued_at: datetime
    expires_at: datetime
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)

    def life_left(self, now: datetime) -> float:
        """Return the part of the validity that is left, negative after the end."""
        return (self.expires_at - now) / (self.expires_at - self.issued_at)

    def client(self, plane: Plane) -> Client:
        """Return a client of the control plane that shows this credential."""
        if self.certificate:
            return plane.adopt(Client(transport_with(plane, self.certificate, self.key)))
        bearer = Sensitive(f"Bearer {self.token}")
        local = plane.client().transport
        if isinstance(local, InProcessTransport):
            return Client(local.with_identity(authorization=bearer))
        endpoint = Endpoint(plane.server, plane.ca_pem)
        return plane.adopt(Client(HttpsTransport(endpoint, FixedCredential(Credential(authorization=bearer)))))


@dataclass(frozen=True, slots=True)
class CredentialPlace:
    """Where one credential is kept."""

    kind: CredentialKind
    secret: ObjectKey

    async def read(self, plane: Plane) -> HeldCredential | None:
        """Return what the Secret holds, None when it holds no credential that can be read."""
        found = await plane.client().find(SECRETS, self.secret)
        return None if found is None else read_credential(found)

    async def works(self, plane: Plane) -> bool:
        """Whether the control plane honours what the Secret holds."""
        held = await self.read(plane)
        if held is None:
            return False
        try:
            await who_am_i(held.client(plane))
        except Unauthorized:
            return False
        return True


def read_credential(secret: Object) -> HeldCredential | None:
    """Read the credential of a Secret, of whatever kind."""
    data = {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
    if "tls.crt" in data and "tls.key" in data:
        try:
            certificate = parse_certificate(data["tls.crt"])
        except PkiError:
            return None
        lived = (certificate.not_before, certificate.not_after)
        return HeldCredential(*lived, certificate=data["tls.crt"], key=data["tls.key"])
    token = data["token"].decode() if "token" in data else _registry_token(data.get(DOCKERCFG_KEY, b"{}"))
    claims = read_bound_token(token)
    return None if claims is None else HeldCredential(claims.issued_at, claims.expires_at, token=token)


def _registry_token(dockercfg: bytes) -> str:
    auths = [base64.b64decode(row["auth"]).decode() for row in orjson.loads(dockercfg).values()]
    return auths[0].partition(":")[2] if auths else ""
