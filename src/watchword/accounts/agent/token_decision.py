"""Which token an account should have, which one the hub holds, and what becomes of it."""

from __future__ import annotations

import hashlib
from datetime import datetime

from msgspec import Struct

from watchword.api.accounts import Account, AccountSecret
from watchword.api.meta import ObjectKey, uid_of
from watchword.api.names import Annotation, service_account_user
from watchword.credentials.bound_token import BoundToken, read_bound_token
from watchword.credentials.evidence import TokenEvidence
from watchword.credentials.lifecycle import Decision, Held, Obtain, Reason, Subject, Wanted, decide

REVOKED = "Revoked"


class LocalAccount(Struct, frozen=True):
    """The ServiceAccount of an account on the cluster."""

    key: ObjectKey
    uid: str

    @property
    def user(self) -> str:
        return service_account_user(self.key.namespace, self.key.name)


class HeldToken(Struct, frozen=True):
    """What is known of the token that the hub holds; the token itself is not kept."""

    secret_uid: str
    token: BoundToken
    request: str
    ca_digest: str
    rotation_request: str

    @classmethod
    def read(cls, secret: AccountSecret) -> HeldToken | None:
        """Return what a Secret says, None when it holds no token that was recorded by an agent."""
        return cls.read_claims(secret) if secret.is_intact else None

    @classmethod
    def read_claims(cls, secret: AccountSecret) -> HeldToken | None:
        """Return what the token itself says, unverified: what is recorded beside it may be about another one."""
        token = read_bound_token(secret.token.reveal())
        if token is None:
            return None
        return cls(
            secret_uid=uid_of(secret.object),
            token=token,
            request=secret.annotations.get(Annotation.TOKEN_REQUEST, ""),
            ca_digest=digest(secret.ca),
            rotation_request=secret.annotations.get(Annotation.ROTATION_REQUEST, ""),
        )


class ClusterTrust(Struct, frozen=True):
    """What the cluster says of itself now: the authority of its server, and what it says of tokens."""

    ca: bytes
    evidence: TokenEvidence


def decide_token(
    account: Account, local: LocalAccount, held: HeldToken | None, trust: ClusterTrust, *, now: datetime
) -> Decision:
    if held is None:
        return Obtain(Reason.MISSING)
    wanted = Wanted(
        Subject(local.user, account_uid=local.uid),
        seed=account.uid,
        request=account.request,
        place=digest(trust.ca),
        rotation=account.rotation_request,
        renews=account.rotates,
    )
    token = held.token
    found = Held(
        Subject(token.subject, account_uid=token.account_uid),
        token.issued_at,
        token.expires_at,
        request=held.request,
        place=held.ca_digest,
        rotation=held.rotation_request,
    )
    evidence = trust.evidence.about(token, seed=account.uid, requested=account.validity)
    return decide(wanted, found, evidence, now=now)


def digest(ca: bytes) -> str:
    return hashlib.sha256(ca).hexdigest()
