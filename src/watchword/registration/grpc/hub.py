"""The hub's side of the grpc driver: approves and signs certificates, and maintains the authority of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import GRPC_SIGNER, HUB_NAMESPACE, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS, SECRETS
from watchword.api.time import rfc3339
from watchword.credentials.certificates.issued_certificate import (
    CERTIFICATE,
    KEY,
    parsed_request,
    read_authority,
    sign_request,
    with_certificate,
)
from watchword.credentials.certificates.requests import CertificateRequestRefused, is_approved, read_cluster_request
from watchword.credentials.credential_secret import decode_data, encode_data
from watchword.credentials.driver import HubContext, SecretData
from watchword.pki.authority import Authority
from watchword.pki.certificates import Certificate, join_bundle, parse_certificate, split_bundle, verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, Usage
from watchword.registration.certificate_approval import CertificateApprovalReconciler, CertificateHubDriver
from watchword.registration.grpc.driver import (
    BUNDLE_KEY,
    CA_BUNDLE,
    HOSTS,
    LONGEST_LIFETIME,
    SERVING_KEY,
    SERVING_SECRET,
    SIGNER_SECRET,
    read_allow_list,
)
from watchword.runtime.informer import WatchScope
from watchword.runtime.raw_objects import metadata_only
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, RetryAfter, TriggerSource

RECHECK_INTERVAL = timedelta(seconds=10)  # the authority is created when the hub starts


class GrpcSigningReconciler(Struct, frozen=True):
    """Reconciles CertificateSigningRequest. The authority is read for each, so that a replaced one signs at once."""

    context: HubContext

    async def reconcile(self, key: ObjectKey) -> Outcome:
        csr = self.context.cache.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or not is_awaiting_signature(csr):
            return Done()
        try:
            read_cluster_request(csr)
            authority = read_authority(await self.context.client.find(SECRETS, SIGNER_SECRET))
            asked = parsed_request(csr)
            certificate = sign_request(csr, asked, authority, longest=LONGEST_LIFETIME, now=self.context.clock.now())
        except CertificateRequestRefused as objection:
            self.context.events.refusal(csr, "SigningRefused", str(objection))
            return Done()
        except PkiError as error:
            self.context.events.warning(csr, "SigningAuthorityUnusable", f"Secret {SIGNER_SECRET}: {error}")
            return RetryAfter(RECHECK_INTERVAL)
        signed = with_certificate(csr, certificate)
        await self.context.client.update(CERTIFICATE_SIGNING_REQUESTS, signed, subresource="status")
        return Done()


def is_awaiting_signature(csr: Object) -> bool:
    """Whether a request of a cluster to this signer is approved and not signed."""
    done = (csr.get("status") or {}).get("certificate")
    own = (csr.get("spec") or {}).get("signerName") == GRPC_SIGNER and Label.ADDON_NAME not in labels_of(csr)
    return own and is_approved(csr) and not done


NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"

SERVING_LIFETIME = timedelta(days=30)
RECHECK = timedelta(minutes=10)
PROPAGATION = timedelta(hours=1)
"""How long a new authority is trusted before it signs: mounted files and agents follow with a delay."""
_TLS = "kubernetes.io/tls"


class SignerAuthorities(Struct, frozen=True):
    """The authority that signs, the one that will sign next, and whom the server trusts."""

    current: Authority
    following: Authority | None = None
    trusted: tuple[Certificate, ...] = ()  # with earlier ones, without their keys; empty: not recorded

    @classmethod
    def read(cls, secret: Object) -> SignerAuthorities:
        """Read all from the Secret; raise `PkiError` when the one that signs cannot be read."""
        data = decode_data(secret)
        following = read_authority(secret, names=(NEXT_CERTIFICATE, NEXT_KEY)) if NEXT_CERTIFICATE in data else None
        return cls(read_authority(secret), following, read_bundle(data.get(BUNDLE_KEY, b"")))

    @property
    def data(self) -> dict[str, str]:
        rows = {CERTIFICATE: self.current.certificate.pem, KEY: self.current.key.pem.reveal()}
        if self.following is not None:
            rows |= {NEXT_CERTIFICATE: self.following.certificate.pem, NEXT_KEY: self.following.key.pem.reveal()}
        return encode_data(rows | {BUNDLE_KEY: join_bundle(self.trusted)})


def read_bundle(pem: bytes) -> tuple[Certificate, ...]:
    """Return the authorities; none when the text is damaged."""
    with suppress(PkiError):
        return split_bundle(pem)
    return ()


def is_due(certificate: Certificate, now: datetime) -> bool:
    return certificate.not_after - now < (certificate.not_after - certificate.not_before) / 5


def decide_authorities(held: SignerAuthorities, make: Callable[[], Authority], *, now: datetime) -> SignerAuthorities:
    """Return the authorities as they should be: a successor is trusted for a while before it signs."""
    if held.following is None:
        return replace(held, following=make()) if is_due(held.current.certificate, now) else held
    since = held.following.certificate.not_before
    ready = now - since >= PROPAGATION or now >= held.current.certificate.not_after
    return replace(held, current=held.following, following=None) if ready else held


def decide_bundle(held: SignerAuthorities, trusted: Sequence[Certificate], *, now: datetime) -> tuple[Certificate, ...]:
    """Return whom the server trusts: those that sign, and earlier ones until they expire."""
    own = [held.current.certificate, *([held.following.certificate] if held.following else [])]
    return tuple(dict.fromkeys([*own, *(each for each in trusted if each.not_after > now and each.is_ca)]))


def is_serving_certificate_good(
    data: SecretData, hosts: AlternativeNames, trusted: Sequence[Certificate], *, now: datetime
) -> bool:
    """Whether the server can go on: with the key, for these names, of a trusted authority, not due."""
    try:
        held, key = parse_certificate(data.get(CERTIFICATE, b"")), PrivateKey.from_pem(data.get(KEY, b""))
        verify_chain(held, trusted, now=now, usage=Usage.SERVER_AUTH)
    except PkiError:
        return False
    return held.key == key.public and held.names == hosts and not is_due(held, now)


class AtStart(TriggerSource):
    """Triggers one key when the controller starts, and never again."""

    def __init__(self, key: ObjectKey) -> None:
        super().__init__()
        self._key = key

    def connect(self, enqueue_key: Callable[[ObjectKey], None]) -> None:
        enqueue_key(self._key)


class SignerAuthorityReconciler(Struct, frozen=True):
    """Reconciles the signer's Secret; it is read when it is needed, and not cached."""

    context: HubContext
    hosts: AlternativeNames
    recheck: timedelta = RECHECK

    async def reconcile(self, key: ObjectKey) -> Outcome:
        if key != SIGNER_SECRET:
            return Done()
        now = self.context.clock.now()
        present = await self.context.client.find(SECRETS, SIGNER_SECRET)
        held = None
        if present is not None:
            try:
                held = SignerAuthorities.read(present)
            except PkiError as error:  # an administrator's own: it is not replaced
                self.context.events.warning(present, "SigningAuthorityUnusable", f"Secret {SIGNER_SECRET}: {error}")
                return RetryAfter(self.recheck)
        published = await self.context.client.find(CONFIG_MAPS, CA_BUNDLE)
        wanted = decide_authorities(held or SignerAuthorities(self._make()), self._make, now=now)
        known = wanted.trusted or read_bundle(str(((published or {}).get("data") or {}).get(BUNDLE_KEY) or "").encode())
        wanted = replace(wanted, trusted=decide_bundle(wanted, known, now=now))
        await self._store(present, held, wanted)
        published = await self._publish(published, BUNDLE_KEY, join_bundle(wanted.trusted))
        await self._publish(published, SERVING_KEY, await self._serve(wanted, now))
        return RetryAfter(self.recheck)

    def _make(self) -> Authority:
        return Authority.make(GRPC_SIGNER, now=self.context.clock.now())

    async def _store(self, present: Object | None, held: SignerAuthorities | None, wanted: SignerAuthorities) -> None:
        """Write the Secret when it differs, before anything is published of it."""
        if present is None or held is None:
            created = await self.context.client.create(SECRETS, _secret(SIGNER_SECRET, wanted.data))
            note = f"the authority of signer {GRPC_SIGNER} was created, and {_describe(wanted.current.certificate)}"
            self.context.events.normal(created, "SigningAuthorityCreated", note)
            return
        if wanted != held:
            await self.context.client.update(SECRETS, {**present, "data": wanted.data})
        if (wanted.current, wanted.following) != (held.current, held.following):
            newest = (wanted.following or wanted.current).certificate
            step = "is trusted from now on, and signs later" if wanted.following else "signs from now on"
            note = f"the next authority of signer {GRPC_SIGNER} {step}; it {_describe(newest)}"
            self.context.events.normal(present, "SigningAuthorityRotated", note)

    async def _publish(self, present: Object | None, name: str, pem: bytes) -> Object:
        text = pem.decode()
        if present is None:
            return await self.context.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(CA_BUNDLE, data={name: text}))
        if (present.get("data") or {}).get(name) == text:
            return present
        return await self.context.client.patch(CONFIG_MAPS, CA_BUNDLE, {"data": {name: text}})

    async def _serve(self, held: SignerAuthorities, now: datetime) -> bytes:
        """Return the server's certificate; replace it when it is due or for other names."""
        present = await self.context.client.find(SECRETS, SERVING_SECRET)
        shown = decode_data(present)
        if is_serving_certificate_good(shown, self.hosts, held.trusted, now=now):
            return shown[CERTIFICATE]
        key = PrivateKey.generate()
        issued = held.current.issue_serving(key.public, self.hosts, now=now, lifetime=SERVING_LIFETIME)
        data = encode_data({CERTIFICATE: issued.pem, KEY: key.pem.reveal()})
        if present is None:
            stored = await self.context.client.create(SECRETS, _secret(SERVING_SECRET, data))
        else:
            stored = await self.context.client.update(SECRETS, {**present, "data": data})
        note = f"the gRPC server has a new certificate, which {_describe(issued)}"
        self.context.events.normal(stored, "ServingCertificateIssued", note)
        return issued.pem


def _describe(certificate: Certificate) -> str:
    return f"expires at {rfc3339(certificate.not_after)}"


def _secret(key: ObjectKey, data: dict[str, str]) -> Object:
    return SECRETS.manifest(key, type=_TLS, data=data)


SERVICE = "cluster-manager-grpc-server"
"""The name of the server's Deployment and Service, as Open Cluster Management names them."""

OWN_SECRET = WatchScope(namespace=SIGNER_SECRET.namespace, fields=f"metadata.name={SIGNER_SECRET.name}")


class GrpcHubDriver(CertificateHubDriver, frozen=True, kw_only=True):
    """Approves like the csr driver, and signs with an authority of its own.

    A certificate of a cluster that is not accepted opens nothing: the server asks for each request.
    """

    signing: GrpcSigningReconciler
    authority: SignerAuthorityReconciler

    def controllers(self) -> Iterable[ControllerSpec]:
        """Return approval, signing, and the maintenance of the authority."""
        yield from super().controllers()
        yield ControllerSpec(
            "grpc-signing",
            CERTIFICATE_SIGNING_REQUESTS,
            self.signing,
            concerns=is_awaiting_signature,
            acts_on_deletion=False,
        )
        start = AtStart(SIGNER_SECRET)
        yield ControllerSpec("grpc-authority", SECRETS, self.authority, workers=1, trigger_source=start)


def make_hub_driver(context: HubContext) -> GrpcHubDriver:
    """Return the driver, ready to use; of the signer's Secret the cache keeps the metadata alone."""
    context.cache.informer(SECRETS, OWN_SECRET, project=metadata_only)
    inside = f"{SERVICE}.{HUB_NAMESPACE}.svc"  # where its Service is reached
    hosts = (*HOSTS.read_list(context.settings), inside, f"{inside}.cluster.local")
    return GrpcHubDriver(
        CertificateApprovalReconciler(context, "grpc", GRPC_SIGNER, read_allow_list(context)),
        "grpc-approval",
        signing=GrpcSigningReconciler(context),
        authority=SignerAuthorityReconciler(context, AlternativeNames.for_hosts(dict.fromkeys(hosts))),
    )
