"""Lists the image pull secrets of a cluster with the state of their tokens, and never a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey
from watchword.api.pull_secrets import DOCKERCFG_TYPE
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.pullsecrets.dockercfg import Credentials, Empty
from watchword.pullsecrets.pull_secret import PullSecret, project_pull_secret
from watchword.pullsecrets.refresh import LATEST, choose_refresh_time


class PullSecretHealth(StrEnum):
    """How a pull secret is, the worst first."""

    EXPIRED = "expired"
    CORRUPT = "corrupt"
    EMPTY = "empty"
    OVERDUE = "overdue"
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


class PullSecretSummary(Struct, frozen=True):
    """All pull secrets in a few figures, for those who show many kinds of credentials."""

    counts: dict[PullSecretHealth, int]
    first_to_expire: PullSecretRow | None


def summarize_pull_secrets(rows: Sequence[PullSecretRow]) -> PullSecretSummary:
    """Count the rows by health, and find the token that ends first."""
    counts = Counter(row.health for row in rows)
    ending = [(row.expires_at, row) for row in rows if row.expires_at is not None]
    first = min(ending, key=lambda pair: pair[0], default=None)
    return PullSecretSummary(dict(counts), None if first is None else first[1])


async def list_pull_secrets(client: Client, *, now: datetime, namespace: str = "") -> list[PullSecretRow]:
    """Return every pull secret of a ServiceAccount, the unhealthy ones first."""
    found = await client.list(SECRETS, namespace=namespace, fields=f"type={DOCKERCFG_TYPE}")
    secrets = [read_stored_secret(secret) for secret in found.items]
    rows = [pull_secret_row(secret, now=now) for secret in secrets if secret is not None]
    order = list(PullSecretHealth)
    return sorted(rows, key=lambda row: (order.index(row.health), row.key))


def read_stored_secret(stored: Object) -> PullSecret | None:
    """Read a Secret as the server stores it; None when it is no image pull secret of a ServiceAccount."""
    kept = project_pull_secret(stored)
    return None if kept is None else PullSecret.read({**kept, "metadata": {**kept["metadata"], **_identity(stored)}})


def pull_secret_row(secret: PullSecret, *, now: datetime) -> PullSecretRow:
    """Judge one pull secret."""
    content = secret.content
    if secret.is_legacy:
        return PullSecretRow(secret.key, secret.account, PullSecretHealth.LEGACY)
    if not isinstance(content, Credentials):
        health = PullSecretHealth.EMPTY if isinstance(content, Empty) else PullSecretHealth.CORRUPT
        return PullSecretRow(secret.key, secret.account, health)
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


def _identity(secret: Object) -> Object:
    metadata = secret["metadata"]
    return {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in metadata}
