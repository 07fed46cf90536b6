"""Image pull secrets as rows of the inventory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from watchword.admin.health import InventoryHealth
from watchword.admin.inventory_rows import CredentialRow
from watchword.api.credential_validity import CredentialValidity
from watchword.api.meta import Object
from watchword.pullsecrets.inventory import PullSecretHealth, PullSecretRow, pull_secret_row
from watchword.pullsecrets.pull_secret import PullSecret

PULL_SECRET = "pull secret"  # noqa: S105 - a kind of credential
CONSEQUENCE = "pods of {account} cannot pull images from the registry"
HEALTHS = {
    PullSecretHealth.EXPIRED: (InventoryHealth.EXPIRED, "expired: is `watchword pull-secrets` running?"),
    PullSecretHealth.CORRUPT: (InventoryHealth.FAILING, "its content cannot be read"),
    PullSecretHealth.EMPTY: (InventoryHealth.PENDING, "waits for its token"),
    PullSecretHealth.OVERDUE: (
        InventoryHealth.OVERDUE,
        "should have been renewed: is `watchword pull-secrets` running?",
    ),
    PullSecretHealth.LEGACY: (InventoryHealth.GOOD, "made from a long-lived token"),
    PullSecretHealth.HEALTHY: (InventoryHealth.GOOD, ""),
}


def decide_pull_secret_rows(secrets: Sequence[Object], *, now: datetime) -> Iterable[CredentialRow]:
    """Return a row for each pull secret; the objects are those of the cache, without tokens."""
    read = [PullSecret.read(secret) for secret in secrets]
    return (_row(pull_secret_row(secret, now=now)) for secret in read if secret is not None)


def _row(row: PullSecretRow) -> CredentialRow:
    health, note = HEALTHS[row.health]
    account = f"{row.key.namespace}/{row.account}"
    return CredentialRow(
        PULL_SECRET,
        "",
        f"account {account}",
        row.key.name,
        CredentialValidity(row.issued_at, row.expires_at, row.renews_at),
        health,
        note,
        CONSEQUENCE.format(account=account),
        renewed=row.renews_at is not None,
    )
