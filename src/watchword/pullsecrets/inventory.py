"""Lists the image pull secrets of a cluster with the state of their tokens, and never a token."""

from datetime import datetime, timedelta
from enum import StrEnum

import orjson
from msgspec import Struct

from watchword.api.meta import ObjectKey
from watchword.api.pull_secrets import DOCKERCFG_TYPE
from watchword.api.resources import SECRETS
from watchword.api.time import parse_rfc3339
from watchword.kube.client import Client
from watchword.pullsecrets.pull_secret import Credentials, Empty, PullSecret, project_pull_secret
from watchword.pullsecrets.refresh import LATEST, choose_refresh_time
from watchword.runtime.raw_objects import projected

FIRST_TOKEN_WITHIN = timedelta(minutes=1)
"""An empty Secret that is younger waits for its first token, and is not reported as broken."""


class PullSecretHealth(StrEnum):
    """How a pull secret is, the worst first."""

    EXPIRED = "expired"
    CORRUPT = "corrupt"
    EMPTY = "empty"
    OVERDUE = "overdue"
    NEW = "new"
    LEGACY = "legacy"
    HEALTHY = "healthy"


class PullSecretRow(Struct, frozen=True):
    """One pull secret as people see it."""

    key: ObjectKey
    account: str
    health: PullSecretHealth
    registries: tuple[str, ...] = ()
    issued_at: datetime | None = None
    expires_at: datetime | None = None
    renews_at: datetime | None = None


async def read_pull_secrets(client: Client, *, namespace: str = "", labels: str = "") -> list[PullSecret]:
    """Read every pull secret of a ServiceAccount; one is decoded at a time, and its token is not kept."""
    found = await client.list_raw(
        SECRETS, namespace=namespace, labels=labels, fields=f"type={DOCKERCFG_TYPE}", reduce=bytes
    )
    kept = (projected(raw, project_pull_secret) for raw in found.items)
    secrets = (PullSecret.read(orjson.loads(raw)) for raw in kept if raw is not None)
    return [secret for secret in secrets if secret is not None]


async def list_pull_secrets(
    client: Client, *, now: datetime, namespace: str = "", labels: str = ""
) -> list[PullSecretRow]:
    found = await read_pull_secrets(client, namespace=namespace, labels=labels)
    rows = [pull_secret_row(secret, now=now) for secret in found]
    order = list(PullSecretHealth)
    return sorted(rows, key=lambda row: (order.index(row.health), row.key))


def pull_secret_row(secret: PullSecret, *, now: datetime) -> PullSecretRow:
    content = secret.content
    if secret.is_legacy:
        return PullSecretRow(secret.key, secret.account, PullSecretHealth.LEGACY)
    if not isinstance(content, Credentials):
        return PullSecretRow(secret.key, secret.account, _health_without_token(secret, now))
    token = content.token
    renews_at = choose_refresh_time(token, seed=secret.uid)
    health = PullSecretHealth.HEALTHY
    if token.expires_at <= now:
        health = PullSecretHealth.EXPIRED
    elif renews_at <= now and token.expires_at - now < LATEST:
        health = PullSecretHealth.OVERDUE
    return PullSecretRow(
        secret.key, secret.account, health, content.registries, token.issued_at, token.expires_at, renews_at
    )


def _health_without_token(secret: PullSecret, now: datetime) -> PullSecretHealth:
    if not isinstance(secret.content, Empty):
        return PullSecretHealth.CORRUPT
    created = parse_rfc3339(secret.created_at)
    is_new = created is not None and now - created < FIRST_TOKEN_WITHIN
    return PullSecretHealth.NEW if is_new else PullSecretHealth.EMPTY
