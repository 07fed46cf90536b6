"""Authenticates bootstrap tokens of joining machines."""

import hmac
from collections.abc import Mapping
from datetime import datetime

import orjson
from msgspec import Struct

from watchword.api import bootstrap
from watchword.api.meta import Object, is_deleting
from watchword.api.resources import SECRETS
from watchword.api.time import parse_rfc3339
from watchword.apiserver.access.chain import AuthenticatedIdentity
from watchword.apiserver.serving.model import Now, Registry, User, decode_base64

# Read and compared when no Secret is there, so that an unknown id costs as much as a wrong secret.
_DUMMY_SECRET = orjson.dumps(
    SECRETS.manifest(
        bootstrap.token_secret_key("000000"),
        metadata={"uid": "00000000-0000-0000-0000-000000000000", "creationTimestamp": "2000-01-01T00:00:00Z"},
        type=bootstrap.TOKEN_SECRET_TYPE,
        data={
            "token-id": "",
            "token-secret": "bm9ib2R5J3Mgc2VjcmV0IQ==",
            "expiration": "MjAwMC0wMS0wMVQwMDowMDowMFo=",
            "usage-bootstrap-authentication": "dHJ1ZQ==",
            "usage-bootstrap-signing": "dHJ1ZQ==",
            "auth-extra-groups": "c3lzdGVtOmJvb3RzdHJhcHBlcnM6bm9ib2R5",
        },
    )
)


class BootstrapTokenAuthenticator(Struct, frozen=True):
    """Reads the token's Secret afresh each time: deleting or expiring it ends it at once."""

    registry: Registry
    now: Now

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return the bootstrap user; None for every token that is not a good one."""
        found = bootstrap.TOKEN_PATTERN.fullmatch(token)
        if found is None:
            return None
        token_id, secret = found.groups()
        stored = self.registry.get(SECRETS, bootstrap.token_secret_key(token_id))
        user = decide_bootstrap_user(token_id, secret, stored or orjson.loads(_DUMMY_SECRET), now=self.now())
        return None if user is None else AuthenticatedIdentity(user, audiences)


def decide_bootstrap_user(token_id: str, secret: str, stored: Object, *, now: datetime) -> User | None:
    """Decide whether the pair is good according to its Secret; the cleaner need not have run."""
    data = {key: decode_base64(text) for key, text in (stored.get("data") or {}).items()}
    matches = hmac.compare_digest(data.get("token-secret", b""), secret.encode())
    groups = read_groups(data)
    expired = is_expired(data, now=now)  # whatever the secret is, so that a correct guess takes no longer
    good = (
        matches
        and not is_deleting(stored)
        and stored.get("type") == bootstrap.TOKEN_SECRET_TYPE
        and data.get("token-id") == token_id.encode()
        and not expired
        and data.get("usage-bootstrap-authentication") == b"true"
        and groups is not None
    )
    if not good or groups is None:
        return None
    return User(bootstrap.bootstrap_user(token_id), groups=groups)


def is_expired(data: Mapping[str, bytes], *, now: datetime) -> bool:
    """Whether the expiration has come; one that cannot be read counts as past."""
    text = data.get("expiration", b"")
    if not text:
        return False
    expires = parse_rfc3339(text.decode("ascii", "replace"))
    return expires is None or expires <= now


def read_groups(data: Mapping[str, bytes]) -> tuple[str, ...] | None:
    """Return the sorted groups of a token, None when any of them may not be given."""
    groups = {bootstrap.BOOTSTRAPPERS_GROUP}
    for key in (bootstrap.KEY_EXTRA_GROUPS, bootstrap.KEY_GROUPS):
        text = data.get(key, b"").decode("utf-8", "replace")
        asked = text.split(",") if text else []
        if not all(bootstrap.GROUP_PATTERN.fullmatch(group) for group in asked):
            return None
        groups.update(asked)
    return tuple(sorted(groups))
