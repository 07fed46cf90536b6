"""A bootstrap token as a Secret in kube-system: written, and validated when it is read."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from watchword.api import bootstrap
from watchword.api.bootstrap import GROUP_PATTERN, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE, token_secret_key
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, uid_of
from watchword.api.resources import SECRETS
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.discovery import tokens
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.errors import BootstrapTokenRefused, DiscoveryReason
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound


class TokenUsage(StrEnum):
    """What a token may be used for."""

    SIGNING = "signing"
    AUTHENTICATION = "authentication"


LONG_PAST = datetime(1970, 1, 1, tzinfo=UTC)
BOTH_USAGES = (TokenUsage.AUTHENTICATION, TokenUsage.SIGNING)


class TokenRecord(Struct, frozen=True):
    """The contents of a token's Secret."""

    token: tokens.BootstrapToken
    usages: tuple[TokenUsage, ...] = BOTH_USAGES
    expires: datetime | None = None  # None: never
    description: str = ""
    groups: tuple[str, ...] = ()
    limits: tokens.BootstrapTokenLimits = tokens.UNLIMITED
    uid: str = ""

    def is_expired(self, now: datetime) -> bool:
        """Whether its time has come; equality counts."""
        return self.expires is not None and self.expires <= now

    def allows(self, usage: TokenUsage, now: datetime) -> bool:
        return usage in self.usages and not self.is_expired(now)


class IgnoredSecret(Struct, frozen=True):
    """A Secret that is not a usable token, and why; it has no effect anywhere."""

    name: str
    why: str


def write_token_secret(record: TokenRecord) -> Object:
    values = {
        bootstrap.KEY_TOKEN_ID: record.token.id,
        bootstrap.KEY_TOKEN_SECRET: record.token.secret.reveal(),
        **{bootstrap.KEY_USAGE_PREFIX + usage: "true" for usage in record.usages},
    }
    if record.expires is not None:
        values[bootstrap.KEY_EXPIRATION] = rfc3339(record.expires)
    if record.description:
        values[bootstrap.KEY_DESCRIPTION] = record.description
    if record.groups:
        values[bootstrap.KEY_EXTRA_GROUPS] = ",".join(record.groups)
    annotations = record.limits.to_annotations()
    return SECRETS.manifest(
        bootstrap.token_secret_key(record.token.id),
        metadata={"annotations": annotations} if annotations else {},
        type=bootstrap.TOKEN_SECRET_TYPE,
        data={key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    )


def read_token_secret(secret: Mapping[str, Any]) -> TokenRecord | IgnoredSecret:
    """Read a Secret by the rules under which Kubernetes honours it.

    Only the literal `true` grants a usage; a name or id that does not fit disowns the whole.
    """
    key, values = ObjectKey.of(secret), _decoded(secret.get("data") or {})
    token_id, token_secret = values.get(bootstrap.KEY_TOKEN_ID, ""), values.get(bootstrap.KEY_TOKEN_SECRET, "")
    why = _validate_secret(secret, key, token_id)
    if why:
        return IgnoredSecret(key.name, why)
    if not bootstrap.TOKEN_PATTERN.fullmatch(f"{token_id}.{token_secret}"):
        return IgnoredSecret(key.name, "its token-secret is not 16 lower-case letters or digits")
    return TokenRecord(
        token=tokens.BootstrapToken(token_id, Sensitive(token_secret)),
        usages=_usages(values),
        expires=_expiration(values),
        description=values.get(bootstrap.KEY_DESCRIPTION, ""),
        groups=_groups(values),
        limits=tokens.BootstrapTokenLimits.from_annotations(annotations_of(secret)),
        uid=uid_of(secret),
    )


def read_expiration(secret: Mapping[str, Any]) -> datetime | None:
    """Return when a token Secret ends, None for never; a time that cannot be read is long past."""
    return _expiration(_decoded(secret.get("data") or {}))


def is_token_secret(secret: Mapping[str, Any]) -> bool:
    return (
        secret.get("type") == bootstrap.TOKEN_SECRET_TYPE
        and ObjectKey.of(secret).namespace == bootstrap.TOKEN_SECRET_NAMESPACE
    )


def _validate_secret(secret: Mapping[str, Any], key: ObjectKey, token_id: str) -> str:
    if not is_token_secret(secret):
        return f"it is not of type {bootstrap.TOKEN_SECRET_TYPE} in {bootstrap.TOKEN_SECRET_NAMESPACE}"
    if is_deleting(secret):
        return "it is being deleted"
    if key != bootstrap.token_secret_key(token_id) or not bootstrap.TOKEN_ID_PATTERN.fullmatch(token_id):
        return f"its name is not {bootstrap.TOKEN_SECRET_PREFIX}<token-id>"
    return ""


def _groups(values: Mapping[str, str]) -> tuple[str, ...]:
    texts = (values.get(bootstrap.KEY_EXTRA_GROUPS, ""), values.get(bootstrap.KEY_GROUPS, ""))
    return tuple(dict.fromkeys(group for text in texts if text for group in text.split(",")))


def _usages(values: Mapping[str, str]) -> tuple[TokenUsage, ...]:
    granted = [usage for usage in BOTH_USAGES if values.get(bootstrap.KEY_USAGE_PREFIX + usage) == "true"]
    # One group that may not be given disqualifies a token from authenticating, as in kube-apiserver.
    if not all(bootstrap.GROUP_PATTERN.fullmatch(group) for group in _groups(values)):
        granted = [usage for usage in granted if usage != TokenUsage.AUTHENTICATION]
    return tuple(granted)


def _expiration(values: Mapping[str, str]) -> datetime | None:
    text = values.get(bootstrap.KEY_EXPIRATION, "")
    return (parse_rfc3339(text) or LONG_PAST) if text else None


def _decoded(data: Mapping[str, Any]) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in data.items():
        try:
            values[key] = base64.b64decode(str(value or ""), validate=True).decode()
        except (binascii.Error, ValueError):
            values[key] = "\ufffd"  # fits no rule, so whatever reads it refuses
    return values


class TokenStore(Struct, frozen=True):
    """Token Secrets behind one client."""

    client: Client

    async def create(self, record: TokenRecord, *, dry_run: bool = False) -> None:
        """Store a new token; `BootstrapTokenRefused` when its id is taken or the record contradicts itself."""
        complaint = validate_token_record(record)
        if complaint:
            raise BootstrapTokenRefused(DiscoveryReason.TOKEN_MALFORMED, complaint)
        try:
            await self.client.create(SECRETS, write_token_secret(record), dry_run=dry_run)
        except AlreadyExists as cause:
            raise BootstrapTokenRefused(
                DiscoveryReason.TOKEN_EXISTS,
                f"a token with id {record.token.id} exists: delete it first, or let a new one be generated",
            ) from cause

    async def list(self, labels: str = "") -> tuple[list[TokenRecord], list[IgnoredSecret]]:
        kind = f"type={TOKEN_SECRET_TYPE}"
        found = await self.client.list(SECRETS, namespace=TOKEN_SECRET_NAMESPACE, labels=labels, fields=kind)
        read = [read_token_secret(secret) for secret in found.items]
        records = sorted((r for r in read if isinstance(r, TokenRecord)), key=lambda r: r.token.id)
        return records, [r for r in read if isinstance(r, IgnoredSecret)]

    async def delete(self, token_id: str, *, dry_run: bool = False) -> None:
        """Delete a token; `BootstrapTokenRefused` when there is none of that id."""
        key = token_secret_key(token_id)
        try:
            if dry_run:
                await self.client.get(SECRETS, key)
            else:
                await self.client.delete(SECRETS, key)
        except NotFound as cause:
            raise BootstrapTokenRefused(
                DiscoveryReason.TOKEN_NOT_FOUND,
                f"there is no token with id {token_id}: `watchword token list` shows all",
            ) from cause


def validate_token_record(record: TokenRecord) -> str:
    """Return in one sentence why a record contradicts itself; empty when it does not."""
    if not record.usages:
        return "a token needs at least one usage: signing, authentication"
    if record.groups and TokenUsage.AUTHENTICATION not in record.usages:
        return "groups are given only to tokens that authenticate: add the usage authentication, or drop the groups"
    for group in record.groups:
        if not GROUP_PATTERN.fullmatch(group):
            return f"the group {group!r} may not be given: it must begin with system:bootstrappers: and end in a-z0-9"
    for pattern in record.limits.patterns:
        if not tokens.is_cluster_name_pattern(pattern):
            return f"{pattern!r} is not a cluster name or pattern: use letters, digits, dashes and *"
    if record.limits.maximum_uses is not None and record.limits.maximum_uses < 1:
        return "a token must be good for at least one use"
    return ""


def choose_token(text: str, *, force: bool = False) -> tokens.BootstrapToken:
    """Return the given token, or a new one for an empty text; weak ones only by force."""
    if not text:
        return tokens.BootstrapToken.generate()
    token = tokens.BootstrapToken.parse(text)
    weakness = tokens.validate_token_strength(token)
    if weakness and not force:
        raise BootstrapTokenRefused(DiscoveryReason.TOKEN_WEAK, f"{weakness}, or insist with --force-weak-token")
    return token


def join_command(info: ClusterInfo, token: tokens.BootstrapToken | None, flags: Sequence[str] = ()) -> Sequence[str]:
    """Return the command by which another machine joins, as arguments; with the token, it is a secret."""
    address = info.server.removeprefix("https://")
    pins = [part for pin in info.pins for part in ("--discovery-token-ca-cert-hash", str(pin))]
    secret = ["--token", "@TOKEN_FILE"] if token is None else ["--token", token.reveal()]
    return ["watchword", "join", address, *secret, *pins, *flags]
