"""Obtains a client certificate: a key, one request for it, and waiting for the hub's decision."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.conditions import is_true
from watchword.api.limits import LONGEST_CERTIFICATE_REQUEST
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.api.validation import parse_seconds
from watchword.credentials.certificates import decisions
from watchword.credentials.driver import (
    ENDPOINT_CONFIG,
    AgentContext,
    CredentialAssessment,
    NewCredential,
    NewKey,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
    rotation_data,
)
from watchword.credentials.driver_options import DriverOption, OptionType, Settings, Side
from watchword.credentials.lifecycle import Keep, Obtain, Reason
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists
from watchword.kube.kubeconfig import UserEntry
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Reader

MIN_LIFETIME = timedelta(hours=1)


def validate_lifetime(value: str) -> str:
    """Return why certificates cannot have this lifetime; empty when they can."""
    lifetime = parse_seconds(value)
    if lifetime is not None and MIN_LIFETIME <= lifetime <= LONGEST_CERTIFICATE_REQUEST:
        return ""
    longest = int(LONGEST_CERTIFICATE_REQUEST.total_seconds())
    return f"a certificate lives at least an hour: set {LIFETIME.flag} to 0, or to a number from 3600 to {longest}"


LIFETIME = DriverOption(
    flag="--client-cert-expiration-seconds",
    help="The requested lifetime of the certificate; 0 leaves it to the hub.",
    side=Side.CLUSTER,
    type=OptionType.NUMBER,
    paths=(("clientCertExpirationSeconds",),),
    validate=validate_lifetime,
)


def certificate_lifetime(settings: Settings) -> timedelta | None:
    """Return the lifetime to request, None to leave it to the hub."""
    value = LIFETIME.read(settings)
    return parse_seconds(value, longest=LONGEST_CERTIFICATE_REQUEST) if value else None


JOIN_REQUEST_GRACE = timedelta(minutes=1)
USER_ENTRY = UserEntry(certificate_file=Path(decisions.CERTIFICATE), key_file=Path(decisions.KEY))
KEYS_IN_USE = 2  # that of the certificate, and that of a request; parsed once instead of in every reconcile


class CertificateAgentDriver(Struct, frozen=True):
    """Obtains and renews one certificate.

    The key of a request is stored before the request is sent, and the request is named after the key: an agent that is
    killed continues with the same request instead of making another.
    """

    hub: Client
    reader: Reader
    clock: Clock
    new_key: NewKey = PrivateKey.generate
    lifetime: timedelta | None = None  # requested; None leaves it to the hub
    endpoint_signer: str = ""  # signs for the endpoint in ENDPOINT_CONFIG; empty: the certificate is for the API server
    load_key: decisions.LoadKey = field(default_factory=lambda: lru_cache(KEYS_IN_USE)(PrivateKey.from_pem))
    first_seen: dict[str, datetime] = field(default_factory=dict)  # the pending request → since when, by our clock
    obtained: dict[str, datetime] = field(default_factory=dict)  # the certificate's id → when, by our clock

    @classmethod
    def make(cls, context: AgentContext) -> CertificateAgentDriver:
        return cls(context.hub, context.reader, context.clock, context.new_key, certificate_lifetime(context.settings))

    def user_entry(self) -> UserEntry:
        return USER_ENTRY

    def owned_keys(self) -> frozenset[str]:
        return frozenset({decisions.KEY, decisions.CERTIFICATE, decisions.PENDING_KEY})

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:
        return self._assess(wanted, held, self.clock.now()).valid

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        wanted = replace(wanted, signer=self.endpoint_signer or wanted.signer)
        now = self.clock.now()
        pending = held.get(decisions.PENDING_KEY)
        if pending is None:
            assessed = self._assess(wanted, held, now)
            is_kept = isinstance(assessed.decision, Keep)
            return assessed.valid if is_kept and assessed.valid is not None else self._new_key(wanted)
        try:
            key = self.load_key(pending)
        except PkiError:
            return self._new_key(wanted)  # damaged beyond use, and there is no other copy
        names = decisions.request_names(wanted, key)
        found = [self.reader.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name)) for name in names]
        request = decisions.choose_current_request(wanted, found)
        if request is None:
            return await self._create_request(wanted, key, names[0] if found[0] is None else names[-1])
        if (
            self._is_member(wanted)
            and self._is_grace_over(request, now)
            and decisions.is_obsolete_join_request(wanted, held, request, now=now)
        ):
            return self._new_key(wanted)
        spec = decisions.certificate_spec(wanted, key, self.lifetime)
        answer = decisions.decide_request_outcome(spec, key, request, now=now, new_key=self.new_key)
        if isinstance(answer, NewCredential):
            self.obtained[answer.credential_id] = now
        return answer

    def _assess(self, wanted: WantedCredential, held: SecretData, now: datetime) -> CredentialAssessment:
        """Judge a certificate only when it is for the server that this driver reaches: a cluster may change drivers."""
        is_for_endpoint = not wanted.addon and ENDPOINT_CONFIG in held
        if is_for_endpoint != bool(self.endpoint_signer):
            return CredentialAssessment(Obtain(Reason.PLACE_CHANGED), None)
        return decisions.assess_certificate(
            wanted, held, now=now, lifetime=self.lifetime, load_key=self.load_key, obtained=self.obtained
        )

    def _is_member(self, wanted: WantedCredential) -> bool:
        """Whether the hub accepts this cluster; not asked for add-ons, which exist only on accepted ones."""
        if wanted.addon:
            return False
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(wanted.cluster))
        return found is not None and is_true(found, ConditionType.HUB_ACCEPTED)

    def _is_grace_over(self, request: Object, now: datetime) -> bool:
        """Whether the agent had time to switch to its own certificate, by its own clock: the hub's may differ."""
        name = request["metadata"]["name"]
        if name not in self.first_seen:
            self.first_seen.clear()
            self.first_seen[name] = now
        return now - self.first_seen[name] >= JOIN_REQUEST_GRACE

    def _new_key(self, wanted: WantedCredential) -> Pending:
        keep = {decisions.PENDING_KEY: self.new_key().pem.reveal(), **rotation_data(wanted)}
        return Pending("KeyCreated", "a key was made", recheck=decisions.IMMEDIATELY, keep=keep)

    async def _create_request(self, wanted: WantedCredential, key: PrivateKey, name: str) -> Pending:
        request = decisions.request_manifest(wanted, key, self.lifetime, name=name)
        with contextlib.suppress(AlreadyExists):  # sent before a restart: its event is on the way
            await self.hub.create(CERTIFICATE_SIGNING_REQUESTS, request)
        return decisions.awaiting_approval(name)
