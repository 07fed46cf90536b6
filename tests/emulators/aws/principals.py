"""Access keys that the emulator issued, and on whose behalf they sign."""

from __future__ import annotations

import hmac
import secrets
import string
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field
from tests.emulators.aws.errors import AwsFault
from tests.emulators.aws.signatures import CLOCK_SKEW, RequestSignature, verify_signature

from watchword.api.http import Request
from watchword.api.sensitive import Sensitive

_ALPHABET = string.ascii_uppercase + string.digits


class AssumedRole(Struct, frozen=True):
    """The role behind a session."""

    arn: str
    id: str  # another one when the role was deleted and created again
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the role."""
        return self.arn.rpartition("/")[2]


class Principal(Struct, frozen=True):
    """The owner of an access key: an administrator of an account, or the session of a role."""

    account: str
    arn: str
    partition: str = "aws"
    role: AssumedRole | None = None  # None: an administrator, who may do everything in the account

    @property
    def session(self) -> str:
        """The name of the role's session."""
        return self.arn.rpartition("/")[2] if self.role else ""

    @property
    def names(self) -> frozenset[str]:
        """What a trust policy calls this principal."""
        own = self.role.arn if self.role is not None else self.arn
        return frozenset({own, self.arn, self.account, f"arn:{self.partition}:iam::{self.account}:root"})


class AccessKey(Struct, frozen=True):
    """What an SDK signs with."""

    id: str
    secret: Sensitive[str]
    principal: Principal
    session_token: Sensitive[str] = field(default_factory=lambda: Sensitive(""))
    expires_at: datetime | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that give the key to an SDK; they contain the secret."""
        found = {"AWS_ACCESS_KEY_ID": self.id, "AWS_SECRET_ACCESS_KEY": self.secret.reveal()}
        token = self.session_token.reveal()
        return found | {"AWS_SESSION_TOKEN": token} if token else found


class AccessKeys(Struct, frozen=True):
    """Every key that was issued; no other signs anything."""

    issued: dict[str, AccessKey] = field(default_factory=dict)

    def add(self, key: AccessKey) -> AccessKey:
        """Let a key sign requests."""
        self.issued[key.id] = key
        return key

    def remove_sessions(self, role_arn: str) -> None:
        """Let the keys of a role's sessions sign nothing any more."""
        for key in list(self.issued.values()):
            if key.principal.role is not None and key.principal.role.arn == role_arn:
                del self.issued[key.id]

    def add_administrator(self, account: str, partition: str) -> AccessKey:
        """Issue a key of a user who may do everything in an account."""
        arn = f"arn:{partition}:iam::{account}:user/administrator"
        key_id = "AKIA" + "".join(secrets.choice(_ALPHABET) for _ in range(16))
        return self.add(AccessKey(key_id, Sensitive(secrets.token_urlsafe(30)), Principal(account, arn, partition)))

    def authenticate(
        self, request: Request, found: RequestSignature, *, now: datetime, lifetime: timedelta = CLOCK_SKEW
    ) -> Principal:
        """Return the owner of the key that signed a request; `AwsFault` when none did."""
        key = self.issued.get(found.key_id)
        if key is None:
            raise AwsFault("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
        if not hmac.compare_digest(key.session_token.reveal().encode(), found.session_token.encode()):
            raise AwsFault("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
        if key.expires_at is not None and now >= key.expires_at:
            raise AwsFault("ExpiredToken", "The security token included in the request is expired", 403)
        verify_signature(request, found, key.secret, now=now, lifetime=lifetime)
        return key.principal
