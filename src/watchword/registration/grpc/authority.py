"""Maintains the signer's authority, the bundle that the server trusts, and the server's own certificate."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import GRPC_SIGNER
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.api.time import rfc3339
from watchword.credentials.certificates.issued_certificate import CERTIFICATE, KEY, read_authority
from watchword.pki.authority import Authority
from watchword.pki.certificates import Certificate, join_bundle, parse_certificate, split_bundle, verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, Usage
from watchword.registration.grpc.server_objects import (
    BUNDLE_KEY,
    CA_BUNDLE,
    SERVING_KEY,
    SERVING_SECRET,
    SIGNER_SECRET,
)
from watchword.registration.interface import HubContext
from watchword.runtime.reconcile import Done, Outcome, RetryAfter, TriggerSource

NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"

SERVING_LIFETIME = timedelta(days=30)
RECHECK = timedelta(minutes=10)
PROPAGATION = timedelta(hours=1)
"""How long a new authority is trusted before it signs: mounted files and agents follow with a delay."""
_TLS = "kubernetes.io/tls"


class SignerAuthorities(Struct, frozen=True):
    """The authority that signs, and the one that will sign next."""

    current: Authority
    following: Authority | None = None

    @classmethod
    def read(cls, secret: Object) -> SignerAuthorities:
        """Read both from the Secret; raise `PkiError` when the one that signs cannot be read."""
        has_next = NEXT_CERTIFICATE in (secret.get("data") or {})
        following = read_authority(secret, names=(NEXT_CERTIFICATE, NEXT_KEY)) if has_next else None
        return cls(read_authority(secret), following)

    @property
    def data(self) -> dict[str, str]:
        """The content of the Secret."""
        rows = {CERTIFICATE: self.current.certificate.pem, KEY: self.current.key.pem.reveal()}
        if self.following is not None:
            rows |= {NEXT_CERTIFICATE: self.following.certificate.pem, NEXT_KEY: self.following.key.pem.reveal()}
        return _encoded(rows)


def is_due(certificate: Certificate, now: datetime) -> bool:
    """Whether less than a fifth of a certificate's validity is left."""
    return certificate.not_after - now < (certificate.not_after - certificate.not_before) / 5


def decide_authorities(held: SignerAuthorities, make: Callable[[], Authority], *, now: datetime) -> SignerAuthorities:
    """Return the authorities as they should be: a successor is trusted for a while before it signs."""
    if held.following is None:
        return SignerAuthorities(held.current, make()) if is_due(held.current.certificate, now) else held
    since = held.following.certificate.not_before
    ready = now - since >= PROPAGATION or now >= held.current.certificate.not_after
    return SignerAuthorities(held.following) if ready else held


def decide_bundle(held: SignerAuthorities, trusted: Sequence[Certificate], *, now: datetime) -> tuple[Certificate, ...]:
    """Return whom the server trusts: those that sign, and earlier ones until they expire."""
    own = [held.current.certificate, *([held.following.certificate] if held.following else [])]
    return tuple(dict.fromkeys([*own, *(each for each in trusted if each.not_after > now and each.is_ca)]))


def is_serving_certificate_good(
    pem: bytes, hosts: AlternativeNames, trusted: Sequence[Certificate], *, now: datetime
) -> bool:
    """Whether the server can go on with its certificate: for these names, of a trusted authority, not due."""
    try:
        held = parse_certificate(pem)
        verify_chain(held, trusted, now=now, usage=Usage.SERVER_AUTH)
    except PkiError:
        return False
    return held.names == hosts and not is_due(held, now)


class AtStart(TriggerSource):
    """Triggers one key when the controller starts, and never again."""

    def __init__(self, key: ObjectKey) -> None:
        super().__init__()
        self._key = key

    def connect(self, enqueue_key: Callable[[ObjectKey], None]) -> None:
        """Trigger the key."""
        enqueue_key(self._key)


class SignerAuthorityReconciler(Struct, frozen=True):
    """Reconciles the signer's Secret; it is read when it is needed, and not cached."""

    context: HubContext
    hosts: AlternativeNames

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Create or replace what is missing or due, in the order in which others can follow."""
        if key != SIGNER_SECRET:
            return Done()
        now = self.context.clock.now()
        present = await self.context.client.find(SECRETS, SIGNER_SECRET)
        if present is None:
            held = SignerAuthorities(self._make())
            created = await self.context.client.create(SECRETS, _secret(SIGNER_SECRET, held.data))
            note = f"the authority of signer {GRPC_SIGNER} was created, and {_describe(held.current.certificate)}"
            self.context.events.normal(created, "SigningAuthorityCreated", note)
        else:
            try:
                held = await self._rotate(present)
            except PkiError as trouble:  # an administrator's own: it is not replaced
                self.context.events.warning(present, "SigningAuthorityUnusable", f"Secret {SIGNER_SECRET}: {trouble}")
                return RetryAfter(RECHECK)
        trusted = await self._publish_bundle(held)
        await self._publish({SERVING_KEY: (await self._serve(held, trusted, now)).decode()})
        return RetryAfter(RECHECK)

    def _make(self) -> Authority:
        return Authority.make(GRPC_SIGNER, now=self.context.clock.now())

    async def _rotate(self, present: Object) -> SignerAuthorities:
        held = SignerAuthorities.read(present)
        wanted = decide_authorities(held, self._make, now=self.context.clock.now())
        if wanted != held:
            await self.context.client.update(SECRETS, {**present, "data": wanted.data})
            newest = (wanted.following or wanted.current).certificate
            step = "is trusted from now on, and signs later" if wanted.following else "signs from now on"
            note = f"the next authority of signer {GRPC_SIGNER} {step}; it {_describe(newest)}"
            self.context.events.normal(present, "SigningAuthorityRotated", note)
        return wanted

    async def _publish_bundle(self, held: SignerAuthorities) -> tuple[Certificate, ...]:
        """Publish whom the server trusts, before anything is signed that needs it."""
        present = await self.context.client.find(CONFIG_MAPS, CA_BUNDLE)
        text = str(((present or {}).get("data") or {}).get(BUNDLE_KEY) or "")
        wanted = decide_bundle(held, _read_bundle(text), now=self.context.clock.now())
        await self._publish({BUNDLE_KEY: join_bundle(wanted).decode()})
        return wanted

    async def _publish(self, data: dict[str, str]) -> None:
        present = await self.context.client.find(CONFIG_MAPS, CA_BUNDLE)
        held = (present or {}).get("data") or {}
        if present is None:
            await self.context.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(CA_BUNDLE, data=data))
        elif any(held.get(name) != text for name, text in data.items()):
            await self.context.client.patch(CONFIG_MAPS, CA_BUNDLE, {"data": data})

    async def _serve(self, held: SignerAuthorities, trusted: Sequence[Certificate], now: datetime) -> bytes:
        """Return the server's certificate; replace it when it is due or for other names."""
        present = await self.context.client.find(SECRETS, SERVING_SECRET)
        pem = base64.b64decode(((present or {}).get("data") or {}).get(CERTIFICATE) or "")
        if is_serving_certificate_good(pem, self.hosts, trusted, now=now):
            return pem
        key = PrivateKey.generate()
        issued = held.current.issue_serving(key.public, self.hosts, now=now, lifetime=SERVING_LIFETIME)
        data = _encoded({CERTIFICATE: issued.pem, KEY: key.pem.reveal()})
        if present is None:
            stored = await self.context.client.create(SECRETS, _secret(SERVING_SECRET, data))
        else:
            stored = await self.context.client.update(SECRETS, {**present, "data": data})
        note = f"the gRPC server has a new certificate, which {_describe(issued)}"
        self.context.events.normal(stored, "ServingCertificateIssued", note)
        return issued.pem


def _describe(certificate: Certificate) -> str:
    return f"expires at {rfc3339(certificate.not_after)}"


def _read_bundle(text: str) -> tuple[Certificate, ...]:
    try:
        return split_bundle(text.encode()) if text else ()
    except PkiError:  # damaged by hand: what signs is written again
        return ()


def _secret(key: ObjectKey, data: dict[str, str]) -> Object:
    return SECRETS.manifest(key, type=_TLS, data=data)


def _encoded(rows: dict[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in rows.items()}
