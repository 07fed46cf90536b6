"""The bootstrap tokens of a cluster: made, listed, taken away."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from watchword.api.bootstrap import GROUP_PATTERN, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE, token_secret_key
from watchword.api.resources import SECRETS
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.errors import BootstrapTokenRefused, DiscoveryReason
from watchword.discovery.token_limits import is_cluster_name_pattern
from watchword.discovery.token_secret import (
    IgnoredSecret,
    TokenRecord,
    TokenUsage,
    read_token_secret,
    write_token_secret,
)
from watchword.discovery.tokens import BootstrapToken, validate_token_strength
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound


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

    async def list(self) -> tuple[list[TokenRecord], list[IgnoredSecret]]:
        """Return the tokens by id, and the Secrets that are none although they are meant to be."""
        found = await self.client.list(SECRETS, namespace=TOKEN_SECRET_NAMESPACE, fields=f"type={TOKEN_SECRET_TYPE}")
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
        if not is_cluster_name_pattern(pattern):
            return f"{pattern!r} is not a cluster name or pattern: use letters, digits, dashes and *"
    if record.limits.maximum_uses is not None and record.limits.maximum_uses < 1:
        return "a token must be good for at least one use"
    return ""


def choose_token(text: str, *, force: bool = False) -> BootstrapToken:
    """Return the given token, or a new one for an empty text; weak ones only by force."""
    if not text:
        return BootstrapToken.generate()
    token = BootstrapToken.parse(text)
    weakness = validate_token_strength(token)
    if weakness and not force:
        raise BootstrapTokenRefused(DiscoveryReason.TOKEN_WEAK, f"{weakness}, or insist with --force-weak-token")
    return token


def join_command(info: ClusterInfo, token: BootstrapToken | None, *, program: str = "watchword join") -> Sequence[str]:
    """Return the command by which another machine joins, as arguments; with the token, it is a secret."""
    address = info.server.removeprefix("https://")
    pins = [part for pin in info.pins for part in ("--discovery-token-ca-cert-hash", str(pin))]
    secret = ["--token", "@TOKEN_FILE"] if token is None else ["--token", token.reveal()]
    return [*program.split(), address, *secret, *pins]
